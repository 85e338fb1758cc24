//! One product with all its operands and options: what a failure is reduced to and printed as.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::colmean::ColmeanRequest;
use crate::cpu::CpuRequest;
use crate::gemm::GemmRequest;
use crate::judge::{Operands, Outcome, Value};
use crate::lab::Lab;
use crate::panics;
use crate::ranks::RanksRequest;
use crate::reference::Reference;
use crate::runtime::RuntimeRequest;
use crate::sparse::Sparse;
use crate::vectors::VectorsRequest;

/// A request to the library, by family.
#[derive(Debug, Clone)]
pub enum Request {
    Cpu(CpuRequest),
    Runtime(RuntimeRequest),
    Vectors(VectorsRequest),
    Ranks(RanksRequest),
    Gemm(GemmRequest),
    Colmean(ColmeanRequest),
}

impl Request {
    pub fn check<T: Value>(&self, operands: &Operands<'_, T>, lab: &mut Lab) -> Result<Outcome, String> {
        match self {
            Self::Cpu(request) => request.check(operands, lab),
            Self::Runtime(request) => request.check(operands, lab),
            Self::Vectors(request) => request.check(operands, lab),
            Self::Ranks(request) => request.check(operands),
            Self::Gemm(request) => request.check(operands, lab),
            Self::Colmean(request) => request.check(operands, lab),
        }
    }

    /// The same; a panic is a failure too. After a failure devices are opened again, since a fault would stay with them.
    pub fn check_caught<T: Value>(
        &self,
        operands: &Operands<'_, T>,
        lab: &mut Lab,
    ) -> Result<Outcome, String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.check(operands, lab)))
            .unwrap_or_else(|_| Err(format!("panic: {}", panics::last())));
        if outcome.is_err() {
            lab.renew();
        }
        outcome
    }

    pub fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Cpu(request) => request.simpler().into_iter().map(Self::Cpu).collect(),
            Self::Runtime(request) => request.simpler().into_iter().map(Self::Runtime).collect(),
            Self::Vectors(request) => request.simpler().into_iter().map(Self::Vectors).collect(),
            Self::Ranks(request) => request.simpler().into_iter().map(Self::Ranks).collect(),
            Self::Gemm(request) => request.simpler().into_iter().map(Self::Gemm).collect(),
            Self::Colmean(request) => request.simpler().into_iter().map(Self::Colmean).collect(),
        }
    }

    /// The options of a command of the program that come nearest; none where no command computes it.
    pub fn command_options(&self) -> Option<String> {
        match self {
            Self::Cpu(request) => Some(request.command_options()),
            Self::Runtime(request) => Some(request.command_options()),
            Self::Vectors(_) | Self::Ranks(_) | Self::Gemm(_) | Self::Colmean(_) => None,
        }
    }
}

/// A request with its operands.
#[derive(Debug, Clone)]
pub struct Problem {
    pub double: bool,
    pub a: Sparse,
    /// X, packed by rows of `all`.
    pub x: Vec<f64>,
    /// Y before the product, packed by rows of `all`.
    pub old: Vec<f64>,
    /// Columns of all products of the request together.
    pub all: usize,
    /// Columns of one product.
    pub k: usize,
    pub request: Request,
}

impl Problem {
    /// What is wrong, if anything is.
    pub fn failure(&self, lab: &mut Lab) -> Option<String> {
        match self.double {
            true => self.failure_as::<f64>(lab),
            false => self.failure_as::<f32>(lab),
        }
    }

    fn failure_as<T: Value>(&self, lab: &mut Lab) -> Option<String> {
        let csr = match self.a.csr::<T>() {
            Ok(csr) => csr,
            Err(error) => return Some(error.to_string()),
        };
        let reference = Reference::new(&self.a, &self.x, self.all);
        let &Self { ref a, ref x, ref old, all, k, .. } = self;
        let operands = Operands { a, csr: &csr, x, old, all, first: 0, k, reference: &reference };
        self.request.check_caught(&operands, lab).err()
    }
}

/// The `k` columns from `first` on of a packed multivector with `all` columns; after the last one comes the first one.
pub fn window(values: &[f64], all: usize, first: usize, k: usize) -> Vec<f64> {
    if all == 0 {
        return Vec::new();
    }
    let columns = |row: &[f64]| (0..k).map(|column| row[(first + column) % all]).collect::<Vec<_>>();
    values.chunks_exact(all).flat_map(columns).collect()
}
