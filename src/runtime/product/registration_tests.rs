//! Registered memory of products ends before the memory does.

use std::sync::Arc;

use crate::adapt::ResolvedDevices;
use crate::cost::{emulated_profile, host_rates};
use crate::device::emulated::registered::is_registered;
use crate::kernel::reference;
use crate::matrix::{Csr, MultiVector, generate};
use crate::plan::{DeviceSpec, Mode};
use crate::runtime::{Matrix, Product, ProductOptions, Runtime, Transfer};

/// A product whose devices copy A, X and Y in place.
fn copying_in_place<'a>(
    runtime: &Runtime,
    names: &[&str],
    mode: Mode,
    a: Matrix<'a, f64>,
) -> Product<'a, f64> {
    let mut profile = emulated_profile().unwrap();
    profile.link.as_mut().unwrap().register_s_per_gb = Some(0.0);
    let spec = |name: &&str| DeviceSpec {
        name: name.to_string(),
        profile: profile.clone(),
        memory_limit_bytes: None,
        taken_bytes: 0,
        required: true,
    };
    let devices = names.iter().map(spec).collect();
    let resolved = ResolvedDevices {
        devices,
        host: host_rates(2).unwrap(),
        cluster: None,
        factors_path: None,
        has_model: false,
    };
    let options = ProductOptions {
        mode: Some(mode),
        // One for each of two devices, so that neither takes rows of the other.
        chunks: Some(2),
        transfer: Transfer::Registered,
        bound: true,
        fixed: true,
        ..ProductOptions::default()
    };
    runtime.product(a).columns(4).options(options).resolved(resolved).build().unwrap()
}

/// Allocations and registrations on the device of a product that copies in place: before, during and after a call of `bind`.
fn resources_in_use(a: Matrix<'_, f64>) -> [usize; 3] {
    let runtime = Runtime::builder().devices("emu:0").model("none").open().unwrap();
    let (rows, columns) = (a.view().rows(), a.view().cols());
    let mut product = copying_in_place(&runtime, &["emu:0"], Mode::Stream, a);
    let device = runtime.device("emu:0").unwrap();
    let in_use = || device.lock().device().resources_in_use();
    product.prepare().unwrap();
    let before = in_use();
    let x = MultiVector::zeros(columns, 4).unwrap();
    let mut y = MultiVector::zeros(rows, 4).unwrap();
    let during = product.bind(&x, &mut y, |bound| bound.apply().map(|()| in_use())).unwrap();
    let after = in_use();
    // A program may leak the product and then free a borrowed A.
    std::mem::forget(product);
    assert_eq!(in_use(), after);
    [before, during, after]
}

#[test]
fn a_leaked_product_leaves_no_memory_of_the_caller_registered() {
    let a: Csr<f64> = generate("stencil5,n=9", 5, u64::MAX).unwrap().matrix;
    let [allocations, during, after] = resources_in_use((&a).into());
    // The three arrays of A, X and Y.
    assert_eq!((during, after), (allocations + 5, allocations));
    // A shared matrix is leaked together with its product, and stays registered.
    let shared = Arc::new(a);
    let [before, during, after] = resources_in_use(shared.clone().into());
    assert_eq!([before, during, after], [3, 5, 3].map(|registrations| allocations + registrations));
    assert!(Arc::strong_count(&shared) > 1);
}

#[test]
fn devices_that_copy_common_bytes_of_a_in_place_register_them_once() {
    let a: Csr<f64> = generate("stencil5,n=30", 5, u64::MAX).unwrap().matrix;
    let runtime = Runtime::builder().devices("emu:0,emu:1").model("none").open().unwrap();
    let x = MultiVector::from_fn(a.cols(), 4, |row, column| ((row * 7 + column) % 11) as f64).unwrap();
    let mut expected = MultiVector::zeros(a.rows(), 4).unwrap();
    reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
    let shared = Arc::new(generate("stencil5,n=30", 5, u64::MAX).unwrap().matrix);
    for mode in [Mode::Oneshot, Mode::Stream] {
        for a in [Matrix::from(&a), shared.clone().into()] {
            let mut product = copying_in_place(&runtime, &["emu:0", "emu:1"], mode, a);
            let mut y = MultiVector::zeros(expected.rows(), 4).unwrap();
            product.bind(&x, &mut y, |bound| bound.apply()).unwrap();
            let devices = product.plan().devices.iter();
            let computing = devices.filter(|device| device.chunks > 0 && device.registered.a).count();
            assert_eq!(computing, 2, "{}: both devices copy A in place", mode.name());
            assert!(product.faults().is_empty(), "{}: {:?}", mode.name(), product.faults());
            assert_eq!(y.data(), expected.data());
        }
    }
}

#[test]
fn a_matrix_of_two_products_stays_page_locked_until_both_are_dropped() {
    let shared = Arc::new(generate::<f64>("stencil5,n=30", 5, u64::MAX).unwrap().matrix);
    let runtime = Runtime::builder().devices("emu:0").model("none").open().unwrap();
    let is_locked = || is_registered(shared.view().values().as_ptr() as usize);
    let mut products: Vec<_> = (0..2)
        .map(|_| {
            let mut product = copying_in_place(&runtime, &["emu:0"], Mode::Stream, shared.clone().into());
            product.prepare().unwrap();
            product
        })
        .collect();
    assert!(is_locked());
    products.remove(0);
    assert!(is_locked(), "the other product copies in place");
    let x = MultiVector::from_fn(900, 4, |row, column| ((row * 7 + column) % 11) as f64).unwrap();
    let (mut y, mut expected) = (MultiVector::zeros(900, 4).unwrap(), MultiVector::zeros(900, 4).unwrap());
    reference::csr(shared.view(), x.view(), &mut expected.view_mut()).unwrap();
    products[0].bind(&x, &mut y, |bound| bound.apply()).unwrap();
    assert_eq!(y.data(), expected.data());
    drop(products);
    assert!(!is_locked());
}
