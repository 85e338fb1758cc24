//! The fault sweep: every fault that an emulated device can have, at every place of a small job of each kind of work, alone and in pairs.
//!
//! A job with a fault gives the right result or a typed error, in bounded time, and frees everything on its devices.
//! `ROWLOOM_FAULT_SWEEP=all` tries all pairs; without it every thirty-first pair is tried.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::adapt::ResolvedDevices;
use crate::cost::{cpu_profile, emulated_profile, host_rates};
use crate::device::injected_panic::JOBS_LEFT;
use crate::error::{Error, Result};
use crate::kernel::colmean::{self, Totals};
use crate::kernel::scaling::scaling;
use crate::kernel::{KernelId, gemm, reference};
use crate::machine::Machine;
use crate::matrix::{MultiVector, generate};
use crate::plan::{DeviceSpec, Mode};
use crate::runtime::devices::OpenDevice;
use crate::runtime::{FaultReport, Pool, ProductOptions, Runtime, Transfer};

const K: usize = 2;
const RUNS: usize = 2;
/// The longest that one case may take on a loaded machine; below the watchdog timeout, so that a hang fails the test.
const CASE_TIMEOUT: Duration = Duration::from_secs(15);
const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(20);

/// Faults of devices, each with a place that is counted from 1.
const FAULTS: [&str; 6] = [
    "out_of_memory_at_allocation",
    "refuse_registration",
    "fail_copy",
    "fail_launch",
    "lost_at_operation",
    "panic_at_operation",
];

/// How A, X and Y reach the devices.
const WAYS: [(Mode, bool); 6] = [
    (Mode::Oneshot, false),
    (Mode::Oneshot, true),
    (Mode::Stream, false),
    (Mode::Stream, true),
    (Mode::Resident, false),
    (Mode::Resident, true),
];

/// Builds a small job with these devices and options, runs it [`RUNS`] times and asserts its results. Returns the faults.
type Jobs = Box<dyn Fn(&Runtime, ResolvedDevices, ProductOptions) -> Result<Vec<FaultReport>>>;

struct Sweep {
    pool: Arc<Pool>,
    jobs: Jobs,
}

impl Sweep {
    fn new(jobs: Jobs) -> Self {
        Self { pool: Arc::new(Pool::new(&Machine::detect(), Some(2)).unwrap()), jobs }
    }

    /// Products with a sparse matrix.
    fn sparse() -> Self {
        let a = generate::<f64>("stencil5,n=6", 5, u64::MAX).unwrap().matrix;
        let x = MultiVector::from_fn(a.cols(), K, |row, k| (row * 31 + k * 17) as f64 / 37.0 - 9.5).unwrap();
        let mut expected = MultiVector::zeros(a.rows(), K).unwrap();
        reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
        Self::new(Box::new(move |runtime, resolved, options| {
            let mut product = runtime.product(&a).columns(K).options(options).resolved(resolved).build()?;
            let mut y = MultiVector::zeros(a.rows(), K)?;
            for _ in 0..RUNS {
                y.data_mut().fill(f64::NAN);
                product.bind(&x, &mut y, |bound| bound.apply())?;
                assert!(y.data() == expected.data(), "Y is wrong");
            }
            Ok(product.faults())
        }))
    }

    /// Dense products that update C.
    fn gemm() -> Self {
        let a = MultiVector::<f64>::random(13, 5, 1).unwrap();
        let b = MultiVector::<f64>::random(5, 4, 2).unwrap();
        let old = MultiVector::<f64>::random(13, 4, 3).unwrap();
        let mut expected = MultiVector::<f64>::random(13, 4, 3).unwrap();
        let factors = scaling::<f64>(1.5, -0.5);
        gemm::reference::multiply(factors, a.view(), b.view(), expected.view_mut()).unwrap();
        Self::new(Box::new(move |runtime, resolved, options| {
            let options = ProductOptions { kernel: Some(KernelId::GemmNaive), reproducible: true, ..options };
            let builder = runtime.gemm(&a, 4).options(options).resolved(resolved).updates_c(true);
            let mut product = builder.build()?;
            let mut c = MultiVector::zeros(13, 4)?;
            for _ in 0..RUNS {
                c.data_mut().copy_from_slice(old.data());
                product.apply_scaled(1.5, &b, -0.5, &mut c)?;
                assert!(c.data() == expected.data(), "C is wrong");
            }
            Ok(product.faults())
        }))
    }

