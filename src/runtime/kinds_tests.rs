//! Claims about kinds of work that only these tests have: what plans, validates, simulates and computes sparse products does the same for
//! rows of a dense matrix, whatever becomes of them.

use std::ops::Range;
use std::sync::Mutex;

use crossbeam::channel::unbounded;
use proptest::prelude::*;

use super::planned::Planned;
use super::simulate::Simulated;
use crate::cost::{Candidate, Choice, Form, Profile, cpu_profile, host_rates, preset};
use crate::device::{Cpu, Device, Operation, Reports};
use crate::error::{Error, Result};
use crate::exec::{Binder, ExecOptions, HeldSlots, execute};
use crate::graph::{DeviceId, Role, TaskId, TaskKind};
use crate::kernel::{KernelId, Processor};
use crate::matrix::Dtype;
use crate::plan::{DeviceSpec, Item, Mode, Plan, PlanRequest, Remaining, XPlan, make};
use crate::trace::Clock;
use crate::work::{
    ChunkRows, Combine, Facts, Fingerprint, Footprint, Forms, KernelRequest, Kind, Layouts, Output, Position,
    PositionRange, SharedBytes, UniformRows, Work, XChoice, XOrder,
};

/// Rows of A in a segment of a sum.
const SEGMENT_ROWS: usize = 8;

/// A dense A of `height` rows and `width` columns. Rows of Y are concatenated, Y = A X with X of `width` rows and `k` columns, or added,
/// Y = the sums of the columns of A.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Dense {
    height: usize,
    width: usize,
    k: usize,
    output: Output,
}

fn column_sums(height: usize, width: usize) -> Dense {
    Dense { height, width, k: width, output: Output { updated: false, combine: Combine::Add } }
}

fn updated_product(height: usize, width: usize, k: usize) -> Dense {
    Dense { height, width, k, output: Output { updated: true, combine: Combine::Concatenate } }
}

impl Dense {
    fn adds(&self) -> bool {
        self.output.combine == Combine::Add
    }

    /// The number of places where a chunk may begin.
    fn units(&self) -> usize {
        if self.adds() { self.height.div_ceil(SEGMENT_ROWS) } else { self.height }
    }

    fn unit(&self, position: Position) -> usize {
        match self.adds() {
            true if position.row > 0 => self.units(),
            true => position.segment,
            false => position.row,
        }
    }

    fn position(&self, unit: usize) -> Position {
        match self.adds() {
            true if unit < self.units() => Position { row: 0, segment: unit },
            true => Position::of_row(1),
            false => Position::of_row(unit),
        }
    }

    fn piece(&self, units: Range<usize>) -> ChunkRows {
        match self.adds() {
            true => ChunkRows::Segments { row: 0, begin: units.start, end: units.end },
            false => ChunkRows::Rows { begin: units.start, end: units.end },
        }
    }

    /// The rows of A of a piece.
    fn rows_of_a(&self, piece: &ChunkRows) -> Range<usize> {
        match *piece {
            ChunkRows::Segments { begin, end, .. } => {
                begin * SEGMENT_ROWS..self.height.min(end * SEGMENT_ROWS)
            }
            ChunkRows::Rows { .. } if self.adds() => 0..self.height,
            ChunkRows::Rows { begin, end } => begin..end,
        }
    }

    fn facts_of(&self, piece: &ChunkRows) -> Facts {
        let entries = self.piece_entries(piece);
        let x_bytes = self.x_bytes();
        Facts::Uniform(UniformRows {
            rows: piece.slice_rows() as u64,
            entries,
            a_bytes: 8 * entries,
            x_bytes,
        })
    }

    fn x_choice(&self, order: XOrder) -> XChoice {
        match self.adds() {
            true => XChoice { x: XPlan::Nothing, bytes: 0, reason: "sums have no X".into() },
            false => XChoice::whole(self, order, "all rows need all of X"),
        }
    }
}

impl Kind for Dense {
    fn rows(&self) -> usize {
        if self.adds() { 1 } else { self.height }
    }

    fn x_rows(&self) -> usize {
        if self.adds() { 0 } else { self.width }
    }

    fn k(&self) -> usize {
        self.k
    }

    fn dtype(&self) -> Dtype {
        Dtype::F64
    }

