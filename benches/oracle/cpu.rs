//! Direct calls of CPU kernels, with every instruction set of the processor.

use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings};
use rowloom::internal::kernel::{KernelId, KindOfWork, Order, Processor, Schedule, kernels_of};
use rowloom::internal::machine::Isa;

use crate::checks;
use crate::coverage::Coverage;
use crate::grid::Placement;
use crate::judge::{Operands, Outcome, Value, refused};
use crate::lab::{Drawing, Lab};
use crate::values::{self, simpler_runs};

const FAMILY: &str = "cpu";

/// Parts of a matrix begin and end at multiples of this share of its rows.
const PARTS: usize = 16;

#[derive(Debug, Clone)]
pub struct CpuRequest {
    kernel: KernelId,
    isa: Isa,
    threads: usize,
    schedule: Schedule,
    /// The part of the rows, in sixteenths.
    part: (usize, usize),
    x: Placement,
    y: Placement,
    /// Alpha and beta of consecutive runs of one prepared product.
    runs: Vec<(f64, f64)>,
}

pub fn expect(coverage: &mut Coverage, drawing: &Drawing) {
    coverage.expect(FAMILY, "kernel", drawing.cpu_kernels().iter().map(|kernel| kernel.name()));
    coverage.expect(FAMILY, "instruction set", Isa::available().iter().map(|isa| isa.name()));
    coverage.expect(FAMILY, "threads", ["1", "2", "3", "4", "5"]);
    coverage.expect(FAMILY, "schedule", ["balanced", "equal-rows"]);
    coverage.expect(FAMILY, "rows", ["all", "a part"]);
}

impl CpuRequest {
    pub fn draw(drawing: &mut Drawing) -> Self {
        let kernels = drawing.cpu_kernels();
        let random = &mut drawing.random;
        let serial = random.one_in(6);
        let fits = |kernel: &KernelId| kernel.name().starts_with("serial") == serial;
        let fitting: Vec<KernelId> = kernels.iter().copied().filter(fits).collect();
        let kernel = random.one(if fitting.is_empty() { &kernels } else { &fitting });
        let threads = random.weighted(&[(1, 6), (2, 3), (3, 1), (4, 1), (5, 1)]);
        let part = match random.one_in(5) {
            true => {
                let (begin, end) = (random.below(PARTS + 1), random.below(PARTS + 1));
                (begin.min(end), begin.max(end))
            }
            false => (0, PARTS),
        };
        let request = Self {
            kernel,
            isa: random.one(Isa::available()),
            threads,
            schedule: random.weighted(&[(Schedule::Balanced, 4), (Schedule::EqualRows, 1)]),
            part,
            x: Placement::draw(random),
            y: Placement::draw(random),
            runs: (0..random.weighted(&[(1, 3), (2, 1), (3, 1)])).map(|_| values::factors(random)).collect(),
        };
        let coverage = &mut drawing.coverage;
        coverage.count(FAMILY, "kernel", request.kernel.name());
        coverage.count(FAMILY, "instruction set", request.isa.name());
        coverage.count(FAMILY, "threads", ["1", "2", "3", "4", "5"][request.threads - 1]);
        coverage.count(FAMILY, "schedule", request.schedule.name());
        coverage.count(FAMILY, "rows", if request.part == (0, PARTS) { "all" } else { "a part" });
        drawing.count_runs(FAMILY, request.runs.iter().copied());
        request
    }

    pub fn check<T: Value>(&self, operands: &Operands<'_, T>, lab: &mut Lab) -> Result<Outcome, String> {
        let Operands { a, csr, k, .. } = *operands;
        let rows = a.rows * self.part.0 / PARTS..a.rows * self.part.1 / PARTS;
        let view = csr.view().slice_rows(rows.clone());
        let settings = CpuSettings { k, threads: self.threads, isa: self.isa, schedule: self.schedule };
        let x = operands.x_grid(self.x);
        let x_view = x.view().map_err(|error| error.to_string())?;
        lab.pool(self.threads).install(|| {
            let prepared = CpuProduct::prepare(view, self.kernel, settings, 1 << 30);
            let mut product = match prepared {
                Ok(product) => product,
                Err(error) => return refused(error),
            };
            for &factors in &self.runs {
                let mut y = operands.y_grid(rows.clone(), self.y, factors);
                let y_view = y.view_mut().map_err(|error| error.to_string())?;
                let run = match factors {
                    (1.0, 0.0) => product.run(x_view, y_view),
                    (alpha, beta) => product.run_scaled(alpha, x_view, beta, y_view),
                };
                run.map_err(|error| format!("error: {error}"))?;
                let canonical = self.kernel.info().order == Order::Canonical;
                operands.check_y(&y, rows.clone(), factors, canonical)?;
                let before = operands.y_grid(rows.clone(), self.y, factors);
                checks::check(operands, x_view, (&y, &before), rows.clone(), factors)?;
            }
            operands.check_x(&x)?;
            Ok(Outcome::Compared(self.runs.len() as u64))
        })
    }

    pub fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        simpler.extend(simpler_runs(&self.runs).into_iter().map(|runs| Self { runs, ..self.clone() }));
        if self.part != (0, PARTS) {
            simpler.push(Self { part: (0, PARTS), ..self.clone() });
        }
        if self.threads > 1 {
            simpler.push(Self { threads: 1, ..self.clone() });
            simpler.push(Self { threads: self.threads - 1, ..self.clone() });
        }
        if self.schedule != Schedule::Balanced {
            simpler.push(Self { schedule: Schedule::Balanced, ..self.clone() });
        }
        simpler.extend(self.x.simpler().into_iter().map(|x| Self { x, ..self.clone() }));
        simpler.extend(self.y.simpler().into_iter().map(|y| Self { y, ..self.clone() }));
        simpler
    }

    /// The options of `rowloom run` that come nearest.
    pub fn command_options(&self) -> String {
        format!("--devices cpu --threads {} --kernel {}", self.threads, self.kernel.name())
    }
}

/// The kernels for sparse matrices on the CPU.
pub fn kernels() -> Vec<KernelId> {
    kernels_of(KindOfWork::Spmm, Processor::Cpu).map(|info| info.id).collect()
}