    /// Sums of columns.
    fn sums() -> Self {
        let a = MultiVector::<f64>::random(64 * 6 + 5, 3, 1).unwrap();
        let partial = colmean::reference::partial_sums(a.view(), 64);
        let (sums, deviations): (Vec<f64>, Vec<f64>) =
            partial.iter().map(|moments| (moments.sum, moments.deviations)).unzip();
        let expected = Totals::merge(a.rows(), 3, 64, &sums, Some(&deviations)).unwrap();
        Self::new(Box::new(move |runtime, resolved, options| {
            let builder = runtime.column_sums(&a).deviations(true).options(options).resolved(resolved);
            let mut sums = builder.build()?;
            for _ in 0..RUNS {
                assert!(sums.apply()? == expected, "the sums are wrong");
            }
            Ok(sums.faults())
        }))
    }

    /// The faults of jobs on `devices`, or the error. Asserts that results are right, that nothing hangs and that nothing is
    /// left on the devices.
    #[track_caller]
    fn faults(&self, devices: &str, (mode, in_place): (Mode, bool)) -> Result<Vec<FaultReport>> {
        let case = format!("{devices}, {mode:?}, in place: {in_place}");
        let runtime = Runtime::builder()
            .devices(devices)
            .model("none")
            .pool(Machine::detect(), self.pool.clone())
            .open()
            .unwrap();
        // Kept, because a closed device is opened anew when it is asked for again.
        let opened: Vec<Arc<OpenDevice>> =
            names(devices).filter(|name| *name != "cpu").map(|name| runtime.device(name).unwrap()).collect();
        let begin = Instant::now();
        let result = self.run(&runtime, devices, mode, in_place);
        assert!(begin.elapsed() < CASE_TIMEOUT, "{case}: {:?}", begin.elapsed());
        for device in opened {
            let left = device.lock().device().resources_in_use();
            assert_eq!(left, 0, "{case}: {left} allocations and registrations are left on a device");
        }
        match &result {
            Ok(faults) => assert!(faults.iter().all(|fault| !fault.error.is_empty()), "{case}"),
            Err(error) => assert!(matches!(error.exit_code(), 4 | 70), "{case}: {error}"),
        }
        result
    }

    #[track_caller]
    fn run(&self, runtime: &Runtime, devices: &str, mode: Mode, in_place: bool) -> Result<Vec<FaultReport>> {
        let specs = names(devices).map(|name| {
            let mut profile = if name == "cpu" { cpu_profile(2, 1 << 34)? } else { emulated_profile()? };
            // Equal speeds, so that every device gets a share of the rows.
            let emulated = emulated_profile()?;
            (profile.product_ns, profile.f64_gflop_per_s) = (emulated.product_ns, emulated.f64_gflop_per_s);
            if let Some(link) = profile.link.as_mut().filter(|_| in_place) {
                (link.to_device_gb_per_s, link.from_device_gb_per_s, link.latency_us) = (500.0, 500.0, 0.0);
                link.register_s_per_gb = Some(0.0);
            }
            Ok(DeviceSpec {
                name: name.into(),
                profile,
                memory_limit_bytes: None,
                taken_bytes: 0,
                required: true,
            })
        });
        let options = ProductOptions {
            mode: Some(mode),
            chunks: Some(4),
            uses: Some(RUNS as u64),
            transfer: if in_place { Transfer::Registered } else { Transfer::Staged },
            watchdog_timeout: Some(WATCHDOG_TIMEOUT),
            host_memory_limit_bytes: Some(u64::MAX),
            bound: true,
            fixed: true,
            ..ProductOptions::default()
        };
        let devices = specs.collect::<Result<_>>()?;
        let resolved = ResolvedDevices {
            devices,
            host: host_rates(2)?,
            cluster: None,
            factors_path: None,
            has_model: false,
        };
        (self.jobs)(runtime, resolved, options)
    }
}

/// The names of the devices in a list, without options.
fn names(devices: &str) -> impl Iterator<Item = &str> {
    devices.split(',').map(|word| word.split('?').next().unwrap_or(word))
}

/// Calls `attempt` with the places 1, 2, ... until three in a row have no effect; returns how many had one.
fn at_every_place(mut attempt: impl FnMut(u64) -> bool) -> usize {
    let (mut effective, mut without) = (0, 0);
    for place in 1..1000 {
        if attempt(place) {
            (effective, without) = (effective + 1, 0);
        } else {
            without += 1;
        }
        if without == 3 {
            return effective;
        }
    }
    panic!("a fault had an effect at every place");
}

/// One fault at every place, in every way; returns how many had an effect. `registers` says which ways copy something in place.
fn single_faults(sweep: &Sweep, lists: &[&str], registers: impl Fn((Mode, bool)) -> bool) -> usize {
    let mut cases = 0;
    for list in lists {
        for way in WAYS {
            for fault in FAULTS {
                let effective = at_every_place(|place| {
                    let devices = list.replace("FAULT", &format!("{fault}={place}"));
                    let faults = sweep.faults(&devices, way);
                    // With a CPU there is always a device that can take over.
                    assert!(faults.is_ok() || !list.contains("cpu"), "{devices}, {way:?}: {faults:?}");
                    faults.map_or(true, |faults| !faults.is_empty())
                });
                // Only memory that is copied in place is registered.
                let has_effect = fault != "refuse_registration" || registers(way);
                assert_eq!(effective > 0, has_effect, "{fault} on {list}, {way:?}");
                cases += effective;
            }
        }
    }
    println!("{cases} single faults");
    cases
}

