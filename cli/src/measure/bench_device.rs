//! A device to measure on, and its kernels on one matrix.

use super::bench::{KernelNames, Subject};
use super::host::HostBench;
use super::resident::ResidentBench;
use super::synchronous_device::SynchronousDevice;
use rowloom::internal::cost::Profile;
use rowloom::internal::error::Result;
use rowloom::internal::kernel::cpu::{CpuSettings, Kernels};
use rowloom::internal::matrix::CsrView;
use rowloom::internal::runtime::{Pool, ProductOptions, Runtime};

/// A device to measure on.
pub struct BenchDevice {
    /// Its rates and weights.
    pub profile: Profile,
    /// Its name.
    pub name: String,
    /// The opened device; none for the host's CPU.
    pub gpu: Option<SynchronousDevice>,
}

impl BenchDevice {
    /// Opens all devices of the runtime, apart from the ones that its products use.
    pub fn open_all(runtime: &Runtime) -> Result<Vec<Self>> {
        let specs = runtime.resolve(&ProductOptions::default())?.devices;
        let open = |spec: rowloom::internal::plan::DeviceSpec| {
            let gpu = SynchronousDevice::open_unless_cpu(runtime, &spec.name)?;
            Ok(Self { profile: spec.profile, name: spec.name, gpu })
        };
        specs.into_iter().map(open).collect()
    }

    /// Peak arithmetic rate, where the profile has one.
    pub fn peak_gflops(&self) -> Option<f64> {
        (self.profile.product_ns > 0.0).then(|| 2.0 / self.profile.product_ns)
    }
}

/// The named kernels on `matrix`: of the GPU, or of the host's CPU if there is none.
pub fn subject<'a, T: Kernels>(
    gpu: Option<&'a mut SynchronousDevice>,
    pool: &'a Pool,
    matrix: CsrView<'a, T>,
    names: &KernelNames,
    cpu: CpuSettings,
    memory_limit_bytes: u64,
) -> Box<dyn Subject<T> + 'a> {
    match gpu {
        Some(gpu) => Box::new(ResidentBench::new(gpu, matrix, names)),
        None => Box::new(HostBench::new(pool, matrix, names, cpu, memory_limit_bytes)),
    }
}
