//! Matrices of the SuiteSparse collection, if the folder exists: their statistics equal the published ones, and every kernel
//! verifies on them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::skip::skip;
use rowloom::internal::error::Error;
use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings, Kernels};
use rowloom::internal::kernel::{KernelId, KindOfWork, Processor, Schedule, kernels_of, verify};
use rowloom::internal::machine::Isa;
use rowloom::internal::matrix::io::{ReadOptions, read};
use rowloom::internal::matrix::{Csr, Field, Loaded, MultiVector, Scalar, complex};

#[test]
fn every_matrix_has_the_statistics_of_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/matrices");
    let Ok(table) = fs::read_to_string(folder.join("README.md")) else {
        skip("matrices", format!("there is no folder {}", folder.display()));
        return;
    };
    let mut lines = table.lines().filter(|line| line.starts_with('|'));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let titles = cells(lines.next().unwrap());
    let (mut checked, mut refused) = (0, 0);
    for line in lines.skip(1) {
        let row: BTreeMap<String, String> = titles.iter().cloned().zip(cells(line)).collect();
        let number = |title: &str| row[title].replace(',', "").parse::<usize>().unwrap();
        let path = folder.join(format!("{}.mtx.gz", row["name"]));
        let loaded = if row["field"] == "complex" {
            let message = read::<f64>(&path, &ReadOptions::default()).map(|_| ()).unwrap_err().to_string();
            assert!(message.contains(":1: unsupported: complex values"), "{message}");
            refused += 1;
            let options = ReadOptions { complex: true, ..ReadOptions::default() };
            let loaded = read::<f64>(&path, &options).unwrap();
            Loaded { matrix: complex::positions(&loaded.matrix.view()).unwrap(), ..loaded }
        } else {
            read::<f64>(&path, &ReadOptions::default()).unwrap()
        };
        let view = loaded.matrix.view();
        let name = &row["name"];
        assert_eq!((view.rows(), view.cols()), (number("rows"), number("cols")), "{name}");
        assert_eq!(view.nnz(), number("expanded nonzeros"), "{name}");
        assert_eq!(loaded.info.stored_entries as usize, number("stored entries"), "{name}");
        if loaded.info.field != Field::Complex {
            let zeros = view.values().iter().filter(|value| **value == 0.0).count();
            assert_eq!(zeros, number("explicit zeros"), "{name}");
        }
        let lengths = || (0..view.rows()).map(|row| view.row_length(row));
        assert_eq!(lengths().max(), Some(number("nnz/row max")), "{name}");
        assert_eq!(lengths().filter(|length| *length == 0).count(), number("empty rows"), "{name}");
        assert_eq!(serde_json::to_value(loaded.info.field).unwrap(), row["field"], "{name}");
        assert_eq!(serde_json::to_value(loaded.info.symmetry).unwrap(), row["symmetry"], "{name}");
        assert_eq!(&loaded.info.name, name);
        let ascending = |row| view.row(row).0.is_sorted_by(|left, right| left < right);
        assert!((0..view.rows()).all(ascending), "{name}");
        checked += 1;
    }
    assert_eq!((checked, refused), (51, 3));
}

/// Memory limit in bytes for padded copies of a matrix.
const PADDED_LIMIT_BYTES: u64 = 1 << 30;

fn product<T: Kernels>(a: &Csr<T>, x: &MultiVector<T>, kernel: KernelId) -> Option<MultiVector<T>> {
    let settings = CpuSettings { k: x.k(), threads: 2, isa: Isa::detect(), schedule: Schedule::Balanced };
    let mut y = MultiVector::zeros(a.rows(), x.k()).unwrap();
    match CpuProduct::prepare(a.view(), kernel, settings, PADDED_LIMIT_BYTES) {
        Ok(mut product) => product.run(x.view(), y.view_mut()).unwrap(),
        Err(Error::DoesNotFit { .. }) => return None,
        Err(error) => panic!("{}: {error}", kernel.name()),
    }
    Some(y)
}

fn random_x<T: Scalar>(rows: usize, k: usize) -> MultiVector<T> {
    let mut state = 9u64;
    MultiVector::from_fn(rows, k, |_, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        T::from_f64((state >> 33) as f64 / f64::from(1 << 30) - 1.0)
    })
    .unwrap()
}

/// Verifies the default kernel, and asserts that every other kernel gives the same bits.
fn check_kernels<T: Kernels>(name: &str, a: &Csr<T>) {
    for k in [1, 5, 32] {
        let x = random_x::<T>(a.cols(), k);
        let y = product(a, &x, KernelId::CpuCsr).unwrap();
        let verdict = verify(a.view(), x.view(), y.view()).unwrap();
        assert!(verdict.passed, "{name} {} k = {k}: {verdict:?}", T::DTYPE);
        for info in kernels_of(KindOfWork::Spmm, Processor::Cpu) {
            if let Some(other) = product(a, &x, info.id) {
                let same =
                    bytemuck::cast_slice::<T, u8>(y.data()) == bytemuck::cast_slice::<T, u8>(other.data());
                assert!(same, "{} on {name}, {}, k = {k}", info.name, T::DTYPE);
            }
        }
    }
}

#[test]
fn every_kernel_verifies_on_every_matrix_in_both_precisions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/matrices");
    let Ok(entries) = fs::read_dir(&folder) else {
        skip("matrices", format!("there is no folder {}", folder.display()));
        return;
    };
    let mut checked = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gz") {
            continue;
        }
        let Ok(loaded) = read::<f64>(&path, &ReadOptions::default()) else { continue };
        let (name, a) = (&loaded.info.name, &loaded.matrix);
        check_kernels(name, a);
        check_kernels(name, &a.cast::<f32>().unwrap());
        if loaded.info.field != Field::Real {
            let x = MultiVector::from_fn(a.cols(), 5, |row, k| ((row * 7 + k) % 201) as f64 - 100.0).unwrap();
            let y = product(a, &x, KernelId::CpuCsr).unwrap();
            let verdict = verify(a.view(), x.view(), y.view()).unwrap();
            assert_eq!(verdict.max_rel_err, 0.0, "{name}: integer sums are exact");
        }
        checked += 1;
    }
    assert_eq!(checked, 48);
}