    fn output(&self) -> Output {
        self.output
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            kind: "dense".into(),
            rows: self.rows() as u64,
            cols: self.x_rows() as u64,
            entries: (self.height * self.width) as u64,
            hash: format!("{}x{}", self.height, self.width),
        }
    }

    fn remembering(&self) -> Work<'_> {
        Work::new(*self)
    }

    fn row_segments(&self, _row: usize) -> usize {
        if self.adds() { self.units() } else { 1 }
    }

    fn weight_before(&self, position: Position) -> u128 {
        self.unit(position) as u128
    }

    fn position_at(&self, weight: u128, _grain: u128) -> Position {
        self.position((weight as usize).min(self.units()))
    }

    fn split(&self, span: PositionRange, pieces: usize) -> Vec<ChunkRows> {
        let (begin, end) = (self.unit(span.begin), self.unit(span.end));
        let pieces = pieces.max(1).min(end - begin);
        let at = |piece: usize| begin + (end - begin) * piece / pieces;
        (0..pieces).map(|piece| self.piece(at(piece)..at(piece + 1))).collect()
    }

    fn facts(&self, pieces: &[ChunkRows]) -> Vec<Facts> {
        pieces.iter().map(|piece| self.facts_of(piece)).collect()
    }

    fn all_facts(&self) -> Facts {
        self.facts_of(&self.piece(0..self.units()))
    }

    fn piece_entries(&self, piece: &ChunkRows) -> u64 {
        (self.rows_of_a(piece).len() * self.width) as u64
    }

    fn a_bytes(&self) -> u64 {
        8 * (self.height * self.width) as u64
    }

    fn piece_bytes(&self, piece: &ChunkRows) -> u64 {
        8 * self.piece_entries(piece)
    }

    fn x_part(&self, order: XOrder, _pieces: &[ChunkRows], _facts: &[Facts]) -> XChoice {
        self.x_choice(order)
    }

    fn x_in_place(&self, order: XOrder, _pieces: &[ChunkRows]) -> XChoice {
        self.x_choice(order)
    }

    fn x_by_share(&self, _samples: &[Facts], _devices: usize) -> SharedBytes {
        SharedBytes { fixed: self.x_bytes(), shared: 0 }
    }

    fn x_spans(&self, pieces: &[ChunkRows]) -> Vec<Range<usize>> {
        vec![0..self.x_rows(); pieces.len()]
    }

    fn x_list(&self, _pieces: &[ChunkRows]) -> Vec<u32> {
        (0..self.x_rows() as u32).collect()
    }

    fn interior(&self, rows: Range<usize>) -> Range<usize> {
        rows.start..rows.start
    }

    fn kernels(&self, _processor: Processor) -> &'static [KernelId] {
        &[]
    }

    fn gains_from_layouts(&self) -> bool {
        false
    }

    /// Kernels of another kind stand in for those that this one lacks: nothing here launches them.
    fn forms(&self, _request: &KernelRequest, _layouts: Layouts) -> Result<Forms> {
        let candidate = |form| Candidate { form, shape: None, nearest_shape: None };
        let gpu = Form::all(KernelId::CsrSubwarp, Dtype::F64, self.k as u64, false);
        Ok(Forms {
            cpu: vec![candidate(Form::cpu(KernelId::CpuCsr))],
            gpu: gpu.into_iter().map(candidate).collect(),
            x_order: XOrder::Rows,
            is_requested: false,
        })
    }

    fn choose(&self, device: &Profile, _piece: &ChunkRows, facts: &Facts, forms: &Forms) -> Result<Choice> {
        let candidate = forms.of(device.processor).first();
        let form = candidate.ok_or_else(|| Error::Internal("there is no kernel".into()))?.form;
        let predicted_s = facts.kernel_s(device, &form, self.k as u64, Dtype::F64);
        Ok(Choice { form, predicted_s, reason: "the only kernel".into() })
    }

    fn footprint(&self, piece: &ChunkRows, _form: &Form, _facts: &Facts) -> Result<Footprint> {
        Ok(Footprint { slot_bytes: self.piece_bytes(piece), scratch_bytes: 0 })
    }

    fn checked_footprint(&self, piece: &ChunkRows, form: &Form, facts: &Facts) -> Result<Footprint> {
        self.footprint(piece, form, facts)
    }
}

/// The request for a job on the CPU and on cards of the preset `gpus`.
fn request(job: Dense, gpus: Option<&str>) -> PlanRequest<'static> {
    let mut devices = vec![DeviceSpec::new("cpu", cpu_profile(2, 1 << 34).unwrap())];
    let cards = gpus.map(|name| preset(name).unwrap().gpus).unwrap_or_default();
    devices.extend(
        cards.into_iter().enumerate().map(|(card, profile)| DeviceSpec::new(format!("sim:{card}"), profile)),
    );
    PlanRequest::new(Work::new(job), devices, host_rates(2).unwrap())
}

