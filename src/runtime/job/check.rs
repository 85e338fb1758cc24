//! Checked products: Y is compared with A X after the product, wrong chunks are computed again, and their devices are named.
//!
//! `kernel::check` has the comparison. A chunk with a wrong row is computed again by the reference kernel on the CPU, which shares no
//! code with the others, and compared again. A device whose chunks were wrong twice is not used again, if another one is left.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::prepared::Prepared;
use super::{Job, Scaling};
use crate::error::{Counted, Error, Result};
use crate::graph::DeviceId;
use crate::kernel::Processor;
use crate::kernel::check::{Method, SumsOfX};
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};
use crate::plan::Plan;
use crate::runtime::run::{FaultReport, RunReport};
use crate::work::ChunkRows;

/// Which products are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Check {
    /// None.
    Never,
    /// The first product of every prepared plan, and the product after one that was wrong.
    #[default]
    First,
    /// Every product.
    Always,
}

impl Check {
    /// All values, in the words of `--check`.
    #[doc(hidden)]
    pub const NAMES: [&'static str; 3] = ["first", "always", "never"];

    /// The value of that name.
    #[doc(hidden)]
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "never" => Ok(Self::Never),
            "first" => Ok(Self::First),
            "always" => Ok(Self::Always),
            _ => Err(Error::usage(format!(
                "'{name}' says nothing about which products are checked: use first, always or never"
            ))),
        }
    }

    /// `never`, `first` or `always`.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::First => "first",
            Self::Always => "always",
        }
    }
}

/// The checks of a prepared plan so far.
pub struct Checks {
    check: Check,
    /// Whether the next product is checked.
    due: bool,
    /// For each device how often a chunk of it was wrong.
    wrong: Vec<u32>,
    /// How products are checked, while they are.
    method: Option<Arc<Method>>,
}

impl Checks {
    /// No product was checked yet.
    pub fn new(check: Check, devices: usize) -> Self {
        Self { check, due: check != Check::Never, wrong: vec![0; devices], method: None }
    }

    /// How the next product is checked, which `make` decides for the first; `None` if it is not checked.
    pub fn method(
        &mut self,
        make: impl FnOnce(Check) -> Result<Option<Method>>,
    ) -> Result<Option<Arc<Method>>> {
        if self.due && self.method.is_none() {
            self.method = make(self.check)?.map(Arc::new);
            self.due = self.method.is_some();
        }
        Ok(self.method.clone())
    }

    /// Whether the next product is checked.
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Whether every product is checked.
    pub fn is_always(&self) -> bool {
        self.check == Check::Always
    }

    /// A checked product was right.
    pub fn record_right(&mut self) {
        self.due = self.check == Check::Always;
        if !self.due {
            self.method = None;
        }
    }

    /// A chunk of a device was wrong. The next product is checked too. Returns whether the device was wrong before.
    pub fn record_wrong(&mut self, device: DeviceId) -> bool {
        self.due = true;
        let count = self.wrong.get_mut(device.index());
        count.is_some_and(|count| {
            *count += 1;
            *count > 1
        })
    }
}

/// A product whose Y is checked.
pub struct CheckedProduct<'a, T, Y = MultiVectorView<'a, T>> {
    /// The factors.
    pub scaling: Scaling,
    /// X.
    pub x: MultiVectorView<'a, T>,
    /// Y before the product; `None` if beta is zero.
    pub old: Option<MultiVectorView<'a, T>>,
    /// Y.
    pub y: Y,
}

/// The rows of Y that a chunk contributes to.
pub fn rows_of_chunk(rows: &ChunkRows) -> Range<usize> {
    match *rows {
        ChunkRows::Rows { begin, end } => begin..end,
        ChunkRows::Segments { row, .. } => row..row + 1,
    }
}

