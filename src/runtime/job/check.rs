//! Checked products: Y is compared with A X after the product, wrong chunks are computed again, and their devices are named.
//!
//! `kernel::check` has the comparison. A chunk with a wrong row is computed again by the reference kernel on the CPU, which shares no
//! code with the others, and compared again. A device whose chunks were wrong twice is not used again, if another one is left.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

use super::prepared::Prepared;
use super::{Job, Scaling};
use crate::error::{Counted, Error, Result};
use crate::graph::DeviceId;
use crate::kernel::Processor;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};
use crate::plan::Plan;
use crate::runtime::report::{FaultReport, RunReport};
use crate::work::ChunkRows;

/// Which products are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    pub const NAMES: [&'static str; 3] = ["first", "always", "never"];

    /// The value of that name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "never" => Ok(Self::Never),
            "first" => Ok(Self::First),
            "always" => Ok(Self::Always),
            _ => Err(Error::Usage(format!(
                "'{name}' says nothing about which products are checked: use first, always or never"
            ))),
        }
    }

    /// `never`, `first` or `always`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::First => "first",
            Self::Always => "always",
        }
    }
}

/// The checks of a prepared plan so far.
#[derive(Debug)]
pub struct Checks {
    check: Check,
    /// Whether the next product is checked.
    due: bool,
    /// For each device how often a chunk of it was wrong.
    wrong: Vec<u32>,
}

impl Checks {
    /// No product was checked yet.
    pub fn new(check: Check, devices: usize) -> Self {
        Self { check, due: check != Check::Never, wrong: vec![0; devices] }
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
pub struct CheckedProduct<'a, T> {
    /// The factors.
    pub scaling: Scaling,
    /// X.
    pub x: MultiVectorView<'a, T>,
    /// Y before the product; `None` if beta is zero.
    pub old: Option<MultiVectorView<'a, T>>,
    /// Y.
    pub y: MultiVectorView<'a, T>,
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

fn read<'y, T: Scalar>(y: &'y mut MultiVectorViewMut<'_, T>) -> Result<MultiVectorView<'y, T>> {
    let (rows, k, leading_dimension) = (y.rows(), y.k(), y.leading_dimension());
    MultiVectorView::try_new(y.data_mut(), rows, k, leading_dimension)
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
        if !self.checks.is_due() {
            return run(self, y);
        }
        let old = match scaling.reads_y() {
            true => Some(copy(read(&mut y)?)?),
            false => None,
        };
        let mut report = run(self, y.reborrow())?;
        if report.cancelled {
            return Ok(report);
        }
        let start = Instant::now();
        let pool = self.pool.clone();
        let find = |prepared: &Self, y: &mut MultiVectorViewMut<'_, J::Value>| {
            let _span = tracing::info_span!("check").entered();
            let old = old.as_ref().map(MultiVector::view);
            let product = CheckedProduct { scaling, x, old, y: read(y)? };
            pool.install(|| prepared.job.wrong_rows(&product))
        };
        let Some(wrong) = find(self, &mut y)? else {
            // This kind of work has no check.
            self.checks.record_right();
            return Ok(report);
        };
        match wrong.is_empty() {
            true => self.checks.record_right(),
            false => {
                let faults = self.compute_wrong_chunks(&report, scaling, x, old.as_ref(), &mut y, &wrong)?;
                report.faults.extend(faults);
                if let Some(wrong) = find(self, &mut y)?.filter(|wrong| !wrong.is_empty()) {
                    return Err(still_wrong(&wrong));
                }
            }
        }
        report.check_s = Some(start.elapsed().as_secs_f64());
        if self.checks.is_always() {
            report.end_ns = self.clock().now_ns();
        }
        Ok(report)
    }

    /// Computes the chunks with wrong rows again, by the reference kernel, and returns their faults.
    fn compute_wrong_chunks(
        &mut self,
        report: &RunReport,
        scaling: Scaling,
        x: MultiVectorView<'_, J::Value>,
        old: Option<&MultiVector<J::Value>>,
        y: &mut MultiVectorViewMut<'_, J::Value>,
        wrong: &[usize],
    ) -> Result<Vec<FaultReport>> {
        let has_wrong_row = |rows: &Range<usize>| {
            let from = wrong.partition_point(|&row| row < rows.start);
            wrong.get(from).is_some_and(|row| rows.contains(row))
        };
        let rows: Vec<Range<usize>> =
            self.plan().chunks.iter().map(|chunk| rows_of_chunk(&chunk.rows)).collect();
        let chunks: Vec<usize> = (0..rows.len()).filter(|&chunk| has_wrong_row(&rows[chunk])).collect();
        let ranges: BTreeSet<(usize, usize)> =
            chunks.iter().map(|&chunk| (rows[chunk].start, rows[chunk].end)).collect();
        for (begin, end) in ranges {
            let (_, behind) = y.reborrow().split_at_row(begin);
            let (mut part, _) = behind.split_at_row(end - begin);
            if let Some(old) = old {
                (begin..end).for_each(|row| part.row_mut(row - begin).copy_from_slice(old.row(row)));
            }
            self.pool.install(|| self.job.compute_by_reference(begin..end, scaling, x, part))?;
        }
        let mut faults = Vec::new();
        for chunk in chunks {
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