/// A and X of a job, and its Y.
struct Values {
    a: Vec<f64>,
    x: Vec<f64>,
    y: Mutex<Vec<f64>>,
    /// The partial sums of each chunk.
    carries: Vec<Mutex<Vec<f64>>>,
}

impl Values {
    fn of(job: &Dense, plan: &Plan) -> Self {
        let numbers = |count: usize| (0..count).map(|at| ((at * 7919) % 1009) as f64 / 13.0).collect();
        Self {
            a: numbers(job.height * job.width),
            x: numbers(job.x_rows() * job.k),
            y: Mutex::new(vec![0.5; job.rows() * job.k]),
            carries: plan.chunks.iter().map(|_| Mutex::default()).collect(),
        }
    }

    /// Entry `column` of the result of some rows of A.
    fn entry(&self, job: &Dense, rows: Range<usize>, column: usize) -> f64 {
        let row = |row: usize| &self.a[row * job.width..(row + 1) * job.width];
        match job.adds() {
            true => rows.map(|at| row(at)[column]).sum(),
            false => {
                let products = row(rows.start).iter().enumerate();
                products.map(|(at, value)| value * self.x[at * job.k + column]).sum()
            }
        }
    }
}

/// Computes chunks on the host.
struct DenseBinder<'run> {
    job: &'run Dense,
    plan: &'run Plan,
    planned: &'run Planned,
    values: &'run Values,
}

impl<'run> DenseBinder<'run> {
    fn compute(&self, chunk: usize) -> Result<()> {
        let Values { y, carries, .. } = self.values;
        match self.plan.chunks[chunk].rows {
            ChunkRows::Rows { begin, end } => {
                let mut y = y.lock().unwrap();
                for (row, column) in
                    (begin..end).flat_map(|row| (0..self.job.k).map(move |column| (row, column)))
                {
                    y[row * self.job.k + column] += self.values.entry(self.job, row..row + 1, column);
                }
            }
            ChunkRows::Segments { begin, end, .. } => {
                let rows = |segment: usize| self.job.rows_of_a(&self.job.piece(segment..segment + 1));
                let sums = (begin..end).flat_map(|segment| {
                    (0..self.job.k).map(move |column| self.values.entry(self.job, rows(segment), column))
                });
                *carries[chunk].lock().unwrap() = sums.collect();
            }
        }
        Ok(())
    }

    fn merge(&self, split_row: usize) -> Result<()> {
        let mut y = self.values.y.lock().unwrap();
        y.fill(0.0);
        for &chunk in &self.plan.split_rows[split_row].chunks {
            let carries = self.values.carries[chunk as usize].lock().unwrap();
            for segment in carries.chunks(self.job.k) {
                y.iter_mut().zip(segment).for_each(|(sum, part)| *sum += part);
            }
        }
        Ok(())
    }
}

impl<'run> Binder<'run> for &'run DenseBinder<'run> {
    fn operation(&mut self, task: TaskId, _slots: &HeldSlots) -> Result<Operation<'run>> {
        let binder = *self;
        let (task, item, _) = self.planned.task(task)?;
        match (item, task.kind) {
            (Item::Chunk(chunk), TaskKind::CpuCompute) => {
                Ok(Operation::Job(Box::new(move || binder.compute(chunk as usize))))
            }
            (Item::SplitRow(row), TaskKind::Merge) => {
                Ok(Operation::Job(Box::new(move || binder.merge(row as usize))))
            }
            (item, _) => Err(Error::Internal(format!("the host has no operation for {item:?}"))),
        }
    }
}

/// Y of a job on the CPU, in so many chunks.
fn computed(job: &Dense, chunks: usize) -> Vec<f64> {
    let plan = make(&PlanRequest { chunks: Some(chunks), ..request(*job, None) }).unwrap();
    assert_eq!(plan.chunks.len(), chunks.min(job.units()));
    let planned = Planned::new(plan.graph(&Remaining::all(&plan)).unwrap()).unwrap();
    let values = Values::of(job, &plan);
    let binder = DenseBinder { job, plan: &plan, planned: &planned, values: &values };
    let (sender, receiver) = unbounded();
    rayon::in_place_scope(|scope| {
        let mut host = Cpu::new(scope, Clock::start(), Reports::new(DeviceId::HOST, sender));
        let mut devices: Vec<&mut dyn Device<'_>> = vec![&mut host];
        let (graph, options) = (&planned.planned.graph, ExecOptions::default());
        let outcome =
            execute(graph, &planned.schedule, &mut devices, &receiver, &mut &binder, &options).unwrap();
        assert!(outcome.is_complete(), "{outcome:?}");
    });
    values.y.into_inner().unwrap()
}

