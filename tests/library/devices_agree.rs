//! Products on several devices equal those of the CPU bit for bit, for any division of rows, delays of lanes and failures of
//! devices.

use std::sync::Arc;
use std::time::Duration;

use rowloom::internal::adapt::ResolvedDevices;
use rowloom::internal::cost::{cpu_profile, emulated_profile, host_rates};
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::cuda::{CUDA_KERNELS, Layout, Variant};
use rowloom::internal::kernel::{KernelId, Order, reference};
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::{Csr, MultiVector, Scalar, generate};
use rowloom::internal::plan::{DeviceSpec, Mode, Plan, Registered, XPlan};
use rowloom::internal::runtime::{FaultReport, Pool, Product, ProductOptions, RunReport, Runtime, Transfer};
use rowloom::{Error, Result};

/// The devices and settings of a product.
#[derive(Clone)]
pub struct Case<'a> {
    /// `cpu`, `emu:0`, `emu:1?fail_launch=3`.
    pub devices: &'a [String],
    pub mode: Option<Mode>,
    pub chunks: Option<usize>,
    pub kernel: Option<KernelId>,
    pub variant: Option<Variant>,
    /// A, X and Y are registered and copied without staging if the device supports it.
    pub register: bool,
    pub runs: u64,
    pub watchdog_timeout: Duration,
}

impl Default for Case<'_> {
    fn default() -> Self {
        let watchdog_timeout = Duration::from_secs(20);
        let (chunks, kernel, variant) = (None, None, None);
        let mode = Some(Mode::Oneshot);
        Self { devices: &[], mode, chunks, kernel, variant, register: false, runs: 1, watchdog_timeout }
    }
}

pub fn pool() -> Arc<Pool> {
    Arc::new(Pool::new(&Machine::detect(), Some(2)).unwrap())
}

pub fn words(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}

fn x_for<T: Scalar>(rows: usize, k: usize) -> MultiVector<T> {
    MultiVector::from_fn(rows, k, |row, k| T::from_f64(((row * 31 + k * 17) % 101) as f64 / 37.0 - 1.3))
        .unwrap()
}

fn bits<T: Scalar>(values: &MultiVector<T>) -> Vec<u64> {
    values.data().iter().map(|value| value.to_f64().to_bits()).collect()
}

pub fn expected<T: Kernels>(a: &Csr<T>, k: usize) -> Vec<u64> {
    let mut y = MultiVector::<T>::zeros(a.rows(), k).unwrap();
    reference::csr(a.view(), x_for::<T>(a.cols(), k).view(), &mut y.view_mut()).unwrap();
    bits(&y)
}

/// Y of the last run, and the reports of all runs.
fn compute<T: Kernels>(
    pool: &Arc<Pool>,
    a: &Csr<T>,
    k: usize,
    case: &Case<'_>,
) -> Result<(Vec<u64>, Vec<RunReport>)> {
    let (y, reports, _) = compute_and_report(pool, a, k, case)?;
    Ok((y, reports))
}

/// Y of the last run, and all faults, preparation included.
pub fn faulty(pool: &Arc<Pool>, a: &Csr<f64>, case: &Case<'_>) -> Result<(Vec<u64>, Vec<FaultReport>)> {
    let (y, _, faults) = compute_and_report(pool, a, 4, case)?;
    Ok((y, faults))
}

/// Y of the last run, the reports of all runs, and the faults during preparation.
fn compute_and_report<T: Kernels>(
    pool: &Arc<Pool>,
    a: &Csr<T>,
    k: usize,
    case: &Case<'_>,
) -> Result<(Vec<u64>, Vec<RunReport>, Vec<FaultReport>)> {
    with_product(pool, a, k, case, |product| {
        let x = x_for::<T>(a.cols(), k);
        let mut y = MultiVector::<T>::zeros(a.rows(), k)?;
        let mut reports = Vec::new();
        for _ in 0..case.runs {
            y.data_mut().fill(T::from_f64(f64::NAN));
            product.bind(&x, &mut y, |bound| bound.apply())?;
            reports.extend(product.take_report());
        }
        Ok((bits(&y), reports, product.faults()))
    })
}

