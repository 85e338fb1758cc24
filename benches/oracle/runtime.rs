//! Products of the runtime on host memory: on the CPU, on emulated devices and on cards.

use rowloom::internal::kernel::cuda::{CUDA_KERNELS, CudaKernel};
use rowloom::internal::kernel::{KernelId, KindOfWork, Order, Processor, Schedule, kernels_of};
use rowloom::internal::matrix::Dtype;
use rowloom::internal::plan::Mode;
use rowloom::internal::runtime::{Check, ProductOptions, Transfer};
use rowloom::{Product, Result};

use crate::coverage::Coverage;
use crate::grid::{Grid, Placement};
use crate::judge::{Operands, Outcome, Value, refused};
use crate::lab::{Drawing, Lab};
use crate::random::Random;
use crate::runs::{self, Run};

/// The device lists of each family.
pub const HOST_LISTS: [&str; 1] = ["cpu"];
pub const EMULATED_LISTS: [&str; 6] = [
    "emu:0",
    "cpu,emu:0",
    "emu:0,emu:1",
    "cpu,emu:0,emu:1",
    // Delayed operations show a missing wait.
    "emu:0?delay_seed=3",
    "cpu,emu:0?delay_seed=5",
];
pub const CUDA_LISTS: [&str; 3] = ["cuda:0", "cpu,cuda:0", "cuda:0,cuda:0"];

/// How X and Y are passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    Views,
    Slices,
    Bound,
    PageLocked,
}

impl Passed {
    fn name(self) -> &'static str {
        match self {
            Self::Views => "views",
            Self::Slices => "slices",
            Self::Bound => "bound",
            Self::PageLocked => "page-locked Y",
        }
    }
}

#[derive(Debug, Clone)]
pub struct RuntimeRequest {
    devices: &'static str,
    threads: usize,
    /// The name of a kernel or of a form of one.
    kernel: Option<String>,
    mode: Option<Mode>,
    chunks: Option<usize>,
    chunk_bytes: Option<u64>,
    cpu_share: Option<f64>,
    transfer: Transfer,
    memory_limit: Option<u64>,
    reproducible: bool,
    uses: Option<u64>,
    fixed: bool,
    schedule: Schedule,
    /// The product owns A, which may then be registered as long as the product lives.
    owned: bool,
    passed: Passed,
    transposed: bool,
    x: Placement,
    check: Check,
    runs: Vec<Run>,
}

const MODES: [Option<Mode>; 4] = [None, Some(Mode::Resident), Some(Mode::Oneshot), Some(Mode::Stream)];
const TRANSFERS: [(Transfer, &str); 3] =
    [(Transfer::Auto, "auto"), (Transfer::Staged, "staged"), (Transfer::Registered, "registered")];

fn mode_name(mode: Option<Mode>) -> &'static str {
    mode.map_or("auto", Mode::name)
}

fn transfer_name(transfer: Transfer) -> &'static str {
    TRANSFERS.iter().find(|(known, _)| *known == transfer).map_or("auto", |(_, name)| name)
}

pub fn expect(coverage: &mut Coverage, family: &'static str, lists: &[&'static str], drawing: &Drawing) {
    coverage.expect(family, "devices", lists.iter().copied());
    let kernels = drawing.kernels_for(family).into_iter().map(KernelId::name);
    let kernels: Vec<&str> = kernels.chain((!drawing.fixes_kernel()).then_some("auto")).collect();
    coverage.expect(family, "kernel", kernels.iter().copied());
    coverage.expect(family, "kernel with equal values", kernels);
    if family != "cuda" {
        coverage.expect(family, "threads", ["1", "2", "3", "4", "5"]);
    }
    coverage.expect(family, "operands", ["views", "slices", "bound", "page-locked Y"]);
    coverage.expect(family, "A", ["owned", "borrowed"]);
    coverage.expect(family, "transposed", ["no", "yes"]);
    coverage.expect(family, "reproducible", ["no", "yes"]);
    if family != "runtime" {
        coverage.expect(family, "mode", MODES.map(mode_name));
        coverage.expect(family, "transfer", TRANSFERS.map(|(_, name)| name));
        coverage.expect(family, "chunks", ["auto", "a number", "bytes"]);
        coverage.expect(family, "memory limit", ["none", "some"]);
        coverage.expect(family, "CPU share", ["auto", "given"]);
    }
}

/// What decides which options a product may have.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub double: bool,
    pub k: usize,
    /// Columns of all products of a case.
    pub all: usize,
    /// The matrix is large for its devices.
    pub is_large: bool,
    /// A transposed twice has the same order of entries.
    pub may_transpose: bool,
    /// All values of A are equal.
    pub has_equal_values: bool,
}