/// What a saved plan is after it was loaded again.
fn reloaded(plan: &Plan) -> Plan {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    plan.save(&path).unwrap();
    Plan::load(&path).unwrap()
}

#[test]
fn partial_sums_are_planned_for_all_devices_and_merged_once() {
    for (gpus, mode) in [("h200", Mode::Oneshot), ("h200", Mode::Resident), ("h200x4", Mode::Stream)] {
        let job = column_sums(200_000, 500);
        let plan = make(&PlanRequest { mode: Some(mode), repeat: 100, ..request(job, Some(gpus)) }).unwrap();
        assert!(plan.devices.iter().all(|device| device.chunks > 0 && device.slots.x_bytes == 0), "{plan:?}");
        assert!(plan.chunks.iter().all(|chunk| matches!(chunk.rows, ChunkRows::Segments { row: 0, .. })));
        assert_eq!((plan.split_rows.len(), plan.split_rows[0].chunks.len()), (1, plan.chunks.len()));
        plan.check_matrix(&Work::new(job)).unwrap();
        assert_eq!(reloaded(&plan), plan);
        let report = Simulated::new(&plan).unwrap().run().unwrap();
        let round = &report.rounds[0];
        let kind = |of: TaskKind| {
            let tasks = round.planned.planned.graph.tasks().iter();
            tasks.filter(|task| task.kind == of && task.device == DeviceId::HOST).count()
        };
        assert_eq!(round.outcome.records.len(), round.planned.planned.graph.tasks().len());
        assert!(kind(TaskKind::CpuCompute) > 0 && kind(TaskKind::Merge) > 0);
        assert!(report.end_ns > 0);
    }
}

#[test]
fn every_device_gets_a_segment_of_a_short_sum() {
    let job = column_sums(5 * SEGMENT_ROWS, 3);
    let plan = make(&request(job, Some("h200x4"))).unwrap();
    assert!(plan.devices.iter().all(|device| device.chunks == 1), "{plan:?}");
}

#[test]
fn an_updated_output_is_staged_and_no_task_that_updates_it_may_run_again() {
    let job = updated_product(50_000, 300, 64);
    let plan =
        make(&PlanRequest { mode: Some(Mode::Oneshot), repeat: 1000, ..request(job, Some("h200")) }).unwrap();
    assert!(plan.devices.iter().all(|device| device.x == XPlan::Whole && !device.registered.y), "{plan:?}");
    plan.check_matrix(&Work::new(job)).unwrap();
    assert_eq!(reloaded(&plan), plan);
    let planned = Planned::new(plan.graph(&Remaining::all(&plan)).unwrap()).unwrap();
    let graph = &planned.planned.graph;
    assert!(graph.buffers().iter().any(|buffer| buffer.role == Role::InOut));
    assert!(graph.buffers().iter().all(|buffer| buffer.role != Role::Output));
    for (number, task) in graph.tasks().iter().enumerate() {
        let updates = matches!(task.kind, TaskKind::CpuCompute | TaskKind::Merge);
        assert_eq!(graph.may_run_again(TaskId(number as u32)), !updates, "{task:?}");
    }
    Simulated::new(&plan).unwrap().run().unwrap();
    let written = Dense { output: Output::default(), ..job };
    let plan =
        make(&PlanRequest { mode: Some(Mode::Oneshot), repeat: 1000, ..request(written, Some("h200")) })
            .unwrap();
    assert!(plan.devices[1].registered.y, "a written output of the same job is copied in place");
    assert!(plan.check_matrix(&Work::new(job)).is_err(), "the jobs differ in their output");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn results_do_not_depend_on_the_number_of_chunks(height in 1usize..200, width in 1usize..9, chunks in 2usize..40) {
        let sums = column_sums(height, width);
        let (whole, parts) = (computed(&sums, 1), computed(&sums, chunks));
        prop_assert_eq!(&whole, &parts);
        let a = Values::of(&sums, &make(&request(sums, None)).unwrap()).a;
        for (column, sum) in whole.iter().enumerate() {
            let plain: f64 = (0..height).map(|row| a[row * width + column]).sum();
            prop_assert!((sum - plain).abs() <= 1e-9 * plain.max(1.0), "{sum} {plain}");
        }
        let product = updated_product(height, width, 3);
        prop_assert_eq!(computed(&product, 1), computed(&product, chunks));
    }
}