/// The fault of a chunk with wrong rows, after the CPU has computed it again.
pub fn wrong_chunk(plan: &Plan, chunk: usize, device: DeviceId, wrong: &[usize]) -> FaultReport {
    let name = plan.devices.get(device.index()).map_or_else(|| "?".into(), |device| device.name.clone());
    let processor = if device == DeviceId::HOST { Processor::Cpu } else { Processor::Gpu };
    let kernel = plan.chunks.get(chunk).map_or_else(String::new, |chunk| chunk.form(processor).name());
    let rows = plan.chunks.get(chunk).map_or(0..0, |chunk| rows_of_chunk(&chunk.rows));
    let inside: Vec<usize> = wrong.iter().copied().filter(|row| rows.contains(row)).collect();
    let first = inside.first().map_or_else(String::new, |row| format!(", the first is row {row}"));
    FaultReport {
        device: name,
        task: format!("check of chunk {chunk}, computed by {kernel}"),
        error: format!(
            "Y differs from A X by more than rounding in {}{first}",
            Counted(inside.len() as u64, "row")
        ),
        recovered_on: Some("cpu (reference kernel)".into()),
    }
}

/// The error of rows that differ from A X even after the reference kernel has computed them.
pub fn still_wrong(wrong: &[usize]) -> Error {
    let row = wrong.first().copied().unwrap_or_default();
    Error::Verification(format!(
        "Y differs from A X in {}, also after the reference kernel has computed them again; the first is row {row}",
        Counted(wrong.len() as u64, "row")
    ))
}

fn copy<T: Scalar>(y: MultiVectorView<'_, T>) -> Result<MultiVector<T>> {
    let mut copy = MultiVector::zeros(y.rows(), y.k())?;
    for row in 0..y.rows() {
        copy.view_mut().row_mut(row).copy_from_slice(y.row(row));
    }
    Ok(copy)
}

