//! `--tune`: times the kernels that are predicted fastest on the matrix itself, once, and stores the results.

use std::io::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::console::Console;
use super::kernel_bench::open_one;
use super::options::{Devices, XSource};
use super::session::Session;
use super::x;
use crate::cost::{Correction, Form, Profile, Sample, eligible};
use crate::error::Result;
use crate::files;
use crate::kernel::cpu::{CpuSettings, Kernels};
use crate::kernel::{KernelId, Processor, Schedule};
use crate::machine::Isa;
use crate::matrix::CsrView;
use crate::matrix::Dtype;
use crate::plan::DeviceSpec;
use crate::study::{HostBench, KernelNames, ResidentBench, Subject, time_forms};
use crate::work::{ChunkRows, Features, Fingerprint, Work};

/// Number of kernels to time, with all forms of each.
const KERNELS: usize = 3;
/// Approximate duration for each device.
const TUNE_SECONDS: f64 = 0.5;

/// The measured times of one product on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Tuned {
    matrix: Fingerprint,
    k: u64,
    dtype: Dtype,
    device: String,
    threads: usize,
    forms: Vec<(Form, f64)>,
}

/// Corrects the profile of every device by measured times of its kernels on this matrix.
pub fn tune<T: Kernels>(
    devices: &Devices,
    session: &Session,
    console: Option<&Console>,
    matrix: CsrView<'_, T>,
    k: usize,
    specs: &mut [DeviceSpec],
) -> Result<()> {
    let work = Work::spmm(&matrix, k)?;
    let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
    let features = session.pool.install(|| Features::of(&work, &all));
    for device in specs {
        let mut tuned = Tuned {
            matrix: work.fingerprint(),
            k: k as u64,
            dtype: T::DTYPE,
            device: device.profile.name.clone(),
            threads: if device.profile.processor == Processor::Cpu { session.pool.threads() } else { 0 },
            forms: Vec::new(),
        };
        match tuned.load() {
            Some(forms) => {
                if let Some(console) = console {
                    console.note(&format!("{}: uses the kernel times of an earlier --tune", device.name));
                }
                tuned.forms = forms;
            }
            None => {
                let _spinner = console.map(|on| on.spinner(format!("timing kernels on {}", device.name)));
                let profile = &device.profile;
                let samples = time(devices, session, matrix, k, &device.name, profile, &features)?;
                tuned.forms = samples.iter().map(|sample| (sample.form, sample.seconds)).collect();
                tuned.save();
            }
        }
        correct(&mut device.profile, &features, k as u64, T::DTYPE, &tuned.forms);
    }
    Ok(())
}

/// Times the kernels that are predicted fastest.
fn time<T: Kernels>(
    devices: &Devices,
    session: &Session,
    matrix: CsrView<'_, T>,
    k: usize,
    name: &str,
    profile: &Profile,
    features: &Features,
) -> Result<Vec<Sample>> {
    let limit = session.memory_limit_bytes();
    let of = |kernel: KernelId| Form::all(kernel, T::DTYPE, k as u64, profile.compiles);
    let fastest_s = |kernel: KernelId| {
        let usable = of(kernel).into_iter().filter(|form| form.supports(features));
        usable.map(|form| profile.form_s(&form, features, k as u64, T::DTYPE)).fold(f64::INFINITY, f64::min)
    };
    let mut kernels: Vec<(KernelId, f64)> =
        eligible(profile.processor).iter().map(|&kernel| (kernel, fastest_s(kernel))).collect();
    kernels.retain(|(_, seconds)| seconds.is_finite());
    kernels.sort_by(|a, b| a.1.total_cmp(&b.1));
    kernels.truncate(KERNELS);
    let names: Vec<String> = kernels.iter().map(|(kernel, _)| kernel.name().into()).collect();
    let names = KernelNames::new(&names)?;
    let forms: Vec<Form> = kernels.iter().flat_map(|&(kernel, _)| of(kernel)).collect();
    let load = || x::load::<T>(&XSource::Random, matrix.cols(), Some(k), session.seed, limit);
    let x = session.pool.install(load)?;
    let cpu = CpuSettings {
        k: 0,
        threads: session.pool.threads(),
        isa: Isa::detect(),
        schedule: Schedule::Balanced,
    };
    let mut gpu = open_one(devices, name)?;
    let mut subject: Box<dyn Subject<T> + '_> = match &mut gpu {
        Some(gpu) => Box::new(ResidentBench::new(gpu, matrix, &names)),
        None => Box::new(HostBench::new(&session.pool, matrix, &names, cpu, limit)),
    };
    subject.take_x(x.view())?;
    time_forms(&mut *subject, x.view(), &forms, features, TUNE_SECONDS)
}

/// Measured forms get their measured times; the other forms get the worst ratio of measured to predicted time.
fn correct(profile: &mut Profile, features: &Features, k: u64, dtype: Dtype, forms: &[(Form, f64)]) {
    let plain = Profile { corrections: Vec::new(), ..profile.clone() };
    let factor = |form: &Form, seconds: f64| seconds / plain.form_s(form, features, k, dtype).max(1e-12);
    let worst = forms.iter().map(|(form, seconds)| factor(form, *seconds)).fold(1.0, f64::max);
    if forms.is_empty() {
        return;
    }
    let own = forms.iter().map(|(form, seconds)| Correction {
        kernel: form.kernel,
        variant: Some(form.variant),
        factor: factor(form, *seconds),
    });
    let others =
        eligible(plain.processor).iter().map(|&kernel| Correction { kernel, variant: None, factor: worst });
    profile.corrections = own.chain(others).collect();
}

impl Tuned {
    /// The path of its file.
    fn path(&self) -> Option<PathBuf> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        let Self { matrix, k, dtype, device, threads, .. } = self;
        let name = format!("{}-{k}-{}-{device}-{threads}.json", matrix.row_pointers, dtype.name());
        Some(caches.join("rowloom").join("tuned").join(name))
    }

    /// The stored times of the same product on the same device.
    fn load(&self) -> Option<Vec<(Form, f64)>> {
        let text = std::fs::read(self.path()?).ok()?;
        let found: Self = serde_json::from_slice(&text).ok()?;
        let same = Self { forms: found.forms.clone(), ..self.clone() } == found;
        same.then_some(found.forms)
    }

    /// Stores the times, if the folder is writable.
    fn save(&self) {
        let written = self.path().map(|path| {
            path.parent().map(std::fs::create_dir_all).transpose().map_err(|error| error.to_string())?;
            let text = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
            files::replace(&path, |file| file.write_all(&text)).map_err(|error| error.to_string())
        });
        if let Some(Err(error)) = written {
            tracing::debug!(%error, "the kernel times could not be stored");
        }
    }
}