/// Prepares the product and calls `with` with it.
fn with_product<T: Kernels, R>(
    pool: &Arc<Pool>,
    a: &Csr<T>,
    k: usize,
    case: &Case<'_>,
    with: impl FnOnce(&mut Product<'_, T>) -> Result<R>,
) -> Result<R> {
    let mut devices = Vec::new();
    for word in case.devices {
        let name = word.split('?').next().unwrap_or(word);
        let mut profile = if name == "cpu" { cpu_profile(2, 1 << 34)? } else { emulated_profile()? };
        // The CPU is modelled as slow as the emulator, so that the plan gives both a share of the rows.
        profile.product_ns = emulated_profile()?.product_ns;
        if let Some(link) = profile.link.as_mut().filter(|_| case.register) {
            // A link faster than host copies and free registration make the plan choose registered memory.
            (link.to_device_gb_per_s, link.from_device_gb_per_s, link.latency_us) = (500.0, 500.0, 0.0);
            link.register_s_per_gb = Some(0.0);
        }
        devices.push(DeviceSpec {
            name: name.into(),
            profile,
            memory_limit_bytes: None,
            taken_bytes: 0,
            required: true,
        });
    }
    let options = ProductOptions {
        mode: case.mode,
        kernel: case.kernel,
        variant: case.variant,
        chunks: case.chunks,
        uses: Some(case.runs),
        transfer: if case.register { Transfer::Registered } else { Transfer::Auto },
        watchdog_timeout: Some(case.watchdog_timeout),
        host_memory_limit_bytes: Some(u64::MAX),
        bound: true,
        fixed: true,
        ..ProductOptions::default()
    };
    let runtime = Runtime::builder()
        .devices(case.devices.join(","))
        .model("none")
        .pool(Machine::detect(), pool.clone())
        .open()?;
    let resolved = ResolvedDevices {
        devices,
        host: host_rates(2)?,
        cluster: None,
        factors_path: None,
        has_model: false,
    };
    let mut product = runtime.product(a).columns(k).options(options).resolved(resolved).build()?;
    check_registered(product.plan(), case, k * size_of::<T>());
    with(&mut product)
}

/// Asserts that the plan registers exactly the arrays that it should.
fn check_registered(plan: &Plan, case: &Case<'_>, row_bytes: usize) {
    if case.devices.iter().any(|device| device.contains("refuse")) {
        return;
    }
    for device in
        plan.devices.iter().filter(|device| device.profile.link.is_some() && device.size.entries > 0)
    {
        let of_a = case.register && case.kernel.is_none() && plan.mode != Mode::Resident;
        let of_rows = case.register && row_bytes.is_multiple_of(32);
        let gathered = matches!(device.x, XPlan::Gather { .. });
        let wanted = Registered { a: of_a, x: of_rows && !gathered, y: of_rows };
        assert_eq!(device.registered, wanted, "{} in {:?}: {:?}", device.name, plan.mode, plan.reasons);
    }
}

fn devices_used(reports: &[RunReport]) -> Vec<u32> {
    let mut used: Vec<u32> =
        reports.iter().flat_map(RunReport::computed).map(|computed| computed.device.0).collect();
    used.sort_unstable();
    used.dedup();
    used
}

#[test]
fn any_number_of_chunks_and_any_delays_give_the_same_bits() {
    let pool = pool();
    // Two rows of about 600 nonzeros: with many chunks they are split and have carries.
    let a = generate::<f64>("hub,rows=1200,degree=2,hubs=2", 3, u64::MAX).unwrap().matrix;
    let want = expected(&a, 3);
    let mut both = 0;
    for chunks in 1..=64 {
        for seed in 0..20 {
            let devices = words(&format!("cpu,emu:0?delay_seed={seed}"));
            let case = Case { devices: &devices, chunks: Some(chunks), ..Case::default() };
            let (y, reports) = compute(&pool, &a, 3, &case).unwrap();
            assert!(y == want, "{chunks} chunks, seed {seed}");
            both += usize::from(devices_used(&reports).len() == 2);
        }
    }
    assert!(both > 600, "both devices computed in only {both} of 1280 products");
}

#[test]
fn every_mode_precision_matrix_and_repetition_gives_the_same_bits() {
    let pool = pool();
    for spec in [
        "stencil27,n=5",
        "arrow,rows=700",
        "holes,rows=300,degree=3",
        "empty,rows=9",
        "band,rows=200,width=3",
    ] {
        let a = generate::<f64>(spec, 5, u64::MAX).unwrap().matrix;
        let single = a.cast::<f32>().unwrap();
        for list in ["cpu,emu:0", "emu:0", "emu:0,emu:1", "cpu,emu:0?delay_seed=4,emu:1"] {
            let devices = words(list);
            for mode in [Mode::Resident, Mode::Oneshot, Mode::Stream] {
                for chunks in [None, Some(7)] {
                    let case =
                        Case { devices: &devices, mode: Some(mode), chunks, runs: 3, ..Case::default() };
                    let (y, _) = compute(&pool, &a, 5, &case).unwrap();
                    assert!(y == expected(&a, 5), "{spec} on {list}, {mode:?}, {chunks:?} chunks");
                    let (y, _) = compute(&pool, &single, 4, &case).unwrap();
                    assert!(
                        y == expected(&single, 4),
                        "{spec} in f32 on {list}, {mode:?}, {chunks:?} chunks"
                    );
                }
            }
        }
    }
}

#[test]
fn registered_memory_gives_the_same_bits() {
    let pool = pool();
    for spec in ["stencil27,n=5", "hub,rows=700,degree=2,hubs=2", "holes,rows=300,degree=3", "empty,rows=9"] {
        let a = generate::<f64>(spec, 5, u64::MAX).unwrap().matrix;
        let single = a.cast::<f32>().unwrap();
        for list in ["cpu,emu:0", "emu:0", "cpu,emu:0?delay_seed=4,emu:1"] {
            let devices = words(list);
            for mode in [Mode::Resident, Mode::Oneshot, Mode::Stream] {
                for chunks in [None, Some(24)] {
                    let (mode, register) = (Some(mode), true);
                    let case = Case { devices: &devices, mode, chunks, register, runs: 2, ..Case::default() };
                    let (y, _) = compute(&pool, &a, 4, &case).unwrap();
                    assert!(y == expected(&a, 4), "{spec} on {list}, {mode:?}, {chunks:?} chunks");
                    let (y, _) = compute(&pool, &a, 5, &case).unwrap();
                    assert!(y == expected(&a, 5), "{spec}, K = 5, on {list}, {mode:?}, {chunks:?} chunks");
                    let (y, _) = compute(&pool, &single, 8, &case).unwrap();
                    assert!(
                        y == expected(&single, 8),
                        "{spec} in f32 on {list}, {mode:?}, {chunks:?} chunks"
                    );
                }
            }
        }
    }
}

#[test]
fn the_padding_of_x_and_y_with_a_leading_dimension_is_neither_read_nor_written() {
    let pool = pool();
    let a = generate::<f64>("stencil5,n=9", 5, u64::MAX).unwrap().matrix;
    let devices = words("emu:0");
    let case = Case { devices: &devices, register: true, ..Case::default() };
    let (k, leading_dimension) = (4, 7);
    let packed = x_for::<f64>(a.cols(), k);
    let mut x = MultiVector::<f64>::zeros_with_leading_dimension(a.cols(), k, leading_dimension).unwrap();
    let mut y = MultiVector::<f64>::zeros_with_leading_dimension(a.rows(), k, leading_dimension).unwrap();
    x.data_mut().fill(f64::NAN);
    y.data_mut().fill(-1.0);
    for row in 0..a.cols() {
        x.data_mut()[row * leading_dimension..][..k].copy_from_slice(packed.row(row));
    }
    with_product(&pool, &a, k, &case, |product| product.apply_into(&x, &mut y)).unwrap();
    let want = expected(&a, k);
    for (at, &value) in y.data().iter().enumerate() {
        let (row, column) = (at / leading_dimension, at % leading_dimension);
        let right = if column < k { f64::from_bits(want[row * k + column]) } else { -1.0 };
        assert_eq!(value.to_bits(), right.to_bits(), "row {row}, column {column}");
    }
}

#[test]
fn memory_that_a_device_refuses_to_register_is_staged_and_reported() {
    let pool = pool();
    let a = generate::<f64>("stencil5,n=9", 5, u64::MAX).unwrap().matrix;
    for registration in 1..=5 {
        let devices = words(&format!("emu:0?refuse_registration={registration}"));
        let case = Case { devices: &devices, register: true, ..Case::default() };
        let (y, faults) = faulty(&pool, &a, &case).unwrap();
        assert!(y == expected(&a, 4), "registration {registration}");
        assert_eq!(faults.len(), 1, "registration {registration}: {faults:?}");
        assert_eq!(
            (faults[0].task.as_str(), faults[0].recovered_on.as_deref()),
            ("registration", Some("emu:0"))
        );
    }
}

#[test]
fn repeat_registers_x_and_y_once_and_run_registers_them_at_every_call() {
    let pool = pool();
    let a = generate::<f64>("stencil5,n=9", 5, u64::MAX).unwrap().matrix;
    // The arrays of A are registrations 1 to 3, X and Y are 4 and 5. A sixth one means that X was registered again.
    let devices = words("emu:0?refuse_registration=6");
    let case = Case { devices: &devices, register: true, ..Case::default() };
    for (repeated, refused) in [(true, 0), (false, 1)] {
        let faults = with_product(&pool, &a, 4, &case, |product| {
            let x = x_for::<f64>(a.cols(), 4);
            let mut y = MultiVector::<f64>::zeros(a.rows(), 4)?;
            if repeated {
                product.bind(&x, &mut y, |bound| {
                    bound.apply()?;
                    bound.apply()
                })?;
            } else {
                product.apply_into(&x, &mut y)?;
                product.apply_into(&x, &mut y)?;
            }
            Ok(product.faults())
        });
        assert_eq!(faults.unwrap().len(), refused, "repeated: {repeated}");
    }
}

#[test]
fn a_row_longer_than_a_chunk_is_split_and_its_carries_are_added_in_order() {
    let pool = pool();
    let a = generate::<f64>("uniform,rows=5,degree=3000,cols=9000", 2, u64::MAX).unwrap().matrix;
    for list in ["cpu", "cpu,emu:0", "emu:0,emu:1"] {
        let devices = words(list);
        let case = Case { devices: &devices, chunks: Some(24), ..Case::default() };
        let (y, reports) = compute(&pool, &a, 4, &case).unwrap();
        assert!(y == expected(&a, 4), "{list}");
        assert!(reports[0].computed().count() > 15, "{list}");
    }
}

#[test]
fn every_form_of_every_gpu_kernel_computes_its_share() {
    let pool = pool();
    let devices = words("cpu,emu:0");
    for spec in ["fem3,n=4", "hub,rows=700,degree=3,hubs=2", "holes,rows=90,degree=4"] {
        let general = generate::<f64>(spec, 2, u64::MAX).unwrap().matrix;
        let equal = vec![-0.7; general.nnz()];
        let (pointers, columns) = (general.view().row_pointers().to_vec(), general.view().columns().to_vec());
        let equal = Csr::try_new(general.rows(), general.cols(), pointers, columns, equal).unwrap();
        for kernel in CUDA_KERNELS {
            let a = if kernel.layout == Layout::Pattern { &equal } else { &general };
            // A packed A is copied with each product.
            let other = if kernel.layout == Layout::Packed { Mode::Oneshot } else { Mode::Resident };
            for (&variant, mode) in kernel.variants.iter().zip([Mode::Stream, other].iter().cycle()) {
                let (id, mode) = (kernel.id, Some(*mode));
                let case = Case {
                    devices: &devices,
                    mode,
                    chunks: Some(5),
                    kernel: Some(id),
                    variant: Some(variant),
                    runs: 2,
                    ..Case::default()
                };
                for k in [3, 8] {
                    let name = format!("{} on {spec}, k = {k}", kernel.variant_name(&variant));
                    let (y, _) = match compute(&pool, a, k, &case) {
                        // Some formats support short rows only, and some forms only some K.
                        Err(Error::Usage(reason))
                            if reason.words().contains("nonzeros")
                                || reason.words().contains("has no form") =>
                        {
                            continue;
                        }
                        done => done.unwrap_or_else(|error| panic!("{name}: {error}")),
                    };
                    let want = expected(a, k);
                    for (&got, &want) in y.iter().zip(&want) {
                        let (got, want) = (f64::from_bits(got), f64::from_bits(want));
                        assert!((got - want).abs() <= 1e-12 * want.abs().max(1.0), "{name}");
                    }
                    assert!(id.info().order != Order::Canonical || y == want, "{name}");
                }
            }
        }
    }
}

/// Injects `fault` at the first operation, the second, and so on, until it has no effect; returns how often it had one.
fn inject_at_every_operation(
    pool: &Arc<Pool>,
    list: &str,
    fault: &str,
    mode: Mode,
    register: bool,
    watchdog_timeout: Duration,
) -> usize {
    let a = generate::<f64>("stencil5,n=9", 5, u64::MAX).unwrap().matrix;
    let want = expected(&a, 4);
    let mut effective = 0;
    for operation in 1..500 {
        let devices = words(&list.replace("FAULT", &format!("{fault}={operation}")));
        let case = Case {
            devices: &devices,
            mode: Some(mode),
            chunks: Some(6),
            register,
            runs: 2,
            watchdog_timeout,
            ..Case::default()
        };
        match faulty(pool, &a, &case) {
            Ok((y, faults)) => {
                assert!(y == want, "{fault} at {operation} on {list}");
                if faults.is_empty() && operation > 60 {
                    return effective;
                }
                effective += usize::from(!faults.is_empty());
                for fault in faults {
                    assert!(fault.device.starts_with("emu:") && !fault.error.is_empty(), "{fault:?}");
                }
            }
            Err(error @ Error::Device { .. }) => {
                assert_eq!(error.exit_code(), 4);
                assert!(!list.contains("cpu"), "{fault} at {operation} on {list}: {error}");
                effective += 1;
            }
            Err(error) => panic!("{fault} at {operation} on {list}: {error}"),
        }
    }
    panic!("{fault} on {list} had an effect at every operation");
}

#[test]
fn a_fault_at_any_task_is_recovered_or_reported() {
    let pool = pool();
    let watchdog_timeout = Duration::from_secs(20);
    for list in ["cpu,emu:0?FAULT", "emu:0?FAULT,emu:1", "emu:0?FAULT"] {
        for (mode, register) in [(Mode::Resident, false), (Mode::Stream, false), (Mode::Stream, true)] {
            for fault in ["fail_launch", "fail_copy", "lost_at_operation", "out_of_memory_at_allocation"] {
                let effective =
                    inject_at_every_operation(&pool, list, fault, mode, register, watchdog_timeout);
                // A workspace, and a layout of A if it stays.
                let least = if fault == "out_of_memory_at_allocation" { 1 } else { 4 };
                assert!(
                    effective >= least,
                    "{fault} had an effect at only {effective} operations on {list}, {mode:?}"
                );
            }
        }
    }
}

#[test]
fn a_launch_that_fails_on_the_only_device_is_repeated_with_every_kernel() {
    let pool = pool();
    // The hub rows are cut into parts, which kernels with counters add.
    let a = generate::<f64>("hub,rows=600,degree=3,hubs=2", 3, u64::MAX).unwrap().matrix;
    let (healthy, failing) = (words("emu:0"), words("emu:0?fail_launch=2"));
    let mut tried = 0;
    for mode in [Mode::Oneshot, Mode::Stream, Mode::Resident] {
        for kernel in CUDA_KERNELS.iter().map(|kernel| kernel.id) {
            let case = Case {
                devices: &healthy,
                mode: Some(mode),
                chunks: Some(3),
                kernel: Some(kernel),
                ..Case::default()
            };
            let name = kernel.name();
            let want = match faulty(&pool, &a, &case) {
                Ok((want, _)) => want,
                // Rows of the matrix are too long for some kernels.
                Err(Error::Usage(_)) => continue,
                Err(error) => panic!("{name}, {mode:?}: {error}"),
            };
            tried += 1;
            let (y, faults) = faulty(&pool, &a, &Case { devices: &failing, ..case })
                .unwrap_or_else(|error| panic!("{name}, {mode:?}: {error}"));
            assert!(y == want, "{name}, {mode:?}");
            assert_eq!(faults.len(), 1, "{name}, {mode:?}: {faults:?}");
            assert_eq!(faults[0].recovered_on.as_deref(), Some("emu:0"), "{name}, {mode:?}");
        }
    }
    assert!(tried > 20, "only {tried} products");
}

#[test]
fn a_device_that_hangs_at_any_task_is_abandoned() {
    let pool = pool();
    for list in ["cpu,emu:0?FAULT", "emu:0?FAULT"] {
        // Long enough for a chunk on the CPU of a loaded machine.
        let timeout = Duration::from_millis(600);
        let effective =
            inject_at_every_operation(&pool, list, "hang_at_operation", Mode::Oneshot, false, timeout);
        assert!(effective >= 10, "effect at only {effective} operations on {list}");
    }
}

#[test]
fn a_run_from_inside_the_pool_is_refused_instead_of_deadlocking() {
    let pool = pool();
    let a = generate::<f64>("stencil5,n=9", 5, u64::MAX).unwrap().matrix;
    let devices = words("cpu");
    let case = Case { devices: &devices, chunks: Some(3), ..Case::default() };
    assert!(pool.install(|| compute(&pool, &a, 2, &case)).is_err());
}
