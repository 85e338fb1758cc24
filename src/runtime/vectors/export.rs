//! Rows of a multivector where they are, for other libraries.

use std::sync::atomic::Ordering;

use super::errors::missing_part;
use super::{RowsOf, Vectors, lock};
use crate::device::MemoryPlace;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;

/// Where all rows of a multivector are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportedRows {
    /// The memory.
    pub place: MemoryPlace,
    /// Address of the first row.
    pub address: u64,
    /// Elements from one row to the next.
    pub leading_dimension: usize,
}

impl<T: Kernels> Vectors<T> {
    /// The memory of the only owner of the rows; `None` if several devices own them.
    #[doc(hidden)]
    pub fn memory_place(&self) -> Option<MemoryPlace> {
        match &self.distribution.parts[..] {
            _ if self.distribution.ranks.is_some() || self.machine().is_some() => None,
            [part] => match part.device() {
                Some(device) => device.lock().device().place(),
                None => Some(MemoryPlace::Host),
            },
            _ => None,
        }
    }

    /// Where all rows are, for other libraries to read and write them as long as this multivector lives. Waits for the operations on
    /// it. An error if several devices own the rows, or if other libraries cannot use the memory of the device.
    ///
    /// Another library writes unnoticed, so the host's copy of the values is not used any more if a device is lost.
    #[doc(hidden)]
    pub fn export(&mut self) -> Result<ExportedRows> {
        let Some(place) = self.memory_place() else {
            return Err(Error::usage(match &self.distribution.parts[..] {
                [part] => format!(
                    "the rows are in a context of {0} that other libraries cannot use; open {0}?context=primary",
                    part.name
                ),
                _ => "the rows are on several devices, so other libraries cannot use them in place".into(),
            }));
        };
        self.synchronize()?;
        self.is_exported.store(true, Ordering::Relaxed);
        self.changed();
        let (address, leading_dimension) = match self.data(0)? {
            RowsOf::Host(data) => {
                let mut data = lock(data);
                let leading_dimension = data.leading_dimension();
                (data.data_mut().as_mut_ptr().expose_provenance() as u64, leading_dimension)
            }
            RowsOf::Device(part) => {
                let address = part.allocations.device().lock().device().address_of(part.rows);
                (address.ok_or_else(missing_part)?, self.pitch as usize)
            }
        };
        Ok(ExportedRows { place, address, leading_dimension })
    }
}

#[cfg(all(test, feature = "emulator"))]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::matrix::{MultiVector, generate};
    use crate::runtime::Runtime;

    #[test]
    fn exported_rows_are_those_of_the_vectors() {
        let a = generate::<f64>("stencil5,n=10", 1, 1 << 30).unwrap().matrix;
        let values = MultiVector::random(100, 3, 1).unwrap();
        for devices in ["cpu", "emu:0"] {
            let runtime = Runtime::builder().devices(devices).model("none").open().unwrap();
            let mut vectors = runtime.product(&a).columns(3).build().unwrap().vectors().unwrap();
            vectors.copy_from(&values).unwrap();
            let ExportedRows { place, address, leading_dimension } = vectors.export().unwrap();
            assert_eq!(place, MemoryPlace::Host, "{devices}");
            let rows: *mut f64 = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: the vectors live, nothing else uses them, and the rows and columns are theirs.
            let value = |row: usize, column: usize| unsafe { rows.add(row * leading_dimension + column) };
            // SAFETY: the same.
            let differs = (0..300).any(|at| unsafe { *value(at / 3, at % 3) } != values.row(at / 3)[at % 3]);
            assert!(!differs, "{devices}");
            // SAFETY: the same.
            unsafe { *value(7, 2) = 5.0 };
            let mut back = MultiVector::zeros(100, 3).unwrap();
            vectors.copy_to(&mut back).unwrap();
            assert_eq!(back.row(7)[2], 5.0, "{devices}");
        }
    }

    #[test]
    fn rows_on_several_devices_are_not_exported() {
        let a = generate::<f64>("stencil5,n=30", 1, 1 << 30).unwrap().matrix;
        let runtime = Runtime::builder().devices("emu:0,emu:1").model("none").open().unwrap();
        let mut vectors = runtime.product(&a).columns(3).build().unwrap().vectors().unwrap();
        assert!(matches!(vectors.export(), Err(Error::Usage(_))));
    }
}
