//! What planners rely on for every kind of work.

use super::colmean::Colmean;
use super::gemm::Gemm;
use super::{ChunkRows, Facts, KernelRequest, Layouts, Position, Work};
use crate::cost::{Form, cpu_profile};
use crate::kernel::{Format, KernelId, Order, Processor};
use crate::matrix::{Dtype, generate};

fn gemm() -> Work<'static> {
    Gemm { rows: 500, depth: 70, columns: 30, dtype: Dtype::F64, updated: false }.into()
}

fn any_kernel() -> KernelRequest {
    KernelRequest {
        kernel: None,
        variant: None,
        format: None,
        reproducible: false,
        has_cpu: true,
        has_gpu: true,
        compiles: false,
        cublas: true,
    }
}

#[test]
fn the_weight_before_a_row_leads_back_to_that_row() {
    let matrix = generate::<f64>("uniform,rows=700,degree=5", 1, 1 << 30).unwrap().matrix;
    let sparse = Work::spmm(&matrix.view(), 4).unwrap();
    for work in [sparse, gemm()] {
        for row in 0..=work.rows() {
            let weight = work.weight_before(Position::of_row(row));
            assert_eq!(work.position_at(weight, u128::MAX), Position::of_row(row));
        }
    }
}

#[test]
fn every_row_of_b_is_needed_by_every_row_of_a_dense_product() {
    let work = gemm();
    let piece = ChunkRows::Rows { begin: 3, end: 9 };
    assert_eq!(work.x_list(&[piece]), (0..70).collect::<Vec<u32>>());
    assert!(work.x_spans(&[piece]).iter().all(|span| *span == (0..70)));
    assert!(work.interior(10..20).is_empty(), "no row can be computed before B is there");
    assert_eq!((work.row_segments(4), work.piece_entries(&piece)), (1, 6 * 70));
    assert_eq!((work.row_bytes(), work.pitch_bytes() % 16), (30 * 8, 0));
    assert!(work.pitch_bytes() >= work.row_bytes());
    assert!((0.001..0.5).contains(&work.helpful_share()), "{}", work.helpful_share());
}

#[test]
fn means_of_columns_need_no_x() {
    let work: Work<'static> = Colmean { rows: 500, columns: 30, dtype: Dtype::F64, deviations: false }.into();
    let piece = ChunkRows::Rows { begin: 3, end: 9 };
    assert_eq!(work.x_list(&[piece]), Vec::<u32>::new());
    assert_eq!(work.interior(10..20), 10..20);
    let forms = work.forms(&any_kernel(), Layouts::Any).unwrap();
    for processor in [Processor::Cpu, Processor::Gpu] {
        let own: Vec<KernelId> = forms.of(processor).iter().map(|candidate| candidate.form.kernel).collect();
        assert_eq!(own, work.kernels(processor));
    }
}

#[test]
fn the_predicted_time_of_a_dense_product_grows_with_its_rows_and_falls_with_the_kernels_rate() {
    let profile = cpu_profile(2, 1 << 34).unwrap();
    let seconds = |rows: usize, kernel: KernelId| {
        let work: Work<'static> =
            Gemm { rows, depth: 300, columns: 300, dtype: Dtype::F64, updated: false }.into();
        let facts: Facts = work.all_facts();
        facts.kernel_s(&profile, &Form::cpu(kernel), 300, Dtype::F64)
    };
    assert_eq!(seconds(0, KernelId::CpuGemm), 0.0);
    assert!(seconds(400, KernelId::CpuGemm) > 0.0);
    let ratio = seconds(40_000, KernelId::CpuGemm) / seconds(10_000, KernelId::CpuGemm);
    assert!((3.9..=4.1).contains(&ratio), "{ratio}");
    let slower = seconds(40_000, KernelId::CpuGemmRows) / seconds(40_000, KernelId::CpuGemm);
    assert!((1.5..=1.7).contains(&slower), "{slower}");
}

#[test]
fn dense_kernels_must_be_canonical_installed_and_on_a_device() {
    let work = gemm();
    let reproducible =
        work.forms(&KernelRequest { reproducible: true, ..any_kernel() }, Layouts::Any).unwrap();
    let all = reproducible.cpu.iter().chain(&reproducible.gpu);
    assert!(all.clone().count() > 0);
    all.for_each(|candidate| assert_eq!(candidate.form.kernel.info().order, Order::Canonical));
    let kernel = |kernel| KernelRequest { kernel: Some(kernel), ..any_kernel() };
    for (wrong, words) in [
        (KernelRequest { format: Some(Format::Csr), ..any_kernel() }, "the matrix is dense"),
        (kernel(KernelId::CpuCsr), "cannot be used here"),
        (KernelRequest { cublas: false, ..kernel(KernelId::Cublas) }, "which was not found"),
        (KernelRequest { has_gpu: false, ..kernel(KernelId::Cublas) }, "add cuda:0"),
        (KernelRequest { has_gpu: false, ..kernel(KernelId::GemmBlocked) }, "needs a GPU"),
        (KernelRequest { has_cpu: false, ..kernel(KernelId::CpuGemm) }, "needs the CPU"),
    ] {
        let error = work.forms(&wrong, Layouts::Any).map(|_| ()).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains(words), "{words}: {error}");
    }
}