#[test]
fn one_fault_at_any_place_gives_the_right_y_or_a_typed_error_and_leaks_nothing() {
    let lists = ["cpu,emu:0?FAULT", "emu:0?FAULT,emu:1", "emu:0?FAULT"];
    let cases = single_faults(&Sweep::sparse(), &lists, |(_, in_place)| in_place);
    assert!(cases > 300, "{cases}");
}

#[test]
fn one_fault_at_any_place_gives_the_right_dense_product_or_a_typed_error_and_leaks_nothing() {
    let cases =
        single_faults(&Sweep::gemm(), &["cpu,emu:0?FAULT", "emu:0?FAULT,emu:1"], |(_, in_place)| in_place);
    assert!(cases > 200, "{cases}");
}

#[test]
fn one_fault_at_any_place_gives_the_right_column_sums_or_a_typed_error_and_leaks_nothing() {
    // A resident A is copied through page-locked memory once, and partial sums are always staged.
    let registers = |(mode, in_place)| in_place && mode != Mode::Resident;
    let cases = single_faults(&Sweep::sums(), &["cpu,emu:0?FAULT", "emu:0?FAULT,emu:1"], registers);
    assert!(cases > 150, "{cases}");
}

#[test]
fn two_faults_give_the_right_y_or_a_typed_error_and_leak_nothing() {
    let sweep = Sweep::sparse();
    let stride = if std::env::var("ROWLOOM_FAULT_SWEEP").is_ok_and(|all| all == "all") { 1 } else { 31 };
    let places = [1, 2, 3, 5, 8];
    let single: Vec<String> =
        FAULTS.iter().flat_map(|fault| places.map(|place| format!("{fault}={place}"))).collect();
    let pairs: Vec<(&String, &String)> =
        single.iter().flat_map(|first| single.iter().map(move |second| (first, second))).collect();
    let mut cases = 0;
    for (number, way) in WAYS.into_iter().enumerate() {
        for (first, second) in pairs.iter().skip(number % stride).step_by(stride) {
            let one = format!("cpu,emu:0?{first}&{second}");
            let two = format!("cpu,emu:0?{first},emu:1?{second}");
            for devices in [one, two] {
                let faults = sweep.faults(&devices, way);
                assert!(faults.is_ok(), "{devices}, {way:?}: {faults:?}");
                cases += 1;
            }
        }
    }
    println!("{cases} pairs of faults");
}

#[test]
fn a_device_without_memory_for_chunks_that_it_takes_over_is_left_out() {
    let sweep = Sweep::sparse();
    let mut left_out = 0;
    for launch in 1..=3 {
        // The first allocation is a workspace for X, scratch, A and Y; the second one has more rows of X.
        for devices in ["emu:0?MEMORY,emu:1?LAUNCH,emu:2", "emu:0,emu:1?LAUNCH,emu:2?MEMORY"] {
            let devices = devices.replace("MEMORY", "out_of_memory_at_allocation=2");
            let devices = devices.replace("LAUNCH", &format!("fail_launch={launch}"));
            let faults = sweep.faults(&devices, (Mode::Oneshot, false));
            let faults = faults.unwrap_or_else(|error| panic!("{devices}: {error}"));
            left_out += faults.iter().filter(|fault| fault.task == "allocation").count();
        }
    }
    assert!(left_out > 0, "no device had to allocate a larger X");
}

#[test]
fn a_host_job_that_panics_is_an_internal_error_and_leaks_nothing() {
    let mut cases = 0;
    let sweeps = [Sweep::sparse(), Sweep::gemm(), Sweep::sums()];
    for (sweep, way) in sweeps.iter().flat_map(|sweep| WAYS.map(|way| (sweep, way))) {
        cases += at_every_place(|place| {
            JOBS_LEFT.set(place);
            let result = sweep.faults("cpu,emu:0", way);
            let panicked = JOBS_LEFT.replace(0) == 0;
            match result {
                Ok(_) => assert!(!panicked, "{way:?}: the panic of job {place} was not reported"),
                Err(error) => {
                    assert!(panicked && matches!(error, Error::Internal(_)), "{way:?}, job {place}: {error}");
                    assert!(error.to_string().contains("panicked"), "{error}");
                }
            }
            panicked
        });
    }
    println!("{cases} panics of host jobs");
    assert!(cases > 90, "{cases}");
}
