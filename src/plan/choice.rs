//! The choice of a chunk's kernels.

use super::draft::Draft;
use super::resident::reading;
use crate::cost::{Choice, Form, Profile, StoredForm};
use crate::error::{Error, Result};
use crate::kernel::Processor;
use crate::work::{ChunkRows, Facts};

/// The kernels of a chunk on a CPU and on a GPU, and the reason for the one on its own device.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChunkKernels {
    pub cpu: Form,
    pub gpu: Form,
    pub reason: String,
    /// Predicted seconds of the kernel on the chunk's own device.
    pub home_s: f64,
}

impl Draft<'_> {
    /// The form for a piece on `device`.
    pub fn choice(&self, device: &Profile, piece: &ChunkRows, facts: &Facts) -> Result<Choice> {
        self.request.work.choose(device, piece, facts, &self.forms)
    }

    /// The kernels for a piece of `home`, on that device and on the others. On GPUs they read it as it is `stored`, where it is.
    pub fn chunk_kernels(
        &self,
        home: Option<&Profile>,
        piece: &ChunkRows,
        facts: &Facts,
        stored: Option<StoredForm>,
    ) -> Result<ChunkKernels> {
        let profiles = || self.devices.iter().map(|device| &device.profile);
        let of = |processor| home.into_iter().chain(profiles()).find(move |on| on.processor == processor);
        let (on_gpu, on_cpu) = (of(Processor::Gpu), of(Processor::Cpu).unwrap_or(self.host_profile));
        let cpu = self.choice(on_cpu, piece, facts)?;
        let gpu = match on_gpu {
            Some(profile) => match stored {
                Some(stored) => {
                    let forms = reading(&self.forms, stored);
                    if forms.gpu.is_empty() {
                        return Err(Error::Internal("no kernel for this K reads the stored A".into()));
                    }
                    self.request.work.choose(profile, piece, facts, &forms)?
                }
                None => self.choice(profile, piece, facts)?,
            },
            None => {
                let form = self.forms.gpu.first().map_or(cpu.form, |candidate| candidate.form);
                Choice { form, ..cpu.clone() }
            }
        };
        let at_home = if home.is_some_and(|home| home.processor == Processor::Gpu) { &gpu } else { &cpu };
        let (home_s, reason) = (at_home.predicted_s, at_home.reason.clone());
        Ok(ChunkKernels { cpu: cpu.form, gpu: gpu.form, reason, home_s })
    }
}
