//! Memory of other libraries, which is in the primary context of the card.

use std::sync::Arc;

use super::context::DeviceMemory;
use super::{CudaDevice, misuse};
use crate::device::{Fault, ForeignMemory, Memory};

impl CudaDevice {
    /// Uses memory of another library; a fault unless the device uses the context in which the memory is.
    pub(super) fn adopt_memory(&mut self, memory: &ForeignMemory) -> Result<Memory, Fault> {
        self.check_open()?;
        if !self.options.primary_context {
            let name = &self.description.name;
            return Err(misuse(format!(
                "{name} has a context of its own, in which memory of other libraries cannot be used"
            )));
        }
        Ok(self.memories.add(Arc::new(DeviceMemory::foreign(&self.context, memory))))
    }
}
