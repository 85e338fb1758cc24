//! Products on arrays of another library in the memory of one device.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use super::vector_product::{ForeignVectors, VectorProduct};
use crate::device::{Description, Fault, ForeignMemory, MemoryRange, StreamHandle};
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::cpu::Kernels;
use crate::runtime::devices::{Allocations, COMPUTE, OpenDevice, OperationRecord, Pool};
use crate::runtime::job::Scaling;
use crate::runtime::vectors::errors::missing_part;
use crate::runtime::vectors::host_copy::HostCopy;
use crate::runtime::vectors::row_distribution::{Part, RowDistribution};
use crate::runtime::vectors::{DevicePart, PartData, Vectors};
use crate::work::pitch_bytes;

/// The device that owns all rows.
fn only_device(distribution: &RowDistribution) -> Result<(&Part, &Arc<OpenDevice>)> {
    let only = match &distribution.parts[..] {
        [part] => part.planned.as_ref().map(|device| (part, device)),
        _ => None,
    };
    let (part, device) =
        only.ok_or_else(|| Error::usage("arrays on a card need a product on this card alone"))?;
    if !device.is_open() {
        return Err(Error::Device { device: part.name.clone(), reason: "the device was lost".into() });
    }
    Ok((part, device))
}

impl<T: Kernels> VectorProduct<'_, T> {
    /// Y = alpha A X + beta Y with rows of X and Y in the memory of the product's only device, at the pitch of its vectors. It is issued
    /// in the order of `stream`. Without a stream it is issued on [`Self::compute_stream`], and has ended when this returns.
    pub fn apply_foreign(
        &mut self,
        scaling: Scaling,
        x: ForeignMemory,
        y: ForeignMemory,
        stream: Option<StreamHandle>,
    ) -> Result<()> {
        let mut vectors = match self.foreign.take() {
            Some(vectors) => vectors,
            None => {
                let (x, y) = (&self.x, &self.y);
                let pool = self.runtime.pool();
                ForeignVectors {
                    x: Vectors::unbound(x, pool, self.k)?,
                    y: Vectors::unbound(y, pool, self.k)?,
                }
            }
        };
        let applied = (|| {
            vectors.x.adopt(x)?;
            vectors.y.adopt(y)?;
            self.issue(scaling, &vectors, stream)
        })();
        vectors.x.release();
        vectors.y.release();
        self.foreign = Some(vectors);
        applied
    }

    fn issue(
        &self,
        scaling: Scaling,
        vectors: &ForeignVectors<T>,
        stream: Option<StreamHandle>,
    ) -> Result<()> {
        let (part, _) = only_device(&self.y)?;
        let run = self.product_run(scaling, &vectors.x, &vectors.y)?;
        let issued = {
            let mut locked = self.prepared()?.lock_with_a()?;
            let chunks = 0..self.chunks.len();
            let launches = chunks.map(|chunk| run.launch(chunk, false)).collect::<Result<Vec<_>>>()?;
            let predicted_s = self.plan().chunks.iter().map(|chunk| chunk.predicted_s);
            let device = locked.device(DeviceId(part.index as u32)).ok_or_else(missing_part)?;
            match (device.device().compute_stream(), stream) {
                (None, _) => {
                    let launches = launches.into_iter().zip(predicted_s);
                    device.run(part.operations.timeouts(), "product", COMPUTE, launches)
                }
                (Some(_), Some(stream)) => device.issue("product", stream, launches, predicted_s.sum()),
                (Some(own), None) => {
                    let issued = device.issue("product", own, launches, predicted_s.sum());
                    issued.and_then(|()| device.finish_issued())
                }
            }
        };
        issued.map_err(|fault| {
            part.close_if_lost();
            fault.into_error(&part.name)
        })
    }

    /// The stream that computes the product; `None` for an emulated device.
    pub fn compute_stream(&self) -> Result<Option<StreamHandle>> {
        Ok(only_device(&self.y)?.1.lock().device().compute_stream())
    }

    /// The device, and when the last product on arrays of other libraries began and ended on it. Waits for this product.
    pub fn foreign_record(&self) -> Result<Option<(Description, OperationRecord)>> {
        if self.foreign.is_none() {
            return Ok(None);
        }
        let (part, device) = only_device(&self.y)?;
        let mut device = device.lock();
        let times = device.last_issued_ns().map_err(|fault| fault.into_error(&part.name))?;
        let record =
            |(start_ns, end_ns)| OperationRecord { name: "product", lane: COMPUTE, start_ns, end_ns };
        Ok(times.map(|times| (device.description(), record(times))))
    }
}

