//! What a command that computes was asked for: its arguments, checked, in the words of the runtime.

use std::path::Path;

use crate::args::DenseArguments;
use crate::args::no_effect::{self, DeviceKinds};
use crate::args::{
    ColmeanArguments, ExecutionArguments, GemmArguments, MatrixArguments, MatrixSource, RepeatArguments,
    RunArguments,
};
use crate::request::planning;
use rowloom::internal::error::Result;
use rowloom::internal::kernel::KindOfWork;
use rowloom::internal::runtime::ProductOptions;

/// What a command that computes was asked for.
pub struct Request<'a> {
    /// The kind of work.
    pub work: KindOfWork,
    /// Threads, seed and value type.
    pub matrix: &'a MatrixArguments,
    /// Devices, mode and limits, as typed.
    pub execution: &'a ExecutionArguments,
    /// How often it is computed, whether it is verified, and the trace.
    pub repeated: &'a RepeatArguments,
    /// Kernel, mode and limits in the words of the runtime.
    pub options: ProductOptions,
    /// The file of the plan to use.
    pub plan: Option<&'a Path>,
    /// The file that the plan is written to.
    pub save: Option<&'a Path>,
    /// Whether a result is written.
    pub has_output: bool,
    /// Whether this process is a rank of a job.
    pub is_over_ranks: bool,
    /// Notes on flags without effect on such devices.
    pub idle_flags: Box<dyn Fn(DeviceKinds) -> Vec<String> + 'a>,
}

impl<'a> Request<'a> {
    /// The request of `run`.
    pub fn of_run(arguments: &'a RunArguments) -> Result<Self> {
        Ok(Self {
            work: KindOfWork::Spmm,
            matrix: &arguments.matrix_arguments,
            execution: &arguments.planning,
            repeated: &arguments.repeated,
            options: planning::options(&arguments.planning, arguments.repeated.repeat)?,
            plan: arguments.plan.as_deref(),
            save: None,
            has_output: arguments.output.is_some(),
            is_over_ranks: false,
            idle_flags: Box::new(|kinds| no_effect::of_run(arguments, kinds)),
        })
    }

    /// The request of `gemm`.
    pub fn of_gemm(arguments: &'a GemmArguments) -> Result<Self> {
        let operands = [Some(&arguments.a), Some(&arguments.b), arguments.c.as_ref()];
        let sources = operands.into_iter().flatten().map(|typed| MatrixSource::new(typed)).collect();
        Self::of_dense(
            KindOfWork::Gemm,
            &arguments.dense,
            &arguments.kernel,
            sources,
            arguments.output.is_some(),
        )
    }

    /// The request of `colmean`, which may write several files.
    pub fn of_colmean(arguments: &'a ColmeanArguments) -> Result<Self> {
        let has_output = arguments.output.is_some() || arguments.plot.is_some();
        let sources = vec![MatrixSource::new(&arguments.table)];
        Self::of_dense(KindOfWork::Colmean, &arguments.dense, &arguments.kernel, sources, has_output)
    }

    fn of_dense(
        work: KindOfWork,
        dense: &'a DenseArguments,
        kernel: &str,
        sources: Vec<MatrixSource>,
        has_output: bool,
    ) -> Result<Self> {
        let is_generated = |source: &MatrixSource| matches!(source, MatrixSource::Generated(_));
        let (reads, generates) = (!sources.iter().all(is_generated), sources.iter().any(is_generated));
        let options = planning::execution_options(&dense.execution, dense.repeated.repeat);
        Ok(Self {
            work,
            matrix: &dense.matrix_arguments,
            execution: &dense.execution,
            repeated: &dense.repeated,
            options: ProductOptions { kernel: planning::dense_kernel(work, kernel)?, ..options },
            plan: dense.plan.as_deref(),
            save: dense.save.as_deref(),
            has_output,
            is_over_ranks: false,
            idle_flags: Box::new(move |kinds| no_effect::of_dense(&dense.common, kinds, reads, generates)),
        })
    }
}