/// A list of devices and a number of threads.
pub fn devices(random: &mut Random, lists: &[&'static str]) -> (&'static str, usize) {
    (random.one(lists), random.weighted(&[(1, 3), (2, 4), (3, 1), (4, 1), (5, 1)]))
}

impl RuntimeRequest {
    /// A request for products on devices that the products of a case have in common, as [`devices`] drew them.
    pub fn draw(
        drawing: &mut Drawing,
        family: &'static str,
        (devices, threads): (&'static str, usize),
        shape: Shape,
    ) -> Self {
        let mut kernels = drawing.kernels_for(family);
        if !shape.has_equal_values {
            drawing.leave_out_refused(&mut kernels, KernelId::CsrPattern);
        }
        let always_named = drawing.fixes_kernel();
        let random = &mut drawing.random;
        let named = (always_named || random.below(4) > 0).then(|| random.one(&kernels));
        let passed = match random.below(8) {
            0..=3 => Passed::Views,
            4 | 5 => Passed::Slices,
            6 => Passed::Bound,
            _ => Passed::PageLocked,
        };
        let mut x = Placement::draw(random);
        // The emulator runs one block, or more, for each column of kernels that read X by columns.
        let by_columns = |kernel| CudaKernel::of(kernel).is_ok_and(CudaKernel::transposes_x);
        let is_slow = shape.k > 8 && named.is_some_and(by_columns);
        let count = match family {
            "runtime" => random.weighted(&[(1, 3), (2, 2), (3, 1)]),
            "emu" if shape.is_large || is_slow => random.within(2, 4),
            _ => random.within(8, 16),
        };
        let mut runs = Run::draw(random, count, shape.all);
        if passed == Passed::Slices {
            x.gap = 0;
            runs.iter_mut().for_each(|run| run.y.gap = 0);
        }
        let by_bytes = random.one_in(6);
        // What the library refuses is asked for rarely.
        let may_reproduce = named.is_none_or(|kernel| kernel.info().order == Order::Canonical);
        let mut mode = random.one(&MODES);
        if named == Some(KernelId::CsrPacked) && mode == Some(Mode::Resident) && !random.one_in(10) {
            mode = None;
        }
        let may_share = devices.contains("cpu,") || random.one_in(10);
        let request = Self {
            devices,
            threads,
            kernel: named.map(|kernel| name_or_form(random, kernel, shape)),
            mode,
            chunks: (!by_bytes && random.one_in(2)).then(|| random.within(1, 9)),
            chunk_bytes: by_bytes.then(|| random.one(&[64, 300, 1 << 10, 1 << 14])),
            cpu_share: (may_share && random.one_in(4)).then(|| random.one(&[0.0, 0.1, 0.5, 0.9, 1.0])),
            transfer: random.one(&TRANSFERS).0,
            memory_limit: random.one_in(5).then(|| random.one(&[1 << 14, 1 << 16, 1 << 18, 1 << 22])),
            reproducible: random.one_in(if may_reproduce { 2 } else { 20 }),
            uses: random.one(&[None, Some(1), Some(3), Some(100)]),
            fixed: random.one_in(3),
            schedule: random.weighted(&[(Schedule::Balanced, 4), (Schedule::EqualRows, 1)]),
            owned: random.one_in(2),
            passed,
            transposed: shape.may_transpose && random.one_in(6),
            x,
            check: random.one(&[Check::Always, Check::Never, Check::First]),
            runs,
        };
        let coverage = &mut drawing.coverage;
        coverage.count(family, "devices", request.devices);
        coverage.count(family, "kernel", named.map_or("auto", KernelId::name));
        if shape.has_equal_values {
            coverage.count(family, "kernel with equal values", named.map_or("auto", KernelId::name));
        }
        if family != "cuda" {
            coverage.count(family, "threads", ["1", "2", "3", "4", "5"][request.threads - 1]);
        }
        coverage.count(family, "operands", request.passed.name());
        coverage.count(family, "A", if request.owned { "owned" } else { "borrowed" });
        coverage.count(family, "transposed", if request.transposed { "yes" } else { "no" });
        coverage.count(family, "reproducible", if request.reproducible { "yes" } else { "no" });
        coverage.count(family, "mode", mode_name(request.mode));
        coverage.count(family, "transfer", transfer_name(request.transfer));
        let chunks = match (request.chunks, request.chunk_bytes) {
            (None, None) => "auto",
            (Some(_), _) => "a number",
            (None, Some(_)) => "bytes",
        };
        coverage.count(family, "chunks", chunks);
        coverage.count(family, "memory limit", if request.memory_limit.is_some() { "some" } else { "none" });
        coverage.count(family, "CPU share", if request.cpu_share.is_some() { "given" } else { "auto" });
        drawing.count_runs(family, request.runs.iter().map(|run| run.factors));
        request
    }

    fn options(&self) -> Result<ProductOptions> {
        let (kernel, variant) = ProductOptions::kernel_named(self.kernel.as_deref().unwrap_or("auto"))?;
        Ok(ProductOptions {
            check: self.check,
            uses: self.uses,
            mode: self.mode,
            kernel,
            variant,
            chunks: self.chunks,
            chunk_bytes: self.chunk_bytes,
            cpu_share: self.cpu_share,
            transfer: self.transfer,
            memory_limit_bytes: self.memory_limit,
            reproducible: self.reproducible,
            schedule: self.schedule,
            bound: self.passed == Passed::Bound,
            fixed: self.fixed,
            ..ProductOptions::default()
        })
    }

    /// Whether Y has defined bits: every kernel that can take part is canonical. All CPU kernels are.
    fn is_canonical(&self, options: &ProductOptions) -> bool {
        let named = options.kernel.is_some_and(|kernel| kernel.info().order == Order::Canonical);
        self.reproducible || self.devices == "cpu" || named
    }

    pub fn check<T: Value>(&self, operands: &Operands<'_, T>, lab: &mut Lab) -> Judged<Outcome> {
        let runtime = lab.runtime(self.devices, self.threads).map_err(|error| format!("error: {error}"))?;
        let options = self.options().map_err(|error| error.to_string())?;
        let k = operands.k;
        if !self.transposed && self.owned {
            let matrix = operands.a.csr::<T>().map_err(|error| format!("error: {error}"))?;
            let built = runtime.product(matrix).columns(k).options(options.clone()).build();
            return built.map_or_else(refused, |product| self.check_product(product, operands, &options));
        }
        if !self.transposed {
            let built = runtime.product(operands.csr).columns(k).options(options.clone()).build();
            return built.map_or_else(refused, |product| self.check_product(product, operands, &options));
        }
        let matrix = operands.a.transposed().csr::<T>().map_err(|error| format!("error: {error}"))?;
        let built = runtime.product(&matrix).columns(k).options(options.clone()).build();
        let transposed = built.and_then(|product| product.transposed());
        transposed.map_or_else(refused, |product| self.check_product(product, operands, &options))
    }

    fn check_product<T: Value>(
        &self,
        mut product: Product<'_, T>,
        operands: &Operands<'_, T>,
        options: &ProductOptions,
    ) -> Judged<Outcome> {
        let canonical = self.is_canonical(options);
        let mut compared = 0;
        let mut refusal = None;
        for run in &self.runs {
            let (operands, factors) = (run.operands(operands), run.factors);
            let x = operands.x_grid(self.x);
            let mut y = operands.y_grid(0..operands.a.rows, run.y, factors);
            match self.apply(&mut product, &x, &mut y, factors) {
                Ok(()) => {}
                Err(error) => match refused(error)? {
                    Outcome::Refused(reason) => {
                        refusal = Some(reason);
                        continue;
                    }
                    Outcome::Compared(_) => continue,
                },
            }
            if let Some(fault) = product.faults().first() {
                return Err(format!("a fault of a device without faults: {fault:?}"));
            }
            operands.check_y(&y, 0..operands.a.rows, factors, canonical)?;
            operands.check_x(&x)?;
            compared += 1;
        }
        Ok(match refusal {
            Some(reason) if compared == 0 => Outcome::Refused(reason),
            _ => Outcome::Compared(compared),
        })
    }

    fn apply<T: Value>(
        &self,
        product: &mut Product<'_, T>,
        x: &Grid<T>,
        y: &mut Grid<T>,
        (alpha, beta): (f64, f64),
    ) -> Result<()> {
        match self.passed {
            Passed::Slices => product.apply_scaled(alpha, x.packed(), beta, y.packed_mut()),
            Passed::Bound if (alpha, beta) == (1.0, 0.0) => {
                product.bind(&x.view()?, &mut y.view_mut()?, |bound| bound.apply())
            }
            Passed::PageLocked => {
                let Some(mut locked) = product.page_locked_y()? else {
                    return product.apply_scaled(alpha, &x.view()?, beta, &mut y.view_mut()?);
                };
                for row in 0..locked.view().rows() {
                    locked.view_mut().row_mut(row).copy_from_slice(y.row(row));
                }
                product.apply_scaled(alpha, &x.view()?, beta, &mut locked)?;
                let mut to = y.view_mut()?;
                for row in 0..locked.view().rows() {
                    to.row_mut(row).copy_from_slice(locked.view().row(row));
                }
                Ok(())
            }
            Passed::Views | Passed::Bound => {
                product.apply_scaled(alpha, &x.view()?, beta, &mut y.view_mut()?)
            }
        }
    }

    pub fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        let mut add = |differs: bool, change: &dyn Fn(&mut Self)| {
            if differs {
                let mut other = self.clone();
                change(&mut other);
                simpler.push(other);
            }
        };
        add(self.devices != "cpu", &|other| other.devices = "cpu");
        add(self.devices.contains(",emu"), &|other| other.devices = "emu:0");
        add(self.devices.contains("cuda:0,") || self.devices.contains(",cuda"), &|other| {
            other.devices = "cuda:0"
        });
        for runs in runs::simpler(&self.runs) {
            add(true, &|other| other.runs.clone_from(&runs));
        }
        add(self.threads > 1, &|other| other.threads = 1);
        add(self.threads > 2, &|other| other.threads = 2);
        add(self.mode.is_some(), &|other| other.mode = None);
        add(self.chunks.is_some(), &|other| other.chunks = None);
        add(self.chunks.is_some_and(|chunks| chunks > 1), &|other| {
            other.chunks = other.chunks.map(|n| n - 1)
        });
        add(self.chunk_bytes.is_some(), &|other| other.chunk_bytes = None);
        add(self.cpu_share.is_some(), &|other| other.cpu_share = None);
        add(self.transfer != Transfer::Auto, &|other| other.transfer = Transfer::Auto);
        add(self.memory_limit.is_some(), &|other| other.memory_limit = None);
        add(self.uses.is_some(), &|other| other.uses = None);
        add(self.fixed, &|other| other.fixed = false);
        add(self.transposed, &|other| other.transposed = false);
        add(self.owned, &|other| other.owned = false);
        add(self.reproducible, &|other| other.reproducible = false);
        add(self.schedule != Schedule::Balanced, &|other| other.schedule = Schedule::Balanced);
        add(self.passed != Passed::Views, &|other| other.passed = Passed::Views);
        add(self.kernel.is_some(), &|other| other.kernel = None);
        for x in self.x.simpler() {
            add(true, &|other| other.x = x);
        }
        add(self.check != Check::Never, &|other| other.check = Check::Never);
        simpler
    }

    pub fn command_options(&self) -> String {
        let mut words = format!("--devices {} --threads {}", self.devices, self.threads);
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words += &format!(" --{name} {value}");
            }
        };
        add("kernel", self.kernel.clone());
        add("mode", self.mode.map(|mode| mode.name().into()));
        add("chunks", self.chunks.map(|chunks| chunks.to_string()));
        add("chunk-bytes", self.chunk_bytes.map(|bytes| bytes.to_string()));
        add("cpu-share", self.cpu_share.map(|share| share.to_string()));
        add("transfer", (self.transfer != Transfer::Auto).then(|| transfer_name(self.transfer).into()));
        add("mem-limit", self.memory_limit.map(|bytes| bytes.to_string()));
        if self.reproducible {
            words += " --reproducible";
        }
        words
    }
}

/// Results of the oracle: the error is what is wrong.
type Judged<R> = std::result::Result<R, String>;

/// The name of a kernel, or of one of its forms; mostly of one that the number of columns allows.
fn name_or_form(random: &mut Random, kernel: KernelId, shape: Shape) -> String {
    let Some(cuda) = CUDA_KERNELS.iter().find(|cuda| cuda.id == kernel) else { return kernel.name().into() };
    let dtype = if shape.double { Dtype::F64 } else { Dtype::F32 };
    let forms: Vec<_> = match random.one_in(20) {
        true => cuda.variants.iter().collect(),
        false => cuda.variants_for(dtype, shape.k as u64).collect(),
    };
    match forms.is_empty() || random.one_in(2) {
        true => kernel.name().into(),
        false => cuda.variant_name(random.one(&forms)),
    }
}

/// The kernels for sparse matrices on GPUs.
pub fn gpu_kernels() -> Vec<KernelId> {
    kernels_of(KindOfWork::Spmm, Processor::Gpu).map(|info| info.id).collect()
}
