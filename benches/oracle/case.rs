//! A case: one matrix and one X, with products of many draws. It depends on its seed only.

use rowloom::internal::kernel::KernelId;

use crate::colmean::ColmeanRequest;
use crate::coverage::{Coverage, FACTOR_BUCKETS, column_buckets};
use crate::cpu::CpuRequest;
use crate::gemm::GemmRequest;
use crate::judge::{Operands, Outcome, Value};
use crate::lab::{Drawing, Lab, Restrictions};
use crate::problem::{Problem, Request, window};
use crate::random::Random;
use crate::ranks::RanksRequest;
use crate::reference::Reference;
use crate::runtime::{CUDA_LISTS, EMULATED_LISTS, HOST_LISTS, RuntimeRequest, Shape};
use crate::sparse::Sparse;
use crate::structure::{DENSE, ENTRY_ORDERS, LARGE, ON_DEVICES, SMALL, Size, Structure, pattern};
use crate::values::{self, OF_MATRICES, OF_X, Values};
use crate::vectors::VectorsRequest;
use crate::{cpu, dense, ranks, runtime, vectors};

/// A family of cases. Its number is in the lowest bits of a case's seed, so that a seed alone replays a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Direct calls of CPU kernels.
    Cpu,
    /// Products of the runtime on the CPU.
    Runtime,
    /// Products of the runtime with emulated devices.
    Emulated,
    /// Products of the runtime with cards.
    Cuda,
    /// Chains of operations on vectors that stay on devices.
    Vectors,
    /// Products of ranks that are threads.
    Ranks,
    /// Dense products.
    Gemm,
    /// Sums of columns.
    Colmean,
}

/// Bits of a seed that hold the family.
const FAMILY_BITS: u32 = 4;

/// All families with their weights. The place of a family is in the seeds of its cases: new ones are added at the end.
pub const FAMILIES: [(Family, usize); 8] = [
    (Family::Cpu, 60),
    (Family::Runtime, 40),
    (Family::Emulated, 30),
    (Family::Cuda, 30),
    (Family::Vectors, 30),
    (Family::Ranks, 15),
    (Family::Gemm, 6),
    (Family::Colmean, 8),
];

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Runtime => "runtime",
            Self::Emulated => "emu",
            Self::Cuda => "cuda",
            Self::Vectors => "vectors",
            Self::Ranks => "ranks",
            Self::Gemm | Self::Colmean => "dense",
        }
    }

    /// What the last lines call it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Cpu => "direct CPU kernels",
            Self::Runtime => "runtime on the CPU",
            Self::Emulated => "runtime on emulated devices",
            Self::Cuda => "runtime on cards",
            Self::Vectors => "vectors on devices",
            Self::Ranks => "ranks",
            Self::Gemm => "gemm",
            Self::Colmean => "colmean",
        }
    }

    pub fn of_seed(seed: u64) -> Option<Self> {
        let number = (seed & ((1 << FAMILY_BITS) - 1)) as usize;
        FAMILIES.get(number).map(|(family, _)| *family)
    }

    /// A seed with this family.
    pub fn seed(self, drawn: u64) -> u64 {
        let number = FAMILIES.iter().position(|(family, _)| *family == self).unwrap_or(0);
        drawn >> FAMILY_BITS << FAMILY_BITS | number as u64
    }
}

