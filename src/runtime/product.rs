//! A product Y = A X: built once, applied any number of times.

use std::sync::atomic::AtomicBool;

use super::adaptation::Adaptation;
use super::operand::{Input, Output};
use super::product_builder::{ProductBuilder, Transfer};
use super::report::{FaultReport, Round, RunReport};
use crate::device::{Description, Registration};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::matrix::{CsrView, MultiVector, MultiVectorView, MultiVectorViewMut};
use crate::plan::Plan;

/// A product with one matrix and a fixed number of columns.
///
/// It owns its plan and its memory on the devices. The plan adapts to measured times, unless
/// [`adaptive(false)`](ProductBuilder::adaptive) was asked for; every call delivers Y.
pub struct Product<'a, T: Kernels> {
    adaptation: Adaptation<'a, T>,
    last: Option<RunReport>,
    faults: Vec<FaultReport>,
}

impl<'a, T: Kernels> Product<'a, T> {
    pub(super) fn new(builder: ProductBuilder<'a, T>) -> Result<Self> {
        Ok(Self { adaptation: Adaptation::new(builder)?, last: None, faults: Vec::new() })
    }

    /// The matrix.
    pub fn matrix(&self) -> CsrView<'_, T> {
        self.adaptation.matrix.view()
    }

    /// Columns of X and Y.
    pub fn columns(&self) -> usize {
        self.adaptation.k
    }

    /// Y = A X.
    pub fn apply(&mut self, x: &(impl Input<T> + ?Sized)) -> Result<MultiVector<T>> {
        let mut y = MultiVector::zeros(self.matrix().rows(), self.columns())?;
        self.apply_into(x, &mut y)?;
        Ok(y)
    }

    /// Y = A X, into an existing Y.
    pub fn apply_into(
        &mut self,
        x: &(impl Input<T> + ?Sized),
        y: &mut (impl Output<T> + ?Sized),
    ) -> Result<()> {
        let (rows, cols, k) = (self.matrix().rows(), self.matrix().cols(), self.columns());
        let (x, mut y) = (x.input(cols, k)?, y.output(rows, k)?);
        self.adaptation.set_bound(false);
        let registers = self.adaptation.options.transfer == Transfer::Registered;
        let _registrations = if registers { self.register(x, &mut y)? } else { Vec::new() };
        self.run(x, y, None)
    }

    /// Binds X and Y for repeated products with the same arrays. They may be page-locked as long as they are bound.
    pub fn bind<'p>(
        &'p mut self,
        x: &'p (impl Input<T> + ?Sized),
        y: &'p mut (impl Output<T> + ?Sized),
    ) -> Result<Bound<'p, 'a, T>> {
        let (rows, cols, k) = (self.matrix().rows(), self.matrix().cols(), self.columns());
        let (x, y) = (x.input(cols, k)?, y.output(rows, k)?);
        self.adaptation.set_bound(true);
        Ok(Bound { registrations: Vec::new(), registered_at: None, product: self, x, y })
    }

    fn register(
        &mut self,
        x: MultiVectorView<'_, T>,
        y: &mut MultiVectorViewMut<'_, T>,
    ) -> Result<Vec<Registration<'static>>> {
        Ok(self.adaptation.next()?.register(x, y))
    }

    fn run(
        &mut self,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
        cancel: Option<&AtomicBool>,
    ) -> Result<()> {
        let report = self.adaptation.next()?.run(x, y, cancel)?;
        self.adaptation.record(&report);
        self.faults.extend_from_slice(&report.faults);
        self.last = Some(report);
        Ok(())
    }

    /// The plan of the last product, or the first plan before it.
    pub fn plan(&self) -> &Plan {
        self.adaptation.plan()
    }

    /// The decisions of the plan in words, one per line, and the changes so far.
    pub fn explain(&self) -> String {
        let lines = self.plan().reasons.iter().chain(&self.adaptation.notes);
        lines.map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The report of the last product.
    pub fn last_report(&self) -> Option<&RunReport> {
        self.last.as_ref()
    }

    /// The report of the last product, taken out.
    pub fn take_report(&mut self) -> Option<RunReport> {
        self.last.take()
    }

    /// Changes of the plan and devices that are not used, in words, since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.adaptation.notes)
    }

    /// How often the plan changed, the first plan included.
    pub fn changes(&self) -> u64 {
        self.adaptation.changes
    }

    /// Seconds of planning so far.
    pub fn plan_s(&self) -> f64 {
        self.adaptation.plan_s
    }

    /// Seconds of opening devices, preparing and bringing A so far.
    pub fn prepare_s(&self) -> f64 {
        self.adaptation.prepare_s
    }

    /// Faults of the current plan before its first product, refused registrations, and the faults of all products.
    pub fn faults(&self) -> Vec<FaultReport> {
        let before = self.adaptation.current().map_or(&[][..], |prepared| prepared.faults());
        before.iter().chain(&self.faults).cloned().collect()
    }

    /// The descriptions of the devices of the current plan, the host first; empty before the first product.
    pub fn descriptions(&self) -> Vec<Description> {
        self.adaptation.current().map_or_else(Vec::new, |prepared| prepared.descriptions())
    }

    /// The clock errors of devices with their own clock, by device name, in nanoseconds.
    pub fn clock_errors(&self) -> Vec<(String, u64)> {
        self.adaptation.current().map_or_else(Vec::new, |prepared| prepared.clock_errors())
    }

    /// Takes the round that brought A to the devices of the current plan, where it stays there.
    pub fn take_set_up(&mut self) -> Option<Round> {
        self.adaptation.current_mut()?.take_set_up()
    }

    /// The reason for the host's choice of kernel for a chunk of the current plan.
    pub fn host_reason(&self, chunk: usize) -> Option<String> {
        self.adaptation.current()?.host_reason(chunk)
    }

    /// Prepares the plan of the next product now: opens its devices and brings A to them.
    pub fn prepare(&mut self) -> Result<()> {
        self.adaptation.next().map(drop)
    }
}

/// A product with its X and Y bound; [`Product::bind`].
pub struct Bound<'p, 'a, T: Kernels> {
    // Dropped first: the borrows of X and Y end after their registrations.
    registrations: Vec<Registration<'static>>,
    /// The number of the plan that they were made for.
    registered_at: Option<u64>,
    product: &'p mut Product<'a, T>,
    x: MultiVectorView<'p, T>,
    y: MultiVectorViewMut<'p, T>,
}

impl<'a, T: Kernels> Bound<'_, 'a, T> {
    /// Y = A X.
    pub fn apply(&mut self) -> Result<()> {
        self.apply_until(None)
    }

    /// Y = A X, or less if `cancel` is set meanwhile, as the report then says.
    pub fn apply_until(&mut self, cancel: Option<&AtomicBool>) -> Result<()> {
        self.product.adaptation.next()?;
        let changes = self.product.changes();
        if self.registered_at != Some(changes) {
            self.registrations.clear();
            self.registrations = self.product.register(self.x, &mut self.y)?;
            self.registered_at = Some(changes);
        }
        self.product.run(self.x, self.y.reborrow(), cancel)
    }

    /// The product.
    pub fn product(&mut self) -> &mut Product<'a, T> {
        self.product
    }
}
