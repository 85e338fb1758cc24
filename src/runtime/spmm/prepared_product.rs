//! A product that is prepared once and run repeatedly.

use super::launch::{VectorOperands, launch_on};
use super::matrix::Matrix;
use super::settings::Settings;
use super::spmm_job::SpmmJob;
use crate::device::Operation;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::{CsrView, MultiVectorView, MultiVectorViewMut};
use crate::plan::{Plan, PlanRequest};
use crate::runtime::Runtime;
use crate::runtime::job::{Job, Prepared, Scaling, open, open_planned};
use crate::work::Work;

/// A product ready to run.
pub type PreparedProduct<'a, T> = Prepared<SpmmJob<'a, T>>;

impl<'a, T: Kernels> PreparedProduct<'a, T> {
    /// Makes the plan for `request`, unless it is `known`; opens its devices, prepares the host's chunks and uploads the resident parts of A.
    pub fn of_request(
        runtime: &Runtime,
        matrix: &Matrix<'a, T>,
        request: PlanRequest<'_>,
        known: Option<Plan>,
        settings: &Settings,
    ) -> Result<Self> {
        let job = |plan| SpmmJob::new(matrix.clone(), plan, settings.clone());
        Self::new(runtime, open(runtime, request, known, job)?, settings.watchdog_timeout, settings.check)
    }

    /// The same for an existing plan.
    pub fn with_plan(
        runtime: &Runtime,
        matrix: &Matrix<'a, T>,
        plan: Plan,
        settings: &Settings,
    ) -> Result<Self> {
        let job = || {
            let view = matrix.view();
            plan.check_matrix(&Work::spmm(&view, plan.k as usize)?)?;
            SpmmJob::new(matrix.clone(), plan, settings.clone())
        };
        Self::new(runtime, open_planned(runtime, job)?, settings.watchdog_timeout, settings.check)
    }

    /// The matrix.
    pub fn matrix(&self) -> CsrView<'_, T> {
        self.job.matrix()
    }

    /// The reason for the host's choice of kernel for a chunk.
    pub fn host_reason(&self, chunk: usize) -> Option<String> {
        self.job.host_reason(chunk)
    }

    /// The launch of a chunk whose part of A is resident, on X and Y elsewhere in its device's memory.
    pub fn chunk_launch(&self, chunk: usize, operands: &VectorOperands) -> Result<Operation<'static>> {
        let home = self.job.chunk(chunk)?.home as usize;
        let accelerator = self.opened.accelerators.get(home).and_then(Option::as_ref);
        let accelerator =
            accelerator.ok_or_else(|| Error::Internal("a chunk's device is not open".into()))?;
        let at = accelerator.chunk_range(chunk, None, self.job.chunk_bytes(chunk)?)?;
        launch_on(&self.job, chunk, accelerator, at, operands)
    }

    /// Computes a chunk with X and Y of the caller, on the pool of the host.
    pub fn run_on_host(
        &self,
        chunk: usize,
        scaling: Scaling,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        if self.job.is_serial(chunk) {
            return self.compute_on_host(chunk, scaling, x, y);
        }
        self.pool.install_spinning(|| self.compute_on_host(chunk, scaling, x, y))
    }

    /// The same on the current rayon pool.
    pub fn compute_on_host(
        &self,
        chunk: usize,
        scaling: Scaling,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        self.job.compute(chunk, scaling, x, y)
    }
}
