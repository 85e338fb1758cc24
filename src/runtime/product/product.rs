//! A product Y = A X: built once, applied any number of times.

use std::sync::atomic::AtomicBool;

use super::adaptation::Adaptation;
use super::builder::ProductBuilder;
use crate::device::{Description, ForeignMemory, Registration, StreamHandle};
use crate::error::{Error, Result};
use crate::kernel::cpu::{Kernels, slow_build};
use crate::matrix::{CsrView, MultiVector, MultiVectorView, MultiVectorViewMut, transpose};
use crate::plan::Plan;
use crate::runtime::Transfer;
use crate::runtime::job::{InPlace, PageLockedMultiVector, Scaling};
use crate::runtime::run::{FaultReport, Round, RunReport};
use crate::runtime::vectors::{
    Input, InputOperand, MessagesOfDevices, Output, OutputOperand, VectorProduct, Vectors, host_input,
    host_output,
};
use crate::runtime::{OperationRecord, Runtime, Timeline};
use crate::trace::Trace;

/// A product with one matrix and a fixed number of columns.
///
/// It owns its plan and its memory on the devices. The plan adapts to measured times, unless
/// [`adaptive(false)`](ProductBuilder::adaptive) was asked for; every call delivers Y.
pub struct Product<'a, T: Kernels> {
    /// The product on vectors that stay on devices; made when it is first used.
    on_vectors: Option<VectorProduct<'a, T>>,
    adaptation: Adaptation<'a, T>,
    last: Option<RunReport>,
    faults: Vec<FaultReport>,
}

impl<'a, T: Kernels> ProductBuilder<'a, T> {
    /// Makes the first plan. Devices are opened with the first product, where they pay.
    pub fn build(self) -> Result<Product<'a, T>> {
        if self.k == 0 {
            return Err(Error::usage("a product needs at least one column"));
        }
        Product::new(self)
    }
}

impl<'a, T: Kernels> Product<'a, T> {
    pub(super) fn new(builder: ProductBuilder<'a, T>) -> Result<Self> {
        let (on_vectors, last, faults) = (None, None, Vec::new());
        Ok(Self { on_vectors, adaptation: Adaptation::new(builder)?, last, faults })
    }

