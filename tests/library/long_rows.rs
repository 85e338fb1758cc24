//! Matrices with long rows where A is copied with each product: the kernel that cuts long rows is chosen, and Y has the bytes of the
//! canonical order however A gets to the devices.

use proptest::prelude::*;

use rowloom::internal::adapt::ResolvedDevices;
use rowloom::internal::cost::{Profile, emulated_profile, host_rates};
use rowloom::internal::kernel::{KernelId, reference};
use rowloom::internal::matrix::{Csr, MultiVector, Scalar, generate};
use rowloom::internal::plan::{DeviceSpec, Mode, Plan};
use rowloom::internal::runtime::{ProductOptions, Runtime, Transfer};

/// An emulated device that can register memory.
fn spec(name: &str) -> DeviceSpec {
    let mut profile: Profile = emulated_profile().unwrap();
    profile.link.as_mut().unwrap().register_s_per_gb = Some(0.0);
    DeviceSpec { name: name.into(), profile, memory_limit_bytes: None, taken_bytes: 0, required: true }
}

/// How A gets to the devices.
#[derive(Debug, Clone, Copy)]
struct Way {
    devices: &'static [&'static str],
    mode: Mode,
    transfer: Transfer,
    chunks: Option<usize>,
    kernel: Option<KernelId>,
    reproducible: bool,
}

/// The plan, and Y after two products with different X.
fn products<T: Scalar + rowloom::Value>(a: &Csr<T>, x: &[MultiVector<T>], way: Way) -> (Plan, Vec<MultiVector<T>>) {
    let resolved = ResolvedDevices {
        devices: way.devices.iter().map(|name| spec(name)).collect(),
        host: host_rates(2).unwrap(),
        cluster: None,
        factors_path: None,
        has_model: false,
    };
    let options = ProductOptions {
        mode: Some(way.mode),
        chunks: way.chunks,
        transfer: way.transfer,
        kernel: way.kernel,
        reproducible: way.reproducible,
        uses: Some(2),
        host_memory_limit_bytes: Some(u64::MAX),
        fixed: true,
        ..ProductOptions::default()
    };
    let runtime = Runtime::builder().devices(way.devices.join(",")).model("none").open().unwrap();
    let product = runtime.product(a).columns(x[0].k()).options(options).resolved(resolved);
    let mut product = product.build().unwrap();
    let plan = product.plan().clone();
    let results = x.iter().map(|x| {
        let mut y = MultiVector::zeros(a.rows(), x.k()).unwrap();
        product.apply_into(x, &mut y).unwrap();
        y
    });
    (plan, results.collect())
}