/// Declares what draws of a family must reach.
pub fn expect(coverage: &mut Coverage, family: Family, restrictions: &Restrictions) {
    let name = family.name();
    coverage.expect(name, "structure", structures(family).iter().map(|(structure, _)| structure.name()));
    if family == Family::Cpu {
        coverage.expect(name, "structure", LARGE.iter().map(|(structure, _)| structure.name()));
    }
    coverage.expect(name, "size", sizes(family).iter().map(|(size, _)| size.name()));
    coverage.expect(name, "order of entries", ENTRY_ORDERS.map(|(order, _)| order.name()));
    coverage.expect(name, "values", OF_MATRICES.map(|(values, _)| values.name()));
    coverage.expect(name, "X", OF_X.map(|(values, _)| values.name()));
    coverage.expect(name, "old Y", OF_X.map(|(values, _)| values.name()));
    coverage.expect(name, "type", ["f64", "f32"]);
    if family != Family::Colmean {
        coverage.expect(name, "K", column_buckets(most_columns(family)));
        coverage.expect(name, "alpha", FACTOR_BUCKETS);
        coverage.expect(name, "beta", FACTOR_BUCKETS);
    }
    let mut unused = Coverage::default();
    let drawing = Drawing { random: Random::new(0), coverage: &mut unused, restrictions };
    let lists = lists(family, restrictions);
    match family {
        Family::Cpu => cpu::expect(coverage, &drawing),
        Family::Runtime | Family::Emulated | Family::Cuda => {
            runtime::expect(coverage, name, &lists, &drawing);
        }
        Family::Vectors => vectors::expect(coverage, &lists, &drawing),
        Family::Ranks => ranks::expect(coverage, &lists),
        Family::Gemm | Family::Colmean => dense::expect(coverage, &lists, &drawing),
    }
}

/// The device lists of a family.
fn lists(family: Family, restrictions: &Restrictions) -> Vec<&'static str> {
    let devices: &[&str] = if restrictions.cuda { &CUDA_LISTS } else { &EMULATED_LISTS };
    match family {
        Family::Cpu | Family::Runtime => HOST_LISTS.to_vec(),
        Family::Emulated => EMULATED_LISTS.to_vec(),
        Family::Cuda => CUDA_LISTS.to_vec(),
        Family::Ranks => ranks::LISTS.to_vec(),
        Family::Vectors | Family::Gemm | Family::Colmean => [&HOST_LISTS, devices].concat(),
    }
}

fn sizes(family: Family) -> &'static [(Size, usize)] {
    match family {
        Family::Cpu => &[(Size::Tiny, 8), (Size::Small, 16), (Size::Medium, 4), (Size::Large, 1)],
        Family::Runtime => &[(Size::Tiny, 4), (Size::Small, 10), (Size::Medium, 2)],
        Family::Cuda => &[(Size::Tiny, 10), (Size::Small, 10), (Size::Medium, 1)],
        Family::Emulated => &[(Size::Tiny, 40), (Size::Small, 8), (Size::Medium, 1)],
        Family::Vectors => &[(Size::Tiny, 12), (Size::Small, 8), (Size::Medium, 2), (Size::Large, 1)],
        Family::Ranks => &[(Size::Tiny, 8), (Size::Small, 8), (Size::Medium, 1)],
        Family::Gemm | Family::Colmean => &[(Size::Tiny, 8), (Size::Small, 6)],
    }
}

/// The structures of a family, except the largest.
fn structures(family: Family) -> Vec<(Structure, usize)> {
    let more: &[(Structure, usize)] = match family {
        Family::Cpu | Family::Runtime | Family::Ranks | Family::Colmean => &[],
        Family::Emulated | Family::Cuda | Family::Vectors => &ON_DEVICES,
        Family::Gemm => &DENSE,
    };
    [&SMALL, more].concat()
}

/// The sizes of matrices with rows of certain lengths, on emulated devices.
const LENGTHS_ON_EMULATOR: [(Size, usize); 3] = [(Size::Tiny, 2), (Size::Small, 3), (Size::Medium, 4)];

/// The most columns of X.
fn most_columns(family: Family) -> usize {
    match family {
        Family::Cpu | Family::Runtime | Family::Emulated | Family::Cuda => 600,
        Family::Vectors => 32,
        Family::Ranks | Family::Gemm | Family::Colmean => 176,
    }
}

/// Multiply-adds of the reference from which a case on emulated devices has fewer products.
const HEAVY_ON_EMULATOR: usize = 8_000;

/// Multiply-adds of the reference, which bound the columns of X.
fn work(family: Family, size: Size) -> usize {
    match (family, size) {
        (Family::Emulated | Family::Vectors | Family::Ranks, _) => 40_000,
        (Family::Gemm | Family::Colmean, _) => 15_000,
        (_, Size::Tiny | Size::Small) => 200_000,
        (_, Size::Medium) => 500_000,
        (_, Size::Large) => 2_000_000,
    }
}

