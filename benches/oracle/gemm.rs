//! Dense products C = alpha A B + beta C. A is the drawn matrix with all its elements, B is X, and C is Y.

use rowloom::Result;
use rowloom::internal::kernel::{KindOfWork, Order};
use rowloom::internal::runtime::Gemm;

use crate::dense::DenseOptions;
use crate::grid::{Grid, Placement};
use crate::judge::{Operands, Outcome, Value, refused};
use crate::lab::{Drawing, Lab};
use crate::reference::Reference;
use crate::runs::{self, Run};

#[derive(Debug, Clone)]
pub struct GemmRequest {
    dense: DenseOptions,
    updates_c: bool,
    b: Placement,
    runs: Vec<Run>,
}

impl GemmRequest {
    pub fn draw(drawing: &mut Drawing, lists: &[&'static str], all: usize, is_large: bool) -> Self {
        let dense = DenseOptions::draw(drawing, KindOfWork::Gemm, lists);
        let random = &mut drawing.random;
        let count = if is_large { random.within(1, 2) } else { random.within(4, 12) };
        let request = Self {
            dense,
            updates_c: random.one_in(2),
            b: Placement::draw(random),
            runs: Run::draw(random, count, all),
        };
        drawing.count_runs(crate::dense::FAMILY, request.runs.iter().map(|run| run.factors));
        request
    }

    pub fn check<T: Value>(
        &self,
        operands: &Operands<'_, T>,
        lab: &mut Lab,
    ) -> std::result::Result<Outcome, String> {
        let failed = |error: rowloom::Error| format!("error: {error}");
        let full = operands.a.full();
        let csr = full.csr::<T>().map_err(failed)?;
        let reference = Reference::<T>::of_chains(&full, operands.x, operands.all);
        let operands = Operands { a: &full, csr: &csr, reference: &reference, ..*operands };
        let a = Grid::<T>::of_columns(&full.values, full.cols, full.rows, 0, full.cols, self.dense.a);
        let runtime = lab.runtime(self.dense.devices, self.dense.threads).map_err(failed)?;
        let builder = runtime.gemm(a.view().map_err(failed)?, operands.k).options(self.dense.options());
        let mut product = match builder.updates_c(self.updates_c).build() {
            Ok(product) => product,
            Err(error) => return refused(error),
        };
        let mut compared = 0;
        for run in &self.runs {
            let (operands, factors) = (run.operands(&operands), run.factors);
            let b = operands.x_grid(self.b);
            let mut c = operands.y_grid(0..full.rows, run.y, factors);
            match apply(&mut product, &b, &mut c, factors) {
                Ok(()) => {}
                Err(error) => match refused(error)? {
                    Outcome::Refused(reason) if compared == 0 => return Ok(Outcome::Refused(reason)),
                    _ => continue,
                },
            }
            if let Some(fault) = product.faults().first() {
                return Err(format!("a fault of a device without faults: {fault:?}"));
            }
            operands.check_y(&c, 0..full.rows, factors, self.is_canonical())?;
            operands.check_x(&b)?;
            compared += 1;
        }
        a.check_guards("A")?;
        Ok(Outcome::Compared(compared))
    }

    /// Whether every kernel that can take part is canonical: with other devices beside it, the CPU takes its own kernel.
    fn is_canonical(&self) -> bool {
        let named = self.dense.kernel.is_some_and(|kernel| kernel.info().order == Order::Canonical);
        self.dense.reproducible || (named && !self.dense.devices.contains("cpu,"))
    }

    pub fn simpler(&self) -> Vec<Self> {
        let mut simpler: Vec<Self> =
            self.dense.simpler().into_iter().map(|dense| Self { dense, ..self.clone() }).collect();
        simpler.extend(runs::simpler(&self.runs).into_iter().map(|runs| Self { runs, ..self.clone() }));
        if self.updates_c {
            simpler.push(Self { updates_c: false, ..self.clone() });
        }
        simpler.extend(self.b.simpler().into_iter().map(|b| Self { b, ..self.clone() }));
        simpler
    }
}

fn apply<T: Value>(
    product: &mut Gemm<'_, T>,
    b: &Grid<T>,
    c: &mut Grid<T>,
    (alpha, beta): (f64, f64),
) -> Result<()> {
    product.apply_scaled(alpha, &b.view()?, beta, &mut c.view_mut()?)
}
