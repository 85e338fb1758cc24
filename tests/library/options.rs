//! Every option of a builder has its effect on the plan or on the report, and contradictions are errors of use.

use std::sync::Arc;

use crate::ranks::{block, matrix, on_ranks, values};
use rowloom::internal::kernel::KernelId;
use rowloom::internal::matrix::MultiVector;
use rowloom::internal::plan::Mode;
use rowloom::internal::runtime::{Check, ProductOptions, Transfer};
use rowloom::{Csr, Result, Runtime};

fn runtime(devices: &str) -> Runtime {
    Runtime::builder().devices(devices).threads(2).model("none").refine(false).open().unwrap()
}

fn dense(rows: usize, columns: usize) -> MultiVector<f64> {
    values(7, rows, columns)
}

fn usage(result: Result<()>, words: &str) {
    let error = result.unwrap_err();
    assert!(error.exit_code() == 2 && error.to_string().contains(words), "{words}: {error}");
}

#[test]
fn options_of_dense_products_change_the_plan_and_not_the_product() {
    let (a, b) = (dense(300, 40), dense(40, 6));
    let mut expected = MultiVector::zeros(300, 6).unwrap();
    for (row, column) in (0..300).flat_map(|row| (0..6).map(move |column| (row, column))) {
        let terms = (0..40).map(|at| a.row(row)[at] * b.row(at)[column]);
        expected.view_mut().row_mut(row)[column] = terms.sum::<f64>();
    }
    let runtime = runtime("cpu,emu:0");
    let builder = runtime.gemm(a.view(), 6).uses(3).reproducible(true).mode(Mode::Stream).chunks(5);
    let builder = builder.cpu_share(0.5).transfer(Transfer::Staged).check(Check::Always).bound(true);
    let mut product = builder.memory_limit(1 << 22).build().unwrap();
    assert_eq!(product.plan().mode, Mode::Stream);
    assert!(
        product.plan().chunks.len() >= 5 && product.explain().contains("shares"),
        "{}",
        product.explain()
    );
    let mut c = MultiVector::zeros(300, 6).unwrap();
    product.apply(&b, &mut c).unwrap();
    for (got, wanted) in c.data().iter().zip(expected.data()) {
        assert!((got - wanted).abs() <= 1e-12 * 40.0 * 64.0, "{got} {wanted}");
    }
    assert!(!product.runtime().has_model());
    assert!(product.take_report().is_some() && product.last_report().is_none());
    let scaled = product.bind(&b, &mut c, |bound| {
        bound.c_mut().row_mut(0).fill(1.0);
        bound.apply_scaled(0.0, 2.0)?;
        Ok(bound.c_mut().row_mut(0).to_vec())
    });
    assert_eq!(scaled.unwrap(), [2.0; 6]);
    let one_kernel = runtime.gemm(Arc::new(a), 6).kernel("cpu_gemm").unwrap().build().unwrap();
    assert!(one_kernel.plan().chunks.iter().all(|chunk| chunk.cpu_kernel == KernelId::CpuGemm));
}

#[test]
fn options_of_sparse_products_change_the_plan_and_not_the_product() {
    let a = matrix("stencil5,n=40");
    let x = values(0, a.cols(), 3);
    let expected = runtime("cpu").product(&a).columns(3).build().unwrap().apply(&x).unwrap();
    let runtime = runtime("cpu,emu:0");
    let builder =
        runtime.product(&a).columns(3).memory_limit(1 << 22).transfer(Transfer::Staged).cpu_share(0.4);
    let mut product = builder.kernel("csr_vector").unwrap().build().unwrap();
    assert!(product.plan().chunks.iter().any(|chunk| chunk.gpu_kernel == KernelId::CsrVector));
    let y = product.apply(&x).unwrap();
    assert!(y.data().iter().zip(expected.data()).all(|(got, wanted)| (got - wanted).abs() < 1e-10));
    assert_eq!(ProductOptions::kernel_named("auto").unwrap(), (None, None));
    assert!(ProductOptions::kernel_named("no_such_kernel").is_err());
    usage(runtime.product(&a).columns(0).build().map(|_| ()), "at least one column");
}

#[test]
fn vectors_need_a_plan_of_their_own_and_a_kernel_that_reads_x_by_rows() {
    let a: Csr<f64> = matrix("stencil5,n=30");
    let runtime = runtime("emu:0");
    let plan = runtime.product(&a).columns(4).build().unwrap().plan().clone();
    let mut planned = runtime.product(&a).plan(plan).build().unwrap();
    usage(planned.vectors().map(|_| ()), "a product with a given plan has no vectors");
    let mut product = runtime.product(&a).columns(4).build().unwrap();
    assert!(product.foreign_record().unwrap().is_none());
    assert!(product.compute_stream().unwrap().is_none(), "an emulated device has no stream");
}

#[test]
fn a_product_of_ranks_tells_its_rows_plan_and_times() {
    let a = matrix("stencil5,n=24");
    let whole = a.view().nnz() as u64;
    let nonzeros = on_ranks(2, "cpu", |cluster| {
        let builder = cluster.product(block(cluster, &a, 2)).columns(2);
        let mut product =
            builder.options(ProductOptions { fixed: true, ..ProductOptions::default() }).build().unwrap();
        assert_eq!((product.columns(), product.cluster().communicator().size()), (2, 2));
        let (x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
        product.apply_into(&x, &mut y).unwrap();
        assert_eq!(product.plan().unwrap().k, 2);
        assert!(product.descriptions().len() > 1 && product.faults().is_empty());
        assert!(product.plan_s() > 0.0 && product.prepare_s() >= 0.0);
        product.nonzeros()
    });
    assert_eq!(nonzeros.iter().sum::<u64>(), whole);
    let refused =
        on_ranks(1, "cpu", |cluster| cluster.product(block(cluster, &a, 1)).columns(0).build().map(|_| ()));
    refused.into_iter().for_each(|result| usage(result, "at least one column"));
}