/// Requests of a case. A run of one kernel has more matrices instead, since its options matter less.
fn draws(family: Family, is_large: bool, is_one_kernel: bool) -> usize {
    match family {
        Family::Emulated if is_one_kernel => 2,
        Family::Cpu if is_large => 4,
        Family::Cpu => 40,
        Family::Emulated if is_large => 2,
        Family::Emulated => 8,
        Family::Runtime | Family::Cuda => 10,
        Family::Vectors | Family::Ranks => 3,
        Family::Gemm if is_large => 2,
        Family::Gemm | Family::Colmean => 6,
    }
}

/// The matrix and X of a case.
struct Operand {
    a: Sparse,
    x: Vec<f64>,
    old: Vec<f64>,
    all: usize,
    is_large: bool,
}

impl Operand {
    fn draw<T: Value>(drawing: &mut Drawing, family: Family) -> Self {
        let (name, structures) = (family.name(), structures(family));
        let random = &mut drawing.random;
        let is_large = family == Family::Cpu && random.one_in(100);
        let structure = random.weighted(if is_large { &LARGE[..] } else { &structures });
        let size = match (family, structure) {
            // GPU kernels compute rows of more than 2048 nonzeros in other ways, and only larger sizes have such rows.
            (Family::Emulated, Structure::EdgeLengths) => random.weighted(&LENGTHS_ON_EMULATOR),
            _ => random.weighted(sizes(family)),
        };
        let order = random.weighted(&ENTRY_ORDERS);
        let (mut matrix_values, x_values) = (random.weighted(&OF_MATRICES), random.weighted(&OF_X));
        if drawing.restrictions.kernel == Some(KernelId::CsrPattern) {
            matrix_values = Values::Equal;
        }
        let (cols, rows) = pattern(random, structure, size);
        let mut a = order.arranged(random, cols, rows);
        a.values = matrix_values.draw::<T>(random, a.nnz());
        let all = match structure {
            Structure::LongOverWide => random.within(2, 4),
            Structure::LargeY => 8 * random.within(16, 40),
            Structure::LargeX => 64,
            _ => {
                let is_dense = matches!(family, Family::Gemm | Family::Colmean);
                let products = if is_dense { a.rows * a.cols } else { a.nnz() };
                // Long rows with many columns: the widest forms of GPU kernels cut rows, too.
                let is_long = matches!(structure, Structure::EdgeLengths | Structure::OneLong);
                // Of a copy, so that seeds keep their cases.
                let is_widest = random.clone().one_in(20);
                let times = match family {
                    Family::Emulated if is_long && is_widest => 24,
                    Family::Emulated if is_long && random.one_in(4) => 6,
                    // More rows and more columns than a tile.
                    Family::Gemm if random.one_in(6) => 10,
                    _ => 1,
                };
                // Most products on emulated devices are small, so that there are many.
                let share = match family {
                    Family::Emulated if times == 1 && !random.one_in(4) => 8,
                    _ => 1,
                };
                let bound = work(family, size) * times / share;
                let most = bound / products.max(a.rows / 4).max(a.cols / 4).max(1);
                let most = most.min(most_columns(family));
                // More columns than a tile, too.
                let is_wide = family == Family::Gemm && times > 1 && most > 128;
                let drawn = if is_wide { random.within(126, most) } else { values::columns(random, most) };
                // Products of several widths share the reference.
                drawn.max(values::columns(random, most))
            }
        };
        let is_large = match family {
            Family::Emulated => all * a.nnz().max(a.rows) > HEAVY_ON_EMULATOR,
            // A tile of the largest kernel has 128 rows and columns, which are computed in full.
            Family::Gemm => a.cols > 60 || all * a.rows * a.cols > HEAVY_ON_EMULATOR,
            _ => is_large,
        };
        let x = x_values.draw::<T>(random, a.cols * all);
        let old_values = random.weighted(&OF_X);
        let old = old_values.draw::<T>(random, a.rows * all);
        let coverage = &mut drawing.coverage;
        coverage.count(name, "structure", structure.name());
        coverage.count(name, "size", size.name());
        coverage.count(name, "order of entries", order.name());
        coverage.count(name, "values", matrix_values.name());
        coverage.count(name, "X", x_values.name());
        coverage.count(name, "old Y", old_values.name());
        coverage.count(name, "type", T::NAME);
        Self { a, x, old, all, is_large }
    }
}

