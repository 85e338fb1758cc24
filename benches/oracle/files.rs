//! The matrices of a folder: the CPU kernel with every instruction set, both precisions and the widths at which slabs begin and end.
//!
//! The widest Y is verified in twice the precision. Y of fewer columns has the bits of its first columns, because the order is canonical.

use std::path::{Path, PathBuf};

use rowloom::Csr;
use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings};
use rowloom::internal::kernel::{KernelId, Schedule, verify};
use rowloom::internal::machine::Isa;
use rowloom::internal::matrix::MultiVector;

use crate::judge::Value;

const COLUMNS: [usize; 11] = [512, 1, 5, 33, 88, 89, 100, 128, 176, 177, 257];

/// Multiplies every matrix of the folder. Returns the number of products.
pub fn check(folder: &Path) -> Result<u64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.to_string_lossy().contains(".mtx"));
    paths.sort();
    let mut products = 0;
    for path in paths {
        let name = path.display();
        products += of_type::<f64>(&path).map_err(|error| format!("{name}, f64: {error}"))?;
        products += of_type::<f32>(&path).map_err(|error| format!("{name}, f32: {error}"))?;
        println!("{name}: right in both precisions");
    }
    Ok(products)
}

fn of_type<T: Value>(path: &Path) -> Result<u64, String> {
    let a = Csr::<T>::read(path).map_err(|error| error.to_string())?;
    let x = MultiVector::<T>::random(a.cols(), COLUMNS[0], 3).map_err(|error| error.to_string())?;
    let mut widest: Option<MultiVector<T>> = None;
    let mut products = 0;
    for k in COLUMNS {
        let narrow = MultiVector::from_fn(a.cols(), k, |row, column| x.row(row)[column]);
        let narrow = narrow.map_err(|error| error.to_string())?;
        for &isa in Isa::available() {
            let unwritten = |_: usize, _: usize| T::UNWRITTEN;
            let mut y = MultiVector::from_fn(a.rows(), k, unwritten).map_err(|error| error.to_string())?;
            let (threads, schedule) = (rayon::current_num_threads(), Schedule::Balanced);
            let settings = CpuSettings { k, threads, isa, schedule };
            let mut product = CpuProduct::prepare(a.view(), KernelId::CpuCsr, settings, u64::MAX)
                .map_err(|error| error.to_string())?;
            product.run(narrow.view(), y.view_mut()).map_err(|error| error.to_string())?;
            products += 1;
            let Some(right) = &widest else {
                let verified = verify(a.view(), x.view(), y.view()).map_err(|error| error.to_string())?;
                if !verified.passed {
                    return Err(format!("K = {k}, {}: {verified:?}", isa.name()));
                }
                widest = Some(y);
                continue;
            };
            for row in 0..a.rows() {
                let pairs = y.row(row).iter().zip(right.row(row));
                if let Some(column) = pairs.into_iter().position(|(y, right)| y.word() != right.word()) {
                    return Err(format!("K = {k}, {}: Y({row}, {column}) differs", isa.name()));
                }
            }
        }
    }
    Ok(products)
}
