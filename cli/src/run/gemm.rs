//! `rowloom gemm`: computes C = alpha A B + beta C, measures it, verifies it with `--verify`, and reports.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use super::job::Job;
use super::repeat::Repeated;
use super::report::Done;
use super::request::Request;
use super::workload::Workload;
use crate::args::GemmArguments;
use crate::args::no_effect::DeviceKinds;
use crate::console::Console;
use crate::console::table::count;
use crate::operands::dense::DenseInput;
use crate::operands::output::DenseFile;
use crate::operands::x::check_memory_or;
use crate::request::plan_file;
use rowloom::internal::device::Description;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::KindOfWork;
use rowloom::internal::kernel::gemm::{PackedProduct, verify};
use rowloom::internal::kernel::scaling::Scaling;
use rowloom::internal::matrix::{Dtype, Field, MultiVector, Scalar};
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::{BoundGemm, Round, RunReport};
use rowloom::internal::work::gemm::Gemm as GemmWork;

/// Most multiplications of the rows that are verified: the reference is slow.
const VERIFIED_MULTIPLICATIONS: usize = 1 << 28;

/// Multiplies and reports.
pub fn run(arguments: &GemmArguments, console: &Console) -> Result<()> {
    let done = match arguments.dense.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    };
    plan_file::named(done, arguments.dense.plan.as_deref())
}

/// The operands.
struct Operands<T: Scalar> {
    a: DenseInput<T>,
    b: DenseInput<T>,
    old_c: Option<DenseInput<T>>,
    alpha: f64,
    beta: f64,
}

fn run_typed<T: PackedProduct>(arguments: &GemmArguments, console: &Console) -> Result<()> {
    let output = arguments.output.as_deref().map(DenseFile::new).transpose()?;
    let mut job = Job::open(Request::of_gemm(arguments)?, console)?;
    let operands = Operands::<T>::load(arguments, &job)?;
    let Operands { a, b, old_c, alpha, beta } = &operands;
    let (rows, columns) = (a.values.rows(), b.values.k());
    let updated = T::from_f64(*beta) != T::ZERO;
    let shape = GemmWork { rows, depth: a.values.k(), columns, dtype: T::DTYPE, updated };
    let workload = operands.workload(arguments);
    if job.is_simulated() {
        let load_s = operands.load_s();
        return job.simulate(shape.into(), workload, load_s, |job| job.runtime.resolve(&job.request.options));
    }
    job.check_saved(&shape.into())?;
    let loaded = a.bytes() + b.bytes() + old_c.as_ref().map_or(0, DenseInput::bytes);
    let limit = job.session.memory_limit_bytes().saturating_sub(loaded);
    check_memory_or::<T>("use smaller matrices", "C", rows, columns, limit)?;
    let mut c = MultiVector::<T>::zeros(rows, columns)?;

    let mut gemm = {
        let _span = tracing::info_span!("plan").entered();
        let builder = job.runtime.gemm(a.values.clone(), columns).updates_c(updated);
        let builder = builder.options(job.request.options.clone());
        match job.saved.clone() {
            Some(plan) => builder.plan(plan),
            None => builder,
        }
        .build()?
    };
    job.note_flags(DeviceKinds::of_plan(gemm.plan()));
    tracing::info_span!("prepare").in_scope(|| gemm.prepare())?;
    let old = old_c.as_ref().map(|old| &*old.values).filter(|_| updated);
    let factors = (*alpha, *beta);
    let measured = gemm.bind(&*b.values, &mut c, |bound| job.repeat(&mut Product { bound, factors, old }))?;
    let compared = verified_rows(rows, a.values.k(), columns);
    let verification = job.verify(|| {
        let scaling = Scaling { alpha: T::from_f64(*alpha), beta: T::from_f64(*beta) };
        let old = old.map(|old| old.view());
        verify(scaling, a.values.view(), b.values.view(), old, c.view(), &compared)
    })?;
    if let Some(file) = &output {
        file.write(&c, a.format, Field::Real)?;
    }
    let done = Done {
        load_s: operands.load_s(),
        plan_s: gemm.plan_s(),
        prepare_s: gemm.prepare_s(),
        clock_errors: gemm.clock_errors(),
        faults: gemm.faults(),
        verification,
        verified_part: (compared.len() < rows)
            .then(|| format!("{} of {} rows", count(compared.len() as u64), count(rows as u64))),
        // Rows are packed, and all supported machines are little-endian.
        result_hash: Some(format!("{:016x}", xxh3_64(bytemuck::cast_slice(c.data())))),
        ..Done::new(workload)
    };
    job.report(done, measured)?;
    let ended = job.end("C", verification.as_ref());
    // The program ends; to free the memory of devices first would take longer than many products.
    std::mem::forget((gemm, job));
    ended
}

/// Rows at equal distances, as many as can be verified in a few seconds.
pub fn verified_rows(rows: usize, depth: usize, columns: usize) -> Vec<usize> {
    let row = depth.saturating_mul(columns).max(1);
    let count = (VERIFIED_MULTIPLICATIONS / row).clamp(1, rows.max(1)).min(rows);
    (0..count).map(|index| (index as u128 * rows as u128 / count as u128) as usize).collect()
}