    /// The matrix.
    pub fn matrix(&self) -> CsrView<'_, T> {
        self.adaptation.matrix.view()
    }

    /// The runtime that it was built with.
    #[doc(hidden)]
    pub fn runtime(&self) -> &Runtime {
        &self.adaptation.runtime
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

    /// Y = A X, into an existing Y. Both are in host memory, or both are [`Vectors`] of this product.
    pub fn apply_into(
        &mut self,
        x: &(impl Input<T> + ?Sized),
        y: &mut (impl Output<T> + ?Sized),
    ) -> Result<()> {
        self.apply_scaled(1.0, x, 0.0, y)
    }

    /// Y = alpha A X + beta Y. The old Y has no effect if beta is zero.
    pub fn apply_scaled(
        &mut self,
        alpha: f64,
        x: &(impl Input<T> + ?Sized),
        beta: f64,
        y: &mut (impl Output<T> + ?Sized),
    ) -> Result<()> {
        self.apply_scaled_until(alpha, x, beta, y, None)
    }

    /// The same, or less if `cancel` is set meanwhile, as the report then says. Products on [`Vectors`] are always whole.
    #[doc(hidden)]
    pub fn apply_scaled_until(
        &mut self,
        alpha: f64,
        x: &(impl Input<T> + ?Sized),
        beta: f64,
        y: &mut (impl Output<T> + ?Sized),
        cancel: Option<&AtomicBool>,
    ) -> Result<()> {
        if let InputOperand::Vectors(x) = x.operand()
            && let OutputOperand::Vectors(y) = y.operand()
        {
            let (report, faults) = self.vector_product()?.apply(Scaling::rounded::<T>(alpha, beta), x, y)?;
            self.faults.extend(faults);
            self.last = report;
            return self.matrix().check_intact();
        }
        let (rows, cols, k) = (self.matrix().rows(), self.matrix().cols(), self.columns());
        let in_place = InPlace { x: x.is_page_locked(), y: y.is_page_locked() };
        let (x, mut y) = (host_input(x, cols, k)?, host_output(y, rows, k)?);
        self.adaptation.set_bound(false);
        let registers = self.adaptation.options.transfer == Transfer::Registered;
        let _registrations = if registers { self.register(x, &mut y)? } else { Vec::new() };
        self.run(Scaling::rounded::<T>(alpha, beta), x, y, in_place, cancel)
    }

    /// A new Y of zeros in page-locked memory: devices write it, and read it as X of a square matrix, without a copy by the host. `None`
    /// if the plan of the next product copies nothing to devices, or they pad its rows, or cannot page-lock it.
    pub fn page_locked_y(&mut self) -> Result<Option<PageLockedMultiVector<T>>> {
        self.adaptation.set_bound(false);
        self.adaptation.next()?.page_locked_y()
    }

    /// New vectors of zeros with the rows of Y, which stay on the devices of the product. For a square matrix they can be X too.
    pub fn vectors(&mut self) -> Result<Vectors<T>> {
        self.vector_product()?.y()
    }

    /// New vectors of zeros with the rows of X, for a matrix that is not square.
    pub fn x_vectors(&mut self) -> Result<Vectors<T>> {
        self.vector_product()?.x()
    }

    /// Y = alpha A X + beta Y on arrays of another library in the memory of the only device of this product. Rows have the pitch of
    /// [`pitch_bytes`](crate::work::pitch_bytes); the padding may have any values, and that of Y is overwritten.
    ///
    /// With a stream of the library, the calling thread issues the kernels on it and does not wait for them, as the library's own
    /// operations do: the product comes after the work that is on the stream, and later work on it comes after the product. A fault of
    /// the kernels is reported by a later call. Without a stream, the product has ended when this returns.
    #[doc(hidden)]
    pub fn apply_foreign(
        &mut self,
        alpha: f64,
        x: ForeignMemory,
        beta: f64,
        y: ForeignMemory,
        stream: Option<StreamHandle>,
    ) -> Result<()> {
        self.last = None;
        self.vector_product()?.apply_foreign(Scaling::rounded::<T>(alpha, beta), x, y, stream)?;
        self.matrix().check_intact()
    }

    /// The stream that computes products on arrays of other libraries without a stream, which let it wait for their own work. `None`
    /// for an emulated device.
    #[doc(hidden)]
    pub fn compute_stream(&mut self) -> Result<Option<StreamHandle>> {
        self.vector_product()?.compute_stream()
    }

    /// The device, and the times on it of the last product on arrays of other libraries; `None` before the first. Waits for this
    /// product and reports its fault.
    #[doc(hidden)]
    pub fn foreign_record(&self) -> Result<Option<(Description, OperationRecord)>> {
        self.on_vectors.as_ref().map_or(Ok(None), VectorProduct::foreign_record)
    }

    /// The plan of products on [`Vectors`]; made when they are first used.
    pub fn vector_plan(&mut self) -> Result<&Plan> {
        Ok(self.vector_product()?.plan())
    }

    /// Number of rows of X that cross between devices with each product on [`Vectors`].
    pub fn exchanged_rows(&mut self) -> Result<usize> {
        Ok(self.vector_product()?.exchanged_rows())
    }

    /// Number of rows of X that this rank receives from others with each product on [`Vectors`].
    pub(in crate::internal::runtime) fn rows_from_ranks(&mut self) -> Result<u64> {
        Ok(self.vector_product()?.rows_from_ranks())
    }

    /// The messages between ranks with each product on [`Vectors`] whose rows a device of this rank has or needs.
    pub(in crate::internal::runtime) fn messages_of_devices(&mut self) -> Result<MessagesOfDevices> {
        Ok(self.vector_product()?.messages_of_devices())
    }

    /// The descriptions of the devices of products on [`Vectors`], the host first and the network last.
    pub(in crate::internal::runtime) fn vector_descriptions(&self) -> Vec<Description> {
        self.on_vectors.as_ref().map_or_else(Vec::new, VectorProduct::descriptions)
    }

    /// Seconds on the clock of simulated devices, which products and operations on [`Vectors`] advance; `None` for other devices.
    pub fn simulated_seconds(&self) -> Option<f64> {
        Some(self.on_vectors.as_ref()?.simulated_ns()? as f64 * 1e-9)
    }

    fn vector_product(&mut self) -> Result<&mut VectorProduct<'a, T>> {
        if self.on_vectors.is_none() {
            let product = self.adaptation.vector_product()?;
            // The copies of A on devices have the values of now.
            self.matrix().check_intact()?;
            self.on_vectors = Some(product);
        }
        self.on_vectors.as_mut().ok_or_else(|| Error::Internal("the product on vectors is missing".into()))
    }

    /// The product with the transposed matrix, with the same options.
    pub fn transposed(&self) -> Result<Product<'static, T>> {
        let runtime = &self.adaptation.runtime;
        let transposed = runtime.pool().install(|| transpose(&self.matrix()))?;
        self.matrix().check_intact()?;
        let builder = runtime.product(transposed).columns(self.columns());
        builder.options(self.adaptation.options.clone()).build()
    }

    /// Binds X and Y for repeated products with the same arrays, which `with` calls. They, and a borrowed A, may be page-locked as long
    /// as they are bound.
    ///
    /// A function instead of a value: a value could be leaked, and the arrays could then be freed while they are page-locked:
    ///
    /// ```compile_fail
    /// # use rowloom::{Csr, MultiVector, Runtime};
    /// # let runtime = Runtime::open("cpu").unwrap();
    /// # let a = Csr::<f64>::generate("stencil5,n=30").unwrap();
    /// # let x = MultiVector::<f64>::zeros(a.cols(), 8).unwrap();
    /// # let mut y = MultiVector::<f64>::zeros(a.rows(), 8).unwrap();
    /// # let mut product = runtime.product(&a).columns(8).build().unwrap();
    /// let mut kept = None;
    /// product.bind(&x, &mut y, |bound| {
    ///     kept = Some(bound);
    ///     Ok(())
    /// });
    /// ```
    pub fn bind<R>(
        &mut self,
        x: &(impl Input<T> + ?Sized),
        y: &mut (impl Output<T> + ?Sized),
        with: impl FnOnce(&mut Bound<'_, 'a, T>) -> Result<R>,
    ) -> Result<R> {
        let (rows, cols, k) = (self.matrix().rows(), self.matrix().cols(), self.columns());
        let (x, y) = (host_input(x, cols, k)?, host_output(y, rows, k)?);
        self.adaptation.set_bound(true);
        with(&mut Bound { registrations: Vec::new(), registered_at: None, product: self, x, y })
    }

    fn register<'xy>(
        &mut self,
        x: MultiVectorView<'xy, T>,
        y: &mut MultiVectorViewMut<'xy, T>,
    ) -> Result<Vec<Registration<'xy>>>
    where
        'a: 'xy,
    {
        Ok(self.adaptation.next()?.register(x, y))
    }

    fn run(
        &mut self,
        scaling: Scaling,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
        in_place: InPlace,
        cancel: Option<&AtomicBool>,
    ) -> Result<()> {
        let report = self.adaptation.next()?.run_in_place(scaling, x, y, in_place, cancel)?;
        self.adaptation.record(&report);
        self.faults.extend_from_slice(&report.faults);
        self.last = Some(report);
        // One call of the system, for the matrix of a mapped file only.
        self.matrix().check_intact()
    }

    /// The plan of the last product, or the first plan before it.
    pub fn plan(&self) -> &Plan {
        self.adaptation.plan()
    }

    /// The decisions of the plan in words, one per line, the changes so far, and the faults after which a part was computed elsewhere.
    pub fn explain(&self) -> String {
        let faults = self.faults().into_iter().map(|fault| {
            let FaultReport { device, task, error, recovered_on } = fault;
            let next = match recovered_on {
                Some(on) if on == device => "; the plan was changed, and it computes".into(),
                Some(on) => format!("; {on} computes instead"),
                None => String::new(),
            };
            format!("fault: {device}, {task}: {error}{next}")
        });
        let lines = self.plan().reasons.iter().chain(&self.adaptation.notes).cloned();
        lines.chain(faults).chain(slow_build().map(String::from)).collect::<Vec<_>>().join("\n")
    }

    /// The report of the last product; `None` after a product on [`Vectors`] on one device, which is queued.
    pub fn last_report(&self) -> Option<&RunReport> {
        self.last.as_ref()
    }

    /// The report of the last product, taken out.
    #[doc(hidden)]
    pub fn take_report(&mut self) -> Option<RunReport> {
        self.last.take()
    }

    /// Changes of the plan and devices that are not used, in words, since the last call.
    #[doc(hidden)]
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.adaptation.notes)
    }

    /// How often the plan changed, the first plan included.
    #[doc(hidden)]
    pub fn changes(&self) -> u64 {
        self.adaptation.changes
    }

    /// Seconds of planning so far.
    #[doc(hidden)]
    pub fn plan_s(&self) -> f64 {
        self.adaptation.plan_s
    }

    /// Seconds of opening devices, preparing and bringing A so far.
    #[doc(hidden)]
    pub fn prepare_s(&self) -> f64 {
        self.adaptation.prepare_s
    }

    /// Faults of all plans before their first product, refused registrations, and the faults of all products.
    pub fn faults(&self) -> Vec<FaultReport> {
        self.adaptation.faults().chain(&self.faults).cloned().collect()
    }

    /// The descriptions of the devices of the current plan, the host first; empty before the first product.
    #[doc(hidden)]
    pub fn descriptions(&self) -> Vec<Description> {
        self.adaptation.current().map_or_else(Vec::new, |prepared| prepared.descriptions())
    }

    /// The clock errors of devices with their own clock, by device name, in nanoseconds.
    #[doc(hidden)]
    pub fn clock_errors(&self) -> Vec<(String, u64)> {
        self.adaptation.current().map_or_else(Vec::new, |prepared| prepared.clock_errors())
    }

    /// Takes the round that brought A to the devices of the current plan, where it stays there.
    #[doc(hidden)]
    pub fn take_set_up(&mut self) -> Option<Round> {
        self.adaptation.current_mut()?.take_set_up()
    }

    /// The reason for the host's choice of kernel for a chunk of the current plan.
    #[doc(hidden)]
    pub fn host_reason(&self, chunk: usize) -> Option<String> {
        self.adaptation.current()?.host_reason(chunk)
    }

    /// Adds the tasks of the last product to a trace, as product number `number`. Without a product it adds nothing.
    pub fn add_to_trace(&self, trace: &mut Trace, number: u64) {
        let Some(report) = self.last_report() else { return };
        Timeline::new(trace, self.plan(), &self.descriptions()).add_run(trace, report, number);
        for (clock, error_ns) in self.clock_errors() {
            trace.clock_error(&clock, error_ns);
        }
    }

    /// Stores what was learned about the matrix, as dropping the product does.
    #[doc(hidden)]
    pub fn remember(&mut self) {
        self.adaptation.remember();
    }

    /// Prepares the plan of the next product now: opens its devices and brings A to them.
    pub fn prepare(&mut self) -> Result<()> {
        self.adaptation.next().map(drop)
    }
}

