//! Allocations of products in the steady state, counted by the allocator of this test's process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use rowloom::internal::matrix::MultiVector;
use rowloom::internal::runtime::ProductOptions;
use rowloom::{Csr, Runtime};

/// The system's allocator, with counts of calls and of bytes in use.
struct Counting;

static CALLS: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the same.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(size as i64 - layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the same.
        unsafe { System.realloc(address, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests of this file run one after the other, since the counts are of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Calls of the allocator per product, tasks per product, and bytes by which memory grew over all products: the least of several
/// series. A worker thread that gets a core late allocates its queues in one of them; what products allocate is in all of them.
fn counts(spec: &str, devices: &str, chunks: Option<usize>) -> (f64, f64, i64) {
    const WARM_UP: usize = 200;
    const SERIES: usize = 4;
    const PRODUCTS: usize = 500;
    let a = Csr::<f64>::generate(spec).unwrap();
    let x = MultiVector::from_fn(a.cols(), 4, |row, k| (row + k) as f64).unwrap();
    let mut y = MultiVector::<f64>::zeros(a.rows(), 4).unwrap();
    let runtime = Runtime::builder().devices(devices).model("none").threads(2).open().unwrap();
    let options = ProductOptions { chunks, fixed: true, ..ProductOptions::default() };
    let mut product = runtime.product(a).columns(4).options(options).build().unwrap();
    for _ in 0..WARM_UP {
        product.apply_into(&x, &mut y).unwrap();
    }
    let tasks = product.last_report().unwrap().tasks() as f64;
    let (mut calls, mut bytes) = (i64::MAX, i64::MAX);
    for _ in 0..SERIES {
        let before = (CALLS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
        for _ in 0..PRODUCTS {
            product.apply_into(&x, &mut y).unwrap();
        }
        calls = calls.min(CALLS.load(Ordering::Relaxed) - before.0);
        bytes = bytes.min(BYTES.load(Ordering::Relaxed) - before.1);
    }
    let calls = calls as f64 / PRODUCTS as f64;
    println!("{spec} on {devices}: {calls} allocations per product of {tasks} tasks, {bytes} bytes more");
    (calls, tasks, bytes)
}

#[test]
fn a_product_of_the_cpu_alone_allocates_only_the_job_of_its_pool() {
    let _alone = ONE_AT_A_TIME.lock();
    // The calling thread computes the first one alone. The pool's own queue allocates a block now and then, and so do the threads that
    // run the tests.
    for (spec, limit) in [("stencil5,n=20", 0.02), ("stencil5,n=200", 1.2)] {
        let (calls, _, bytes) = counts(spec, "cpu", None);
        assert!(
            calls <= limit && bytes < 1024,
            "{spec}: {calls} allocations per product, {bytes} bytes more"
        );
    }
}

#[test]
fn a_product_of_several_devices_allocates_a_bounded_number_per_task_and_does_not_grow() {
    let _alone = ONE_AT_A_TIME.lock();
    for (devices, chunks) in [("cpu", Some(8)), ("cpu,emu:0", Some(4))] {
        let (calls, tasks, bytes) = counts("stencil5,n=20", devices, chunks);
        assert!(calls <= 20.0 + 15.0 * tasks, "{devices}: {calls} allocations of {tasks} tasks");
        assert!(bytes < 16 << 10, "{devices}: {bytes} bytes more after 500 products");
    }
}
