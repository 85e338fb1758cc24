//! With `reproducible`, the bytes of Y are the same for any devices, chunks, threads, modes and chosen kernels.

use std::sync::Arc;

use rowloom::internal::adapt::ResolvedDevices;
use rowloom::internal::cost::{Correction, Profile, cpu_profile, emulated_profile, host_rates};
use rowloom::internal::kernel::{KernelId, Order, reference};
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::{DeviceSpec, Mode};
use rowloom::internal::runtime::{Pool, ProductOptions, Runtime};

/// Matrices with long rows that are cut, rows that are grouped, empty rows, scattered columns and adjacent columns.
const MATRICES: [&str; 10] = [
    "arrow,rows=1300",
    "hub,rows=1200,degree=2,hubs=2",
    "mixed,n=6",
    "fem3,n=3",
    "stencil27,n=5",
    "rmat,scale=8,degree=8",
    "road,n=300",
    "holes,rows=200,degree=3",
    "band,rows=150,width=9",
    "uniform,rows=200,degree=7,cols=90",
];

/// Number of configurations per matrix.
const CONFIGURATIONS: usize = 30;

/// Kernels whose predicted time is halved, one per configuration, so that the choices differ.
const FAVOURED: [KernelId; 8] = [
    KernelId::CsrSubwarp,
    KernelId::CsrSegments,
    KernelId::CsrRuns,
    KernelId::RowGroups,
    KernelId::Sell,
    KernelId::CsrWays,
    KernelId::CsrPieces,
    KernelId::CpuSell,
];

fn x_for(rows: usize, k: usize) -> MultiVector<f64> {
    MultiVector::from_fn(rows, k, |row, k| ((row * 31 + k * 17) % 101) as f64 / 37.0 - 1.3).unwrap()
}

fn bits(values: &MultiVector<f64>) -> Vec<u64> {
    values.data().iter().map(|value| value.to_bits()).collect()
}

/// Y of configuration number `configuration`, and its kernels.
fn compute(pools: &[Arc<Pool>], a: &Csr<f64>, k: usize, configuration: usize) -> (Vec<u64>, Vec<KernelId>) {
    let devices: [&[&str]; 4] = [&["cpu"], &["emu:0"], &["emu:0", "emu:1"], &["cpu", "emu:0"]];
    let chunks = [None, Some(1), Some(2), Some(3), Some(7), Some(16), Some(40)];
    let modes = [Some(Mode::Resident), Some(Mode::Oneshot), Some(Mode::Stream)];
    let favoured = FAVOURED[configuration % FAVOURED.len()];
    let correction = Correction { kernel: favoured, variant: None, factor: 0.5 };
    let pool = &pools[configuration % pools.len()];
    let spec = |name: &&str| {
        let profile = if *name == "cpu" { cpu_profile(2, 1 << 34) } else { emulated_profile() };
        let profile = profile.unwrap();
        // The CPU is modelled as slow as the emulator, so that the plan gives both a share of the rows.
        let product_ns = emulated_profile().unwrap().product_ns;
        let profile = Profile { corrections: vec![correction], product_ns, ..profile };
        DeviceSpec {
            name: name.to_string(),
            profile,
            memory_limit_bytes: None,
            taken_bytes: 0,
            required: true,
        }
    };
    let options = ProductOptions {
        mode: modes[configuration % modes.len()],
        chunks: chunks[configuration % chunks.len()],
        uses: Some(2),
        reproducible: true,
        host_memory_limit_bytes: Some(u64::MAX),
        fixed: true,
        ..ProductOptions::default()
    };
    let names = devices[configuration % devices.len()];
    let resolved = ResolvedDevices {
        devices: names.iter().map(spec).collect(),
        host: host_rates(2).unwrap(),
        cluster: None,
        factors_path: None,
        has_model: false,
    };
    let builder = Runtime::builder().devices(names.join(",")).model("none");
    let runtime = builder.pool(Machine::detect(), pool.clone()).open().unwrap();
    let builder = runtime.product(a).columns(k).options(options).resolved(resolved);
    let mut product = builder.build().unwrap();
    let plan = product.plan();
    let kernels = plan.chunks.iter().map(|chunk| plan.kernel_on(chunk, chunk.home)).collect();
    let mut y = MultiVector::zeros(a.rows(), k).unwrap();
    let x = x_for(a.cols(), k);
    let mut before = None;
    for _ in 0..2 {
        product.apply_into(&x, &mut y).unwrap();
        let now = bits(&y);
        assert!(before.is_none_or(|before| before == now), "the second product has different bytes");
        before = Some(now);
    }
    (bits(&y), kernels)
}

/// Asserts that all configurations give the bytes of the reference, with several kernels.
fn assert_one_result(k: usize) {
    let machine = Machine::detect();
    let pool = |threads| Arc::new(Pool::new(&machine, Some(threads)).unwrap());
    let pools: Vec<Arc<Pool>> = [1, 2, 3].map(pool).into();
    let mut used = Vec::new();
    for spec in MATRICES {
        let a = generate::<f64>(spec, 3, u64::MAX).unwrap().matrix;
        let mut want = MultiVector::zeros(a.rows(), k).unwrap();
        reference::csr(a.view(), x_for(a.cols(), k).view(), &mut want.view_mut()).unwrap();
        for configuration in 0..CONFIGURATIONS {
            let (y, kernels) = compute(&pools, &a, k, configuration);
            assert!(
                y == bits(&want),
                "{spec}, k = {k}, configuration {configuration}: different bytes with {kernels:?}"
            );
            used.extend(kernels);
        }
    }
    used.sort_unstable();
    used.dedup();
    assert!(used.iter().all(|kernel| kernel.info().order == Order::Canonical), "{used:?}");
    assert!(used.len() >= 4, "fewer than 4 different kernels were chosen: {used:?}");
}

#[test]
fn products_with_one_column_are_reproducible() {
    assert_one_result(1);
}

#[test]
fn products_with_eight_columns_are_reproducible() {
    assert_one_result(8);
}

#[test]
fn products_with_thirty_three_columns_are_reproducible() {
    assert_one_result(33);
}
