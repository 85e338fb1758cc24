//! `rowloom colmean`: means, sums and variances of the columns of a dense table, by channel and sample.

use std::path::PathBuf;

use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use super::colmean_output::{Column, ColumnSelection, Files, Statistics};
use super::job::Job;
use super::repeat::Repeated;
use super::report::Done;
use super::request::Request;
use super::workload::Workload;
use crate::args::ColmeanArguments;
use crate::args::no_effect::DeviceKinds;
use crate::args::options::Statistic;
use crate::console::Console;
use crate::operands::dense::DenseInput;
use crate::request::plan_file;
use rowloom::internal::device::Description;
use rowloom::internal::error::{Counted, Error, Result};
use rowloom::internal::kernel::KindOfWork;
use rowloom::internal::kernel::colmean::{Totals, verify};
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::matrix::Dtype;
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::{ColumnSums, Round, RunReport};
use rowloom::internal::work::colmean::Colmean as ColmeanWork;

/// Up to so many columns have their statistics in the table.
const SHOWN_COLUMNS: usize = 12;

/// Computes and reports.
pub fn run(arguments: &ColmeanArguments, console: &Console) -> Result<()> {
    let done = match arguments.dense.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    };
    plan_file::named(done, arguments.dense.plan.as_deref())
}

fn run_typed<T: Kernels>(arguments: &ColmeanArguments, console: &Console) -> Result<()> {
    let files = Files::new(arguments)?;
    let mut job = Job::open(Request::of_colmean(arguments)?, console)?;
    let (session, limit) = (&job.session, job.session.memory_limit_bytes());
    let finite = arguments.dense.finite;
    let table = DenseInput::<T>::load(&arguments.table, session.seed, finite, limit, session, console)?;
    let (rows, columns) = (table.values.rows(), table.values.k());
    let selection = ColumnSelection::new(arguments, columns)?;
    let deviations = arguments.statistics.contains(&Statistic::Variance);
    let shape = ColmeanWork { rows, columns, dtype: T::DTYPE, deviations };
    if job.is_simulated() {
        let workload = workload(arguments, &table, &selection, None);
        let resolve = |job: &Job<'_>| job.runtime.resolve(&job.request.options);
        return job.simulate(shape.into(), workload, table.load_s, resolve);
    }
    job.check_saved(&shape.into())?;

    let mut sums = {
        let _span = tracing::info_span!("plan").entered();
        let builder = job.runtime.column_sums(table.values.clone()).deviations(deviations);
        let builder = builder.options(job.request.options.clone());
        match job.saved.clone() {
            Some(plan) => builder.plan(plan),
            None => builder,
        }
        .build()?
    };
    job.note_flags(DeviceKinds::of_plan(sums.plan()));
    tracing::info_span!("prepare").in_scope(|| sums.prepare())?;
    let mut pass = Pass { sums: &mut sums, totals: None };
    let measured = job.repeat(&mut pass)?;
    let totals = pass.totals.ok_or_else(|| Error::Internal("no sums were computed".into()))?;
    let verification = job.verify(|| verify(table.values.view(), &totals, deviations))?;
    let statistics = Statistics::of(&totals, &arguments.statistics);
    files.write(&statistics, &selection, &table, &job.session.provenance.lines())?;
    let done = Done {
        load_s: table.load_s,
        plan_s: sums.plan_s(),
        prepare_s: sums.prepare_s(),
        clock_errors: sums.clock_errors(),
        faults: sums.faults(),
        verification,
        result_hash: Some(hash(&totals)),
        ..Done::new(workload(arguments, &table, &selection, Some(&statistics)))
    };
    job.report(done, measured)?;
    let ended = job.end("the sums", verification.as_ref());
    // The program ends; to free the memory of devices first would take longer than many passes.
    std::mem::forget((sums, job));
    ended
}

/// xxh3 of the sums and squared deviations of all columns, in hexadecimal.
fn hash(totals: &Totals) -> String {
    let numbers: Vec<f64> =
        totals.columns().iter().flat_map(|column| [column.sum, column.deviations]).collect();
    format!("{:016x}", xxh3_64(bytemuck::cast_slice(&numbers)))
}

fn workload<T: Kernels>(
    arguments: &ColmeanArguments,
    table: &DenseInput<T>,
    selection: &ColumnSelection,
    statistics: Option<&Statistics>,
) -> Workload {
    let (rows, columns) = (table.values.rows() as u64, table.values.k() as u64);
    let value_bytes = T::DTYPE.bytes() as u64;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let extremes = statistics.and_then(|statistics| statistics.extremes(selection));
    let place = |(mean, column): (f64, Column)| {
        format!("{mean:.6} ({})", selection.name(column, &table.column_names))
    };
    let mut results = Vec::new();
    if let Some([smallest, largest]) = extremes {
        results.push(("means", format!("from {} to {}", place(smallest), place(largest))));
    }
    if let Some(statistics) = statistics.filter(|_| selection.selected().count() <= SHOWN_COLUMNS) {
        let lines = selection.selected().map(|column| statistics.line(column, &table.column_names));
        results.extend(lines.map(|line| ("column", line)));
    }
    if let Some(plot) = &arguments.plot {
        results.push(("plot", plot.display().to_string()));
    }
    Workload {
        work: KindOfWork::Colmean,
        facts: vec![
            ("table", format!("{}, {}", table.describe(), T::DTYPE)),
            ("reported", format!("{}, {} each", selection.describe(), Counted(rows, "row"))),
        ],
        results,
        keys: vec![
            ("table", table.report()),
            ("columns_reported", json!(selection.selected().count())),
            ("column_names", json!((!table.column_names.is_empty()).then_some(&table.column_names))),
            (
                "means",
                json!({
                    "smallest": extremes.map(|[smallest, _]| smallest.0),
                    "largest": extremes.map(|[_, largest]| largest.0),
                }),
            ),
        ],
        config: json!({
            "table": table.name,
            "samples": arguments.samples,
            "channel": arguments.channel.as_ref().map(ToString::to_string),
            "window": arguments.window.map(|window| window.to_string()),
            "statistics": arguments.statistics,
            "plot": path(&arguments.plot),
            "finite": arguments.dense.finite,
            "plan": path(&arguments.dense.plan),
            "save": path(&arguments.dense.save),
        }),
        parts: 1,
        kernel: arguments.kernel.clone(),
        operations: rows as f64 * columns as f64,
        bytes: value_bytes * rows * columns,
        a_bytes: table.bytes(),
        output: arguments.output.clone(),
        notes: table.notes.clone(),
    }
}

/// Sums that are computed again and again.
pub struct Pass<'s, 'a, T: Kernels> {
    /// The sums.
    pub sums: &'s mut ColumnSums<'a, T>,
    /// The last result.
    pub totals: Option<Totals>,
}

impl<T: Kernels> Repeated for Pass<'_, '_, T> {
    fn apply(&mut self) -> Result<()> {
        self.totals = Some(self.sums.apply()?);
        Ok(())
    }

    fn plan(&mut self) -> &Plan {
        self.sums.plan()
    }

    fn descriptions(&mut self) -> Vec<Description> {
        self.sums.descriptions()
    }

    fn take_set_up(&mut self) -> Option<Round> {
        self.sums.take_set_up()
    }

    fn last_report(&mut self) -> Option<&RunReport> {
        self.sums.last_report()
    }
}