/// A product with its X and Y bound; [`Product::bind`].
pub struct Bound<'p, 'a, T: Kernels> {
    registrations: Vec<Registration<'p>>,
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
    #[doc(hidden)]
    pub fn apply_until(&mut self, cancel: Option<&AtomicBool>) -> Result<()> {
        self.apply_scaled_until(1.0, 0.0, cancel)
    }

    /// Y = alpha A X + beta Y. The old Y has no effect if beta is zero.
    ///
    /// A GPU cannot add to a page-locked Y in place. If the plan page-locks Y and beta is not zero, the arrays are staged from then on.
    ///
    /// ```
    /// use rowloom::{Csr, MultiVector, Runtime};
    ///
    /// # fn main() -> rowloom::Result<()> {
    /// let a = Csr::<f64>::generate("stencil5,n=30")?;
    /// let x = MultiVector::<f64>::filled(a.cols(), 8, 1.0)?;
    /// let mut y = MultiVector::<f64>::filled(a.rows(), 8, 1.0)?;
    /// let mut product = Runtime::open("cpu")?.product(a).columns(8).build()?;
    /// product.bind(&x, &mut y, |bound| (0..10).try_for_each(|_| bound.apply_scaled(0.5, -1.0)))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply_scaled(&mut self, alpha: f64, beta: f64) -> Result<()> {
        self.apply_scaled_until(alpha, beta, None)
    }

    /// The same, or less if `cancel` is set meanwhile, as the report then says.
    #[doc(hidden)]
    pub fn apply_scaled_until(&mut self, alpha: f64, beta: f64, cancel: Option<&AtomicBool>) -> Result<()> {
        let scaling = Scaling::rounded::<T>(alpha, beta);
        let plan = self.product.adaptation.next()?.plan();
        if scaling.reads_y() && plan.devices.iter().any(|device| device.registered.y) {
            self.registrations.clear();
            self.registered_at = None;
            self.product.adaptation.set_bound(false);
            self.product.adaptation.next()?;
        }
        let changes = self.product.changes();
        if self.registered_at != Some(changes) {
            self.registrations.clear();
            self.registrations = self.product.register(self.x, &mut self.y)?;
            self.registered_at = Some(changes);
        }
        self.product.run(scaling, self.x, self.y.reborrow(), InPlace::default(), cancel)
    }

    /// The product.
    pub fn product(&mut self) -> &mut Product<'a, T> {
        self.product
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::matrix::generate;

    #[test]
    fn a_small_product_needs_no_worker_of_the_pool() {
        let runtime = Runtime::builder().devices("cpu").model("none").open().unwrap();
        let a = generate::<f64>("stencil5,n=20", 1, 1 << 30).unwrap().matrix;
        let x = vec![1.0; a.cols()];
        let mut product = runtime.product(&a).columns(1).uses(10).build().unwrap();
        let expected = product.apply(&x[..]).unwrap();
        let (started, starts) = mpsc::channel();
        let workers = runtime.pool().threads();
        let ends: Vec<_> = runtime.pool().in_place_scope(|scope| {
            let occupy = |_| {
                let (end, ended) = mpsc::channel::<()>();
                let (started, (released, was_released)) = (started.clone(), mpsc::channel());
                scope.spawn(move |_| {
                    started.send(()).unwrap();
                    // The limit lets the test fail, and not hang, if the product waits for this worker.
                    released.send(ended.recv_timeout(Duration::from_secs(20)).is_ok()).unwrap();
                });
                (end, was_released)
            };
            let jobs: Vec<_> = (0..workers).map(occupy).collect();
            (0..workers).for_each(|_| starts.recv().unwrap());
            assert_eq!(product.apply(&x[..]).unwrap().data(), expected.data());
            for (end, _) in &jobs {
                // A job that gave up has dropped its receiver.
                let _ = end.send(());
            }
            jobs.into_iter().map(|(_, was_released)| was_released).collect()
        });
        assert!(
            ends.iter().all(|was_released| was_released.recv().unwrap()),
            "the product waited for a worker"
        );
    }
}