impl<T: PackedProduct> Operands<T> {
    fn load(arguments: &GemmArguments, job: &Job<'_>) -> Result<Self> {
        let (session, finite) = (&job.session, arguments.dense.finite);
        let mut free = session.memory_limit_bytes();
        // Generated matrices of one command differ.
        let mut load = |typed: &OsStr, number: u64| {
            let seed = session.seed.wrapping_add(number);
            let loaded = DenseInput::<T>::load(typed, seed, finite, free, session, job.console)?;
            free = free.saturating_sub(loaded.bytes());
            Ok(loaded)
        };
        let (a, b) = (load(&arguments.a, 0)?, load(&arguments.b, 1)?);
        if a.values.k() != b.values.rows() {
            let (columns, rows) = (a.values.k(), b.values.rows());
            let reason = format!("B has {rows} rows but A has {columns} columns; the numbers must be equal");
            return Err(b.refused(reason));
        }
        let old_c = arguments.c.as_deref().map(|typed| load(typed, 2)).transpose()?;
        if let Some(c) = &old_c {
            let (found, wanted) = ((c.values.rows(), c.values.k()), (a.values.rows(), b.values.k()));
            if found != wanted {
                let reason =
                    format!("C is {} x {}, but A B is {} x {}", found.0, found.1, wanted.0, wanted.1);
                return Err(c.refused(reason));
            }
        }
        let beta = arguments.beta.unwrap_or(if old_c.is_some() { 1.0 } else { 0.0 });
        if old_c.is_none() && beta != 0.0 {
            let reason = "--beta needs the old C: name it with --c";
            return Err(Error::usage(reason));
        }
        Ok(Self { a, b, old_c, alpha: arguments.alpha, beta })
    }

    fn load_s(&self) -> f64 {
        self.a.load_s + self.b.load_s + self.old_c.as_ref().map_or(0.0, |c| c.load_s)
    }

    fn workload(&self, arguments: &GemmArguments) -> Workload {
        let Self { a, b, old_c, alpha, beta } = self;
        let (rows, depth, columns) = (a.values.rows() as u64, a.values.k() as u64, b.values.k() as u64);
        let value_bytes = T::DTYPE.bytes() as u64;
        let updated = T::from_f64(*beta) != T::ZERO;
        let c = match old_c {
            Some(old) => format!("{}, alpha = {alpha}, beta = {beta}", old.describe()),
            None => format!("{} x {}, alpha = {alpha}", count(rows), count(columns)),
        };
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let notes = [Some(a), Some(b), old_c.as_ref()].into_iter().flatten().flat_map(|input| &input.notes);
        Workload {
            work: KindOfWork::Gemm,
            facts: vec![("A", format!("{}, {}", a.describe(), T::DTYPE)), ("B", b.describe()), ("C", c)],
            results: Vec::new(),
            keys: vec![
                ("a", a.report()),
                ("b", b.report()),
                ("c", old_c.as_ref().map_or(json!(null), DenseInput::report)),
                ("alpha", json!(alpha)),
                ("beta", json!(beta)),
            ],
            config: json!({
                "a": a.name,
                "b": b.name,
                "c": old_c.as_ref().map(|c| &c.name),
                "alpha": alpha,
                "beta": beta,
                "finite": arguments.dense.finite,
                "plan": path(&arguments.dense.plan),
                "save": path(&arguments.dense.save),
            }),
            parts: 1,
            kernel: arguments.kernel.clone(),
            operations: 2.0 * rows as f64 * depth as f64 * columns as f64,
            bytes: value_bytes * (rows * depth + depth * columns + rows * columns * (1 + u64::from(updated))),
            a_bytes: a.bytes(),
            output: arguments.output.clone(),
            notes: notes.cloned().collect(),
        }
    }
}

/// A product that is computed again and again, each time with the same old C.
pub struct Product<'g, 'b, 'a, T: PackedProduct> {
    /// The product with its B and C.
    pub bound: &'g mut BoundGemm<'b, 'a, T>,
    /// Alpha and beta.
    pub factors: (f64, f64),
    /// The C that every product begins with; none if beta is zero.
    pub old: Option<&'g MultiVector<T>>,
}

impl<T: PackedProduct> Repeated for Product<'_, '_, '_, T> {
    fn apply(&mut self) -> Result<()> {
        if let Some(old) = self.old {
            self.bound.c_mut().data_mut().copy_from_slice(old.data());
        }
        let (alpha, beta) = self.factors;
        self.bound.apply_scaled(alpha, beta)
    }

    fn plan(&mut self) -> &Plan {
        self.bound.product().plan()
    }

    fn descriptions(&mut self) -> Vec<Description> {
        self.bound.product().descriptions()
    }

    fn take_set_up(&mut self) -> Option<Round> {
        self.bound.product().take_set_up()
    }

    fn last_report(&mut self) -> Option<&RunReport> {
        // Without the product itself, after which B would be sent again.
        self.bound.last_report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verified_rows_are_all_rows_of_a_small_product_and_spread_over_a_large_one() {
        assert_eq!(verified_rows(3, 10, 10), [0, 1, 2]);
        assert!(verified_rows(0, 10, 10).is_empty());
        assert_eq!(verified_rows(10_000, 10_000, 10_000), [0, 5000]);
        assert_eq!(verified_rows(5, usize::MAX, 2), [0]);
    }
}