impl<T: Kernels> Vectors<T> {
    /// A multivector without memory for its rows.
    fn unbound(distribution: &Arc<RowDistribution>, pool: &Arc<Pool>, k: usize) -> Result<Self> {
        let (part, device) = only_device(distribution)?;
        let mut allocations = Allocations::on(device);
        let mut allocate = || -> std::result::Result<_, Fault> {
            Ok((allocations.allocate(1)?, allocations.allocate_pinned(1)?))
        };
        let (nothing, pinned) = allocate().map_err(|fault| fault.into_error(&part.name))?;
        let scratch = MemoryRange { memory: nothing, begin: 0, end: 1 };
        let device = DevicePart {
            rows: nothing,
            scratch,
            pinned,
            allocations,
            // Its rows are arrays of another library, whose faults are reported by the call.
            faults_before: usize::MAX,
            moved: OnceLock::new(),
        };
        let value_bytes = size_of::<T>() as u64;
        Ok(Self {
            distribution: distribution.clone(),
            pool: pool.clone(),
            k,
            pitch: pitch_bytes(k as u64 * value_bytes) / value_bytes,
            parts: vec![PartData::Device(device)],
            exchanged: AtomicBool::new(false),
            keeps_copy: false,
            host_copy: Mutex::new(HostCopy::Nothing),
            is_exported: AtomicBool::new(false),
            simulated: None,
        })
    }

    /// Uses `memory` for the rows.
    fn adopt(&mut self, memory: ForeignMemory) -> Result<()> {
        let needed_bytes = self.distribution.rows * self.row_bytes();
        if memory.bytes() < needed_bytes {
            return Err(Error::usage(format!(
                "the array has {} bytes; {} rows need {needed_bytes}",
                memory.bytes(),
                self.distribution.rows
            )));
        }
        self.changed();
        let (part, device) = only_device(&self.distribution)?;
        let adopted = device.lock().device().adopt(memory);
        let adopted = adopted.map_err(|fault| fault.into_error(&part.name))?;
        if let Some(PartData::Device(held)) = self.parts.first_mut() {
            held.rows = adopted;
        }
        Ok(())
    }

    /// Ends the use of adopted memory by later operations. Those on a stream may still use it, as its owner knows.
    fn release(&mut self) {
        if let Some(PartData::Device(held)) = self.parts.first_mut() {
            let adopted = std::mem::replace(&mut held.rows, held.scratch.memory);
            let mut device = held.allocations.device().lock();
            if adopted != held.scratch.memory && device.is_open() {
                device.device().free(adopted);
            }
        }
    }
}

#[cfg(all(test, feature = "emulator"))]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::matrix::{MultiVector, generate};
    use crate::runtime::Runtime;

    fn memory_of(values: &MultiVector<f64>) -> ForeignMemory {
        let data = values.data();
        // SAFETY: the tests keep the multivectors, which only the emulated device uses during a product.
        unsafe { ForeignMemory::new(data.as_ptr().expose_provenance() as u64, size_of_val(data) as u64) }
    }

    #[test]
    fn arrays_of_another_library_get_the_product_in_place() {
        let runtime = Runtime::builder().devices("emu:0").model("none").open().unwrap();
        let a = generate::<f64>("stencil5,n=20", 1, 1 << 30).unwrap().matrix;
        let mut product = runtime.product(&a).columns(4).build().unwrap();
        let x = MultiVector::random(400, 4, 1).unwrap();
        let mut expected = MultiVector::filled(400, 4, 1.0).unwrap();
        let y = MultiVector::filled(400, 4, 1.0).unwrap();
        for (alpha, beta) in [(1.0, 0.0), (2.0, -0.5), (1.0, 0.0)] {
            product.apply_scaled(alpha, &x, beta, &mut expected).unwrap();
            product.apply_foreign(alpha, memory_of(&x), beta, memory_of(&y), None).unwrap();
            let differences = y.data().iter().zip(expected.data()).map(|(y, expected)| (y - expected).abs());
            assert!(differences.fold(0.0, f64::max) < 1e-12);
        }
    }

    #[test]
    fn arrays_that_are_too_short_and_products_on_several_devices_are_refused() {
        let a = generate::<f64>("stencil5,n=20", 1, 1 << 30).unwrap().matrix;
        let (x, short) = (MultiVector::zeros(400, 4).unwrap(), MultiVector::zeros(399, 4).unwrap());
        for (devices, y) in [("emu:0", &short), ("cpu,emu:0", &x), ("cpu", &x)] {
            let runtime = Runtime::builder().devices(devices).model("none").open().unwrap();
            let mut product = runtime.product(&a).columns(4).build().unwrap();
            let refused = product.apply_foreign(1.0, memory_of(&x), 0.0, memory_of(y), None);
            assert!(matches!(refused, Err(Error::Usage(_))), "{devices}");
        }
    }
}
