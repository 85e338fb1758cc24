//! Calibration: times kernels on generated matrices and fits a model of the machine to the times.

use std::time::Instant;

use super::bench::KernelNames;
use super::bench_device::{BenchDevice, subject};
use super::form_timing::warm_up;
use super::host_memory::measure_host;
use super::oracle::time_forms;
use rowloom::internal::cost::{Form, Model};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::cpu::{CpuSettings, Kernels};
use rowloom::internal::kernel::{KernelId, Schedule};
use rowloom::internal::machine::Isa;
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::runtime::Runtime;
use rowloom::internal::work::ChunkRows;
use rowloom::internal::work::spmm::cost::{
    KernelFit, Sample, calibration_cases, eligible, fit_device, least_gb_per_s,
};
use rowloom::internal::work::spmm::{Features, Spmm};

/// Seconds for timing all forms of a case, approximately.
const CASE_SECONDS: f64 = 0.25;

/// How a machine is calibrated.
pub struct CalibrationSettings<'a> {
    /// Seconds for all devices, approximately.
    pub seconds: f64,
    /// Seed of the matrices and of X.
    pub seed: u64,
    /// Limit of the host's memory.
    pub memory_limit_bytes: u64,
    /// Called with the name of each measurement before it begins.
    pub progress: &'a dyn Fn(&str),
    /// Whether to stop early; asked between measurements.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Times the kernels of all devices of the runtime and fits them. The devices replace those of the same name in `model`. Returns how
/// well each kernel is predicted.
pub fn calibrate(
    runtime: &Runtime,
    settings: &CalibrationSettings<'_>,
    model: &mut Model,
) -> Result<Vec<KernelFit>> {
    let (machine, pool) = (runtime.machine(), runtime.pool());
    let cache_bytes = machine.largest_cache_bytes();
    let mut devices = BenchDevice::open_all(runtime)?;
    let share_s = settings.seconds / devices.len().max(1) as f64;
    let start = Instant::now();
    let mut fits = Vec::new();
    for (index, device) in devices.iter_mut().enumerate() {
        if device.gpu.is_none() {
            (settings.progress)("the host's memory");
            model.host = Some(measure_host(pool, machine)?);
        }
        let until_s = share_s * (index + 1) as f64;
        let mut measuring = Measuring { runtime, settings, device, start, until_s, samples: Vec::new() };
        measuring.run()?;
        let samples = measuring.samples;
        if let (None, Some(host)) = (&device.gpu, &mut model.host) {
            let rates = samples.iter().map(|sample| least_gb_per_s(cache_bytes, sample));
            host.memory_gb_per_s = rates.fold(host.memory_gb_per_s, f64::max);
        }
        let fit = || fit_device(&device.name, &device.profile, pool.threads(), &samples);
        let (fitted, own) = pool.install(fit);
        model.replace_device(fitted);
        fits.extend(own);
        if (settings.stopped)() {
            break;
        }
    }
    Ok(fits)
}

/// The measurement of one device.
struct Measuring<'a> {
    runtime: &'a Runtime,
    settings: &'a CalibrationSettings<'a>,
    device: &'a mut BenchDevice,
    start: Instant,
    /// Seconds after the start at which no further case begins, once there is one.
    until_s: f64,
    samples: Vec<Sample>,
}

impl Measuring<'_> {
    /// Times all forms on as many matrices as there is time for, at least one.
    fn run(&mut self) -> Result<()> {
        let pool = self.runtime.pool();
        let cases = calibration_cases(&self.device.name, self.runtime.machine().largest_cache_bytes());
        for (spec, columns) in cases {
            if self.is_enough(self.samples.len()) {
                break;
            }
            (self.settings.progress)(&format!("{spec} on {}", self.device.name));
            let (limit, seed) = (self.settings.memory_limit_bytes, self.settings.seed);
            let matrix: Csr<f64> = match pool.install(|| generate(&spec, seed, limit / 4)) {
                // With little memory fewer matrices are measured.
                Err(Error::DoesNotFit { .. }) => continue,
                generated => generated?.matrix,
            };
            let single: Csr<f32> = pool.install(|| matrix.cast())?;
            self.matrix(&matrix, columns)?;
            self.matrix(&single, columns)?;
        }
        Ok(())
    }

    fn is_enough(&self, samples: usize) -> bool {
        (self.settings.stopped)() || samples > 0 && self.start.elapsed().as_secs_f64() > self.until_s
    }

    fn matrix<T: Kernels>(&mut self, matrix: &Csr<T>, columns: &[usize]) -> Result<()> {
        let (a, pool) = (matrix.view(), self.runtime.pool());
        let (limit, seed) = (self.settings.memory_limit_bytes, self.settings.seed);
        let (processor, compiles) = (self.device.profile.processor, self.device.profile.compiles);
        let kernels = eligible(processor);
        let names: Vec<String> = kernels.iter().map(|kernel| kernel.name().into()).collect();
        let names = KernelNames::new(&names)?;
        let (threads, isa) = (pool.threads(), Isa::detect());
        let cpu = CpuSettings { k: 0, threads, isa, schedule: Schedule::Balanced };
        let mut gpu = self.device.gpu.take();
        let mut samples = Vec::new();
        let mut time = || -> Result<()> {
            let mut subject = subject(gpu.as_mut(), pool, a, &names, cpu, limit);
            for &k in columns {
                if self.is_enough(samples.len()) {
                    break;
                }
                let vector_bytes = (matrix.rows() + matrix.cols()) as u64 * (k * size_of::<T>()) as u64;
                if vector_bytes > limit / 4 {
                    continue;
                }
                let x = pool.install(|| MultiVector::<T>::random(matrix.cols(), k, seed))?;
                subject.take_x(x.view())?;
                if samples.is_empty() {
                    warm_up(&mut *subject, x.view())?;
                }
                let work = Spmm::new(&a, k)?;
                let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
                let features = pool.install(|| Features::of(&work, &all));
                let forms = |kernel: &KernelId| Form::all(*kernel, T::DTYPE, k as u64, compiles);
                let forms: Vec<Form> = kernels.iter().flat_map(forms).collect();
                samples.extend(time_forms(&mut *subject, x.view(), &forms, &features, CASE_SECONDS)?);
            }
            Ok(())
        };
        let timed = time();
        self.device.gpu = gpu;
        self.samples.extend(samples);
        timed
    }
}
