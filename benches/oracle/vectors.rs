//! Chains of operations on vectors that stay on devices. Every operation is judged by the values before it, which were read back.

use rowloom::internal::kernel::cuda::CudaKernel;
use rowloom::internal::kernel::{KernelId, Order, Processor};
use rowloom::internal::matrix::MultiVector;
use rowloom::internal::runtime::{Check, ProductOptions, Vectors};
use rowloom::{Product, Result};

use crate::coverage::Coverage;
use crate::grid::{Grid, Placement};
use crate::judge::{Operands, Outcome, Value, refused};
use crate::lab::{Drawing, Lab};
use crate::operations::{self, Operation};
use crate::random::Random;
use crate::reference::{Real, Reference};
use crate::values;

const FAMILY: &str = "vectors";

#[derive(Debug, Clone)]
pub struct VectorsRequest {
    devices: &'static str,
    threads: usize,
    kernel: Option<KernelId>,
    reproducible: bool,
    operations: Vec<Operation>,
    y: Placement,
    /// Seed of small operands: factors of columns, a K x K matrix, rows.
    seed: u64,
}

pub fn expect(coverage: &mut Coverage, lists: &[&'static str], drawing: &Drawing) {
    coverage.expect(
        FAMILY,
        "kernel",
        kernels(drawing).concat().into_iter().map(KernelId::name).chain(["auto"]),
    );
    // Only there a kernel of a device adds the old Y.
    let on_devices = kernels(drawing)[1].clone();
    coverage.expect(FAMILY, "kernel with beta", on_devices.into_iter().map(KernelId::name));
    coverage.expect(FAMILY, "devices", lists.iter().copied());
    coverage.expect(FAMILY, "operation", operations::NAMES);
    coverage.expect(FAMILY, "reproducible", ["no", "yes"]);
}

/// The kernels of the CPU, and those of devices that read X by rows.
fn kernels(drawing: &Drawing) -> [Vec<KernelId>; 2] {
    let by_rows = |kernel: &KernelId| CudaKernel::of(*kernel).is_ok_and(|cuda| !cuda.transposes_x());
    let mut on_devices = drawing.kernels_for("emu");
    on_devices.retain(by_rows);
    if on_devices.is_empty() {
        on_devices.push(KernelId::CsrSegments);
    }
    [drawing.kernels_for("runtime"), on_devices]
}

/// The values that the vectors must have.
struct Mirror<T> {
    x: Vec<T>,
    y: Vec<T>,
    z: Vec<T>,
}

impl VectorsRequest {
    pub fn draw(drawing: &mut Drawing, lists: &[&'static str], has_equal_values: bool) -> Self {
        let [on_host, mut on_devices] = kernels(drawing);
        if !has_equal_values {
            drawing.leave_out_refused(&mut on_devices, KernelId::CsrPattern);
        }
        // Its A does not stay on the devices.
        drawing.leave_out_refused(&mut on_devices, KernelId::CsrPacked);
        let random = &mut drawing.random;
        let devices = random.one(lists);
        let kernels = if devices == "cpu" { on_host } else { on_devices };
        let kernel = random.one_in(2).then(|| random.one(&kernels));
        let is_canonical = kernel.is_none_or(|kernel| kernel.info().order == Order::Canonical);
        let request = Self {
            devices,
            threads: random.within(1, 3),
            kernel,
            reproducible: is_canonical && random.one_in(2),
            operations: (0..random.within(1, 16)).map(|_| Operation::draw(random)).collect(),
            y: Placement::draw(random),
            seed: random.next(),
        };
        drawing.coverage.count(FAMILY, "devices", request.devices);
        drawing.coverage.count(FAMILY, "kernel", request.kernel.map_or("auto", KernelId::name));
        drawing.coverage.count(FAMILY, "reproducible", if request.reproducible { "yes" } else { "no" });
        for operation in &request.operations {
            drawing.coverage.count(FAMILY, "operation", operation.name());
            if let Operation::Apply(alpha, beta) | Operation::Axpby(alpha, beta) = *operation {
                drawing.count_runs(FAMILY, [(alpha, beta)]);
                // Not those that round to zero in f32.
                if let (Some(kernel), true) = (kernel, beta.abs() > 1e-30)
                    && kernel.info().runs_on == Processor::Gpu
                    && matches!(operation, Operation::Apply(..))
                {
                    drawing.coverage.count(FAMILY, "kernel with beta", kernel.name());
                }
            }
        }
        request
    }

    pub fn check<T: Value>(&self, operands: &Operands<'_, T>, lab: &mut Lab) -> Judged<Outcome> {
        let runtime = lab.runtime(self.devices, self.threads).map_err(failed)?;
        let (kernel, reproducible) = (self.kernel, self.reproducible);
        // Not drawn, so that seeds keep their cases.
        let check = if self.seed.is_multiple_of(2) { Check::Always } else { Check::First };
        let options = ProductOptions { kernel, reproducible, check, ..ProductOptions::default() };
        let mut product = match runtime.product(operands.csr).columns(operands.k).options(options).build() {
            Ok(product) => product,
            Err(error) => return refused(error),
        };
        let (rows, cols, k) = (operands.a.rows, operands.a.cols, operands.k);
        let mut random = Random::new(self.seed);
        let x = operands.x_grid(Placement::PACKED).packed().to_vec();
        let (y, z) = (drawn::<T>(&mut random, rows * k), drawn::<T>(&mut random, rows * k));
        let mut mirror = Mirror { x, y, z };
        let (mut x, mut y, mut z) = match self.start(&mut product, &mirror, rows == cols) {
            Ok(started) => started,
            Err(error) => return refused(error),
        };
        let mut compared = 0;
        for operation in &self.operations {
            match operation {
                Operation::Apply(alpha, beta) => {
                    product.apply_scaled(*alpha, &x, *beta, &mut y).map_err(failed)?;
                    if let Some(fault) = product.faults().first() {
                        return Err(format!("a fault of a device without faults: {fault:?}"));
                    }
                    let found = self.read(&y)?;
                    self.check_product(operands, &mirror, &found, (*alpha, *beta))?;
                    mirror.y = values_of(&found, rows);
                }
                Operation::Exchange if rows == cols => {
                    std::mem::swap(&mut x, &mut y);
                    std::mem::swap(&mut mirror.x, &mut mirror.y);
                }
                Operation::Exchange => {
                    std::mem::swap(&mut z, &mut y);
                    std::mem::swap(&mut mirror.z, &mut mirror.y);
                }
                operation => {
                    let expected = operation.apply(&mut y, &mut z, &mut mirror.y, &mirror.z, &mut random)?;
                    let found = values_of(&self.read(&y)?, rows);
                    operations::compare(operation.name(), &found, &expected)?;
                    mirror.y = found;
                }
            }
            compared += 1;
        }
        // Operands that were only read are as they were.
        for (name, vectors, expected) in [("X", &x, &mirror.x), ("Z", &z, &mirror.z)] {
            operations::compare(name, &values_of(&self.read(vectors)?, vectors.rows()), expected)?;
        }
        Ok(Outcome::Compared(compared))
    }

    fn start<T: Value>(
        &self,
        product: &mut Product<'_, T>,
        mirror: &Mirror<T>,
        is_square: bool,
    ) -> Result<(Vectors<T>, Vectors<T>, Vectors<T>)> {
        let mut x = if is_square { product.vectors()? } else { product.x_vectors()? };
        let (mut y, mut z) = (product.vectors()?, product.vectors()?);
        x.copy_from(&mirror.x)?;
        y.copy_from(&mirror.y)?;
        z.copy_from(&mirror.z)?;
        Ok((x, y, z))
    }

    /// The values of vectors, in an array with guards.
    fn read<T: Value>(&self, vectors: &Vectors<T>) -> Judged<Grid<T>> {
        let mut grid = Grid::new(vectors.rows(), vectors.columns(), self.y, |_, _| T::UNWRITTEN);
        vectors.copy_to(&mut grid.view_mut().map_err(failed)?).map_err(failed)?;
        grid.check_guards("the copy of vectors")?;
        Ok(grid)
    }

    fn check_product<T: Value>(
        &self,
        operands: &Operands<'_, T>,
        mirror: &Mirror<T>,
        found: &Grid<T>,
        factors: (f64, f64),
    ) -> Judged<()> {
        let Operands { a, csr, k, .. } = *operands;
        let wide = |values: &[T]| values.iter().map(|value| value.wide()).collect::<Vec<f64>>();
        let (x, old) = (wide(&mirror.x), wide(&mirror.y));
        let reference = Reference::<T>::new(a, &x, k);
        let judged = Operands { a, csr, x: &x, old: &old, all: k, first: 0, k, reference: &reference };
        let named = self.kernel.is_some_and(|kernel| kernel.info().order == Order::Canonical);
        let canonical = self.reproducible || named || self.devices == "cpu";
        judged.check_y(found, 0..a.rows, factors, canonical)
    }

    pub fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        if self.devices != "cpu" {
            simpler.push(Self { devices: "cpu", kernel: None, ..self.clone() });
        }
        if self.devices.contains(",emu") {
            simpler.push(Self { devices: "emu:0", ..self.clone() });
        }
        for at in 0..self.operations.len() {
            let mut operations = self.operations.clone();
            operations.remove(at);
            simpler.push(Self { operations, ..self.clone() });
        }
        if self.threads > 1 {
            simpler.push(Self { threads: 1, ..self.clone() });
        }
        if self.kernel.is_some() {
            simpler.push(Self { kernel: None, ..self.clone() });
        }
        if self.reproducible {
            simpler.push(Self { reproducible: false, ..self.clone() });
        }
        simpler.extend(self.y.simpler().into_iter().map(|y| Self { y, ..self.clone() }));
        simpler
    }
}

/// Results of the oracle: the error is what is wrong.
type Judged<R> = std::result::Result<R, String>;

fn failed(error: rowloom::Error) -> String {
    format!("error: {error}")
}

fn drawn<T: Value>(random: &mut Random, count: usize) -> Vec<T> {
    let kind = random.weighted(&values::OF_X);
    kind.draw::<T>(random, count).into_iter().map(<T as Real>::rounded).collect()
}

fn values_of<T: Value>(grid: &Grid<T>, rows: usize) -> Vec<T> {
    (0..rows).flat_map(|row| grid.row(row).iter().copied()).collect()
}

/// A K x K matrix.
pub fn small_matrix<T: Value>(random: &mut Random, k: usize) -> Result<MultiVector<T>> {
    MultiVector::from_fn(k, k, |_, _| <T as Real>::rounded(random.general()))
}
