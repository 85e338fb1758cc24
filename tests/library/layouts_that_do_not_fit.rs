//! A layout of A that the planner chose and that does not fit in memory is replaced by CSR, which A has already.

use rowloom::internal::kernel::KernelId;
use rowloom::internal::runtime::ProductOptions;
use rowloom::{Csr, Error, MultiVector, Runtime};

/// A model in which CSR is the slower layout on the CPU, so that plans convert A to sliced ELLPACK.
fn model(folder: &std::path::Path) -> String {
    let weights = |first: f64| format!("[{first:?}{}]", ", 0.0".repeat(44));
    let text = format!(
        "[host]\ncores = 2\nmemory_gb_per_s = 20.0\ncopy_gb_per_s = 8.0\n\n[[device]]\nname = \"cpu\"\nthreads = 2\n\n\
         [device.weights]\ncpu_csr = {}\ncpu_sell = {}\n",
        weights(600.0),
        weights(0.1)
    );
    let path = folder.join("model.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn csr_replaces_a_layout_that_does_not_fit_unless_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder().devices("cpu").threads(2).model(model(folder.path())).open().unwrap();
    let matrix = || Csr::<f64>::generate("stencil27,n=20").unwrap();
    let x = MultiVector::from_fn(8000, 1, |row, _| (row % 7) as f64).unwrap();
    let options = |limit_bytes| ProductOptions {
        host_memory_limit_bytes: Some(limit_bytes),
        uses: Some(1_000_000),
        ..ProductOptions::default()
    };
    let mut free = runtime.product(matrix()).options(options(u64::MAX)).columns(1).build().unwrap();
    let expected = free.apply(&x).unwrap();
    assert_eq!(free.plan().chunks[0].cpu_kernel, KernelId::CpuSell);

    let mut limited = runtime.product(matrix()).options(options(1000)).columns(1).build().unwrap();
    assert_eq!(limited.apply(&x).unwrap().data(), expected.data());
    assert_eq!(limited.plan().chunks[0].cpu_kernel, KernelId::CpuCsr);
    assert!(limited.explain().contains("A stays in CSR: sliced ELLPACK"), "{}", limited.explain());

    let asked = runtime.product(matrix()).options(options(1000)).columns(1).kernel("cpu_sell").unwrap();
    let refused = asked.build().and_then(|mut product| product.apply(&x));
    assert!(matches!(refused, Err(Error::DoesNotFit { .. })), "{refused:?}");
}