/// What a case led to.
#[derive(Debug, Default)]
pub struct Tally {
    pub compared: u64,
    pub refused: Vec<String>,
    pub failure: Option<(String, Problem)>,
}

/// Draws and checks the case of a seed.
pub fn run(
    seed: u64,
    family: Family,
    restrictions: &Restrictions,
    coverage: &mut Coverage,
    lab: &mut Lab,
) -> Tally {
    let mut drawing = Drawing { random: Random::new(seed), coverage, restrictions };
    if drawing.random.one_in(2) {
        run_as::<f64>(&mut drawing, family, lab)
    } else {
        run_as::<f32>(&mut drawing, family, lab)
    }
}

fn run_as<T: Value>(drawing: &mut Drawing, family: Family, lab: &mut Lab) -> Tally {
    let Operand { a, x, old, all, is_large } = Operand::draw::<T>(drawing, family);
    let reference = Reference::<T>::new(&a, &x, all);
    if let Some(place) = reference.contradiction() {
        // Not a case to reduce: the library was not called.
        eprintln!(
            "the oracle contradicts itself: its canonical sum of element {place:?} is outside its bound"
        );
        std::process::exit(70);
    }
    let csr = a.csr::<T>().expect("the arrays of the oracle are valid");
    let has_equal_values = csr.view().has_equal_values();
    let ascending = (0..a.rows).all(|row| a.row(row).0.is_sorted());
    let (mut tally, lists) = (Tally::default(), lists(family, drawing.restrictions));
    // The products of a case share their devices: others would be opened meanwhile.
    let devices = match family {
        Family::Runtime | Family::Emulated | Family::Cuda => runtime::devices(&mut drawing.random, &lists),
        _ => ("cpu", 1),
    };
    for _ in 0..draws(family, is_large, drawing.restrictions.kernel.is_some()) {
        let is_whole = match family {
            Family::Cpu => is_large,
            _ => drawing.random.one_in(4),
        };
        let k = if is_whole { all } else { values::columns(&mut drawing.random, all) };
        let first = drawing.random.one(&[0, all - k, (all - k) / 2]);
        if family != Family::Colmean {
            drawing.count_columns(family.name(), k);
        }
        let request = match family {
            Family::Cpu => Request::Cpu(CpuRequest::draw(drawing)),
            Family::Runtime | Family::Emulated | Family::Cuda => {
                let double = T::NAME == "f64";
                let shape = Shape { double, k, all, is_large, may_transpose: ascending, has_equal_values };
                Request::Runtime(RuntimeRequest::draw(drawing, family.name(), devices, shape))
            }
            Family::Vectors => Request::Vectors(VectorsRequest::draw(drawing, &lists, has_equal_values)),
            Family::Ranks => Request::Ranks(RanksRequest::draw(drawing, &lists)),
            Family::Gemm => Request::Gemm(GemmRequest::draw(drawing, &lists, all, is_large)),
            Family::Colmean => Request::Colmean(ColmeanRequest::draw(drawing, &lists)),
        };
        let operands = Operands { a: &a, csr: &csr, x: &x, old: &old, all, first, k, reference: &reference };
        match request.check_caught(&operands, lab) {
            Ok(Outcome::Compared(products)) => tally.compared += products,
            Ok(Outcome::Refused(reason)) => tally.refused.push(reason),
            Err(what) => {
                let problem = Problem {
                    double: T::NAME == "f64",
                    a: a.clone(),
                    x: window(&x, all, first, all),
                    old: window(&old, all, first, all),
                    all,
                    k,
                    request,
                };
                tally.failure = Some((what, problem));
                return tally;
            }
        }
    }
    tally
}
