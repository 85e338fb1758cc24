//! Checked products: Y is compared with A X after the product, wrong chunks are computed again, and their devices are named.
//!
//! `kernel::check` has the comparison. A chunk with a wrong row is computed again by the reference kernel on the CPU, which shares no
//! code with the others, and compared again. A device whose chunks were wrong twice is not used again, if another one is left.

use std::ops::Range;
use std::sync::Arc;

use super::Scaling;
use crate::error::{Counted, Error, Result};
use crate::graph::DeviceId;
use crate::kernel::Processor;
use crate::kernel::check::Method;
use crate::matrix::MultiVectorView;
use crate::plan::Plan;
use crate::runtime::Check;
use crate::runtime::run::FaultReport;
use crate::work::ChunkRows;

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