impl<J: Job> Prepared<J> {
    /// Runs a product and checks Y, if the check is due. Wrong chunks are computed again.
    pub(super) fn checked(
        &mut self,
        scaling: Scaling,
        x: MultiVectorView<'_, J::Value>,
        mut y: MultiVectorViewMut<'_, J::Value>,
        run: impl FnOnce(&mut Self, MultiVectorViewMut<'_, J::Value>) -> Result<RunReport>,
    ) -> Result<RunReport> {
        let Some(method) = self.check_method()? else { return run(self, y) };
        let old = match scaling.reads_y() {
            true => Some(copy(y.as_view())?),
            false => None,
        };
        let observed = |prepared: &mut Self, y: &mut MultiVectorViewMut<'_, J::Value>| {
            let old = old.as_ref().map(MultiVector::view);
            prepared.run_direct_checked(&method, CheckedProduct { scaling, x, old, y })
        };
        let mut x_sums = None;
        let (mut report, found) = match self.is_direct() {
            true => observed(self, &mut y)?,
            // Sums of columns, which need those of X, are for products that do not read Y.
            false if old.is_some() => (run(self, y.reborrow())?, None),
            false => {
                let (report, sums) =
                    self.beside_sums_of_x(&method, x, |prepared| run(prepared, y.reborrow()));
                x_sums = sums?;
                (report?, None)
            }
        };
        if report.cancelled {
            return Ok(report);
        }
        let start = Instant::now();
        let pool = self.pool.clone();
        let find = |prepared: &Self, y: &mut MultiVectorViewMut<'_, J::Value>, x_sums| {
            let _span = tracing::info_span!("check").entered();
            let old = old.as_ref().map(MultiVector::view);
            let product = CheckedProduct { scaling, x, old, y: y.as_view() };
            pool.install(|| prepared.job.wrong_rows(&method, &product, x_sums))
        };
        let mut wrong = match found {
            Some(wrong) => wrong,
            None => find(self, &mut y, x_sums)?,
        };
        if wrong.is_empty() {
            self.checks.record_right();
        }
        let mut computed = BTreeSet::new();
        while !wrong.is_empty() {
            let chunks = self.chunks_of(&wrong);
            // Every round computes another chunk, or there is an error.
            if chunks.iter().any(|chunk| !computed.insert(*chunk)) {
                return Err(still_wrong(&wrong));
            }
            let of = CheckedProduct { scaling, x, old: old.as_ref().map(MultiVector::view), y: () };
            report.faults.extend(self.compute_wrong_chunks(&report, &of, &mut y, &chunks, &wrong)?);
            wrong = find(self, &mut y, None)?;
        }
        report.check_s = Some(start.elapsed().as_secs_f64());
        if self.checks.is_always() {
            report.end_ns = self.clock().now_ns();
        }
        Ok(report)
    }

    /// How the next product is checked, if it is.
    pub(super) fn check_method(&mut self) -> Result<Option<Arc<Method>>> {
        let (pool, job) = (&self.pool, &self.job);
        self.checks.method(|check| pool.install(|| job.check_method(check)))
    }

    /// Calls `run` while threads of the pool form the sums of X.
    fn beside_sums_of_x<R>(
        &mut self,
        method: &Method,
        x: MultiVectorView<'_, J::Value>,
        run: impl FnOnce(&mut Self) -> R,
    ) -> (R, Result<Option<SumsOfX>>) {
        if matches!(method, Method::Rows) {
            return (run(self), Ok(None));
        }
        let pool = self.pool.clone();
        std::thread::scope(|scope| {
            let sum = move || pool.install(|| J::sums_of_x(method, x));
            // If no thread can be started, the sums are formed after the product.
            let sums = std::thread::Builder::new().spawn_scoped(scope, sum).ok();
            let result = run(self);
            let failed = || Error::Internal("the thread of a check has panicked".into());
            let joined = sums.map(|sums| sums.join().unwrap_or_else(|_| Err(failed())));
            (result, joined.unwrap_or(Ok(None)))
        })
    }

    /// The chunks with wrong rows.
    fn chunks_of(&self, wrong: &[usize]) -> Vec<usize> {
        let has_wrong_row = |rows: Range<usize>| {
            let from = wrong.partition_point(|&row| row < rows.start);
            wrong.get(from).is_some_and(|row| rows.contains(row))
        };
        let chunks = self.plan().chunks.iter().enumerate();
        let wrong = chunks.filter(|(_, chunk)| has_wrong_row(rows_of_chunk(&chunk.rows)));
        wrong.map(|(index, _)| index).collect()
    }

    /// Computes chunks with wrong rows again, by the reference kernel, and returns their faults.
    fn compute_wrong_chunks(
        &mut self,
        report: &RunReport,
        product: &CheckedProduct<'_, J::Value, ()>,
        y: &mut MultiVectorViewMut<'_, J::Value>,
        chunks: &[usize],
        wrong: &[usize],
    ) -> Result<Vec<FaultReport>> {
        let CheckedProduct { scaling, x, old, .. } = *product;
        let rows_of = |&chunk: &usize| self.plan().chunks.get(chunk).map(|chunk| rows_of_chunk(&chunk.rows));
        let ranges: BTreeSet<(usize, usize)> =
            chunks.iter().filter_map(rows_of).map(|rows| (rows.start, rows.end)).collect();
        for (begin, end) in ranges {
            let (_, behind) = y.reborrow().split_at_row(begin);
            let (mut part, _) = behind.split_at_row(end - begin);
            if let Some(old) = old {
                (begin..end).for_each(|row| part.row_mut(row - begin).copy_from_slice(old.row(row)));
            }
            self.pool.install(|| self.job.compute_by_reference(begin..end, scaling, x, part))?;
        }
        let mut faults = Vec::new();
        for &chunk in chunks {
            // A chunk that was moved after a fault was computed last by another device.
            let device = report.computed().filter(|of| of.chunk == chunk).last();
            let device = device.map_or(DeviceId::HOST, |of| of.device);
            faults.push(wrong_chunk(self.plan(), chunk, device, wrong));
            if self.checks.record_wrong(device) {
                match device == DeviceId::HOST {
                    true => self.job.prefer_reference(chunk)?,
                    false => self.exclude_wrong_device(device)?,
                }
            }
        }
        Ok(faults)
    }
}
