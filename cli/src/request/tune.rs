//! `--tune`: times the kernels that are predicted fastest on the matrix itself, once, and stores the results.

use crate::args::options::XSource;
use crate::console::Console;
use crate::measure::{KernelNames, SynchronousDevice, subject, time_forms};
use crate::operands::session::Session;
use crate::operands::x;
use rowloom::internal::adapt::{FormTimes, correct_profile, kernels_to_time};
use rowloom::internal::cost::Form;
use rowloom::internal::error::Result;
use rowloom::internal::kernel::cpu::{CpuSettings, Kernels};
use rowloom::internal::kernel::{KernelId, Processor, Schedule};
use rowloom::internal::machine::Isa;
use rowloom::internal::matrix::CsrView;
use rowloom::internal::plan::DeviceSpec;
use rowloom::internal::runtime::Runtime;
use rowloom::internal::work::spmm::cost::{Sample, eligible};
use rowloom::internal::work::spmm::{Features, Spmm};
use rowloom::internal::work::{ChunkRows, Kind};

/// Approximate duration for each device.
const TUNE_SECONDS: f64 = 0.5;

/// What `--tune` times kernels with.
pub struct Tuning<'a> {
    /// Opens the devices.
    pub runtime: &'a Runtime,
    /// The threads and the machine.
    pub session: &'a Session,
    /// Where the progress is shown.
    pub console: Option<&'a Console>,
}

impl Tuning<'_> {
    /// Corrects the profile of every device by measured times of its kernels on this matrix. If `is_divided`, parts of the matrix take their
    /// share of these times, without the weights of the kernels.
    pub fn correct<T: Kernels>(
        &self,
        matrix: CsrView<'_, T>,
        k: usize,
        specs: &mut [DeviceSpec],
        is_divided: bool,
    ) -> Result<()> {
        let Self { session, console, .. } = *self;
        let work = Spmm::new(&matrix, k)?;
        let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
        let (features, fingerprint) =
            session.pool.install(|| (Features::of(&work, &all), work.fingerprint()));
        for device in specs {
            let mut times = FormTimes {
                matrix: fingerprint.clone(),
                k: k as u64,
                dtype: T::DTYPE,
                device: device.profile.name.clone(),
                threads: if device.profile.processor == Processor::Cpu { session.pool.threads() } else { 0 },
                forms: Vec::new(),
            };
            match times.load() {
                Some(forms) => {
                    if let Some(console) = console {
                        console.note(&format!("{}: uses the kernel times of an earlier --tune", device.name));
                    }
                    times.forms = forms;
                }
                None => {
                    let _spinner = console.map(|on| on.spinner(format!("timing kernels on {}", device.name)));
                    let samples = self.time(matrix, k, device, &features)?;
                    times.forms = samples.iter().map(|sample| (sample.form, sample.seconds)).collect();
                    times.save();
                }
            }
            let kernels = work.kernels(device.profile.processor);
            if is_divided {
                device.profile.weights.clear();
            }
            correct_profile(&mut device.profile, kernels, &features.into(), k as u64, T::DTYPE, &times.forms);
        }
        Ok(())
    }

    /// Times the kernels that are predicted fastest.
    fn time<T: Kernels>(
        &self,
        matrix: CsrView<'_, T>,
        k: usize,
        device: &DeviceSpec,
        features: &Features,
    ) -> Result<Vec<Sample>> {
        let (session, profile) = (self.session, &device.profile);
        let limit = session.memory_limit_bytes();
        let kernels =
            kernels_to_time(profile, eligible(profile.processor), &(*features).into(), k as u64, T::DTYPE);
        let names: Vec<String> = kernels.iter().map(|kernel| kernel.name().into()).collect();
        let names = KernelNames::new(&names)?;
        let of = |&kernel: &KernelId| Form::all(kernel, T::DTYPE, k as u64, profile.compiles);
        let forms: Vec<Form> = kernels.iter().flat_map(of).collect();
        let load = || x::load::<T>(&XSource::Random, matrix.cols(), Some(k), session.seed, limit);
        let x = session.pool.install(load)?;
        let cpu = CpuSettings {
            k: 0,
            threads: session.pool.threads(),
            isa: Isa::detect(),
            schedule: Schedule::Balanced,
        };
        let mut gpu = SynchronousDevice::open_unless_cpu(self.runtime, &device.name)?;
        let mut subject = subject(gpu.as_mut(), &session.pool, matrix, &names, cpu, limit);
        subject.take_x(x.view())?;
        time_forms(&mut *subject, x.view(), &forms, features, TUNE_SECONDS)
    }
}

/// Corrects the profile of every CPU by the times that its weights predict for the whole matrix. Parts of the matrix then take their
/// share of these times, without the weights.
pub fn correct_by_predictions<T: Kernels>(
    session: &Session,
    matrix: CsrView<'_, T>,
    k: usize,
    specs: &mut [DeviceSpec],
) -> Result<()> {
    let work = Spmm::new(&matrix, k)?;
    let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
    let features = session.pool.install(|| Features::of(&work, &all));
    for device in specs {
        let profile = &mut device.profile;
        let kernels = work.kernels(profile.processor);
        let forms =
            kernels.iter().flat_map(|&kernel| Form::all(kernel, T::DTYPE, k as u64, profile.compiles));
        let timed: Vec<(Form, f64)> =
            forms.map(|form| (form, profile.form_s(&form, &features, k as u64, T::DTYPE))).collect();
        profile.weights.clear();
        correct_profile(profile, kernels, &features.into(), k as u64, T::DTYPE, &timed);
    }
    Ok(())
}
