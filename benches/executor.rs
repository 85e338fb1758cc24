//! Times the executor per task: graphs of 100,000 and of 1,000,000 tasks on four simulated accelerators and a simulated
//! host, with slots, choices and dependencies.
//!
//! `cargo bench --bench executor`

use std::time::Instant;

use crossbeam::channel::unbounded;
use rowloom::internal::device::simulated::{SimulatedDevice, SimulatedSpec, Simulation};
use rowloom::internal::device::{Device, Operation, Reports};
use rowloom::internal::exec::{Binder, ExecOptions, HeldSlots, TaskSchedule, execute};
use rowloom::internal::graph::{
    Access, BufferId, Demand, DeviceId, Graph, GraphBuilder, PoolId, Role, StrandId, Task, TaskId, TaskKind,
};

const ACCELERATORS: u32 = 4;
const BYTES: u64 = 1 << 20;

struct Pass;

impl<'run> Binder<'run> for Pass {
    fn operation(&mut self, _task: TaskId, _slots: &HeldSlots) -> rowloom::Result<Operation<'run>> {
        Ok(Operation::Pass)
    }
}

struct Accelerator {
    device: DeviceId,
    pools: [PoolId; 4],
    x: Access,
    x_upload: TaskId,
}

fn whole(buffer: BufferId) -> Access {
    Access { buffer, begin: 0, end: BYTES }
}

fn task(
    kind: TaskKind,
    device: DeviceId,
    strand: StrandId,
    takes: Option<PoolId>,
    gives: Option<PoolId>,
) -> Task {
    let copies = matches!(kind, TaskKind::Upload | TaskKind::Download);
    let demand = Demand {
        alone_ns: if kind == TaskKind::CpuCompute { 400_000 } else { 20_000 },
        link_bytes: if copies { BYTES } else { 0 },
        host_bytes: if kind == TaskKind::Kernel { 0 } else { BYTES },
        peer: None,
    };
    Task { kind, device, strand, item: 0, takes, gives, demand, turn: 0 }
}

fn streamed(builder: &mut GraphBuilder, on: &Accelerator, strand: StrandId, a: Access, target: Access) {
    let [pinned, a_slot, y_slot, out] = on.pools;
    let [a_pinned, a_device, y_device, y_pinned] =
        [(); 4].map(|()| whole(builder.buffer(Role::Scratch, BYTES)));
    let (host, device) = (DeviceId::HOST, on.device);
    let stage = task(TaskKind::Stage, host, strand, Some(pinned), None);
    let stage = builder.task(stage, &[], &[a], &[a_pinned]);
    let upload = task(TaskKind::Upload, device, strand, Some(a_slot), Some(pinned));
    let upload = builder.task(upload, &[stage], &[a_pinned], &[a_device]);
    let kernel = task(TaskKind::Kernel, device, strand, Some(y_slot), Some(a_slot));
    let kernel = builder.task(kernel, &[upload, on.x_upload], &[a_device, on.x], &[y_device]);
    let download = task(TaskKind::Download, device, strand, Some(out), Some(y_slot));
    let download = builder.task(download, &[kernel], &[y_device], &[y_pinned]);
    builder.task(task(TaskKind::Merge, host, strand, None, Some(out)), &[download], &[y_pinned], &[target]);
}

fn graph(tasks: u32) -> Graph {
    let mut builder = GraphBuilder::new();
    // 95 of 100 tasks belong to chunks of accelerators; any device may take one chunk in ten.
    let chunks = tasks / 100 * 19;
    let (fixed, choices) = (chunks * 9 / 10, chunks / 10 / (ACCELERATORS + 1));
    let host_chunks = tasks / 100 * 5;
    let rows = u64::from(fixed + choices + host_chunks);
    let x = whole(builder.buffer(Role::Input, BYTES));
    let a = whole(builder.buffer(Role::Input, BYTES));
    let y = builder.buffer(Role::Output, rows * BYTES);
    let mut next_row = (0..rows).map(|row| Access { buffer: y, begin: row * BYTES, end: (row + 1) * BYTES });
    let accelerators: Vec<Accelerator> = (1..=ACCELERATORS)
        .map(|number| {
            let device = DeviceId(number);
            let pools = [(); 4].map(|()| builder.pool("slots", device, 3));
            let strand = builder.strand(None);
            let [x_pinned, x_device] = [(); 2].map(|()| whole(builder.buffer(Role::Scratch, BYTES)));
            let stage = task(TaskKind::Stage, DeviceId::HOST, strand, None, None);
            let stage = builder.task(stage, &[], &[x], &[x_pinned]);
            let upload = task(TaskKind::Upload, device, strand, None, None);
            let x_upload = builder.task(upload, &[stage], &[x_pinned], &[x_device]);
            Accelerator { device, pools, x: x_device, x_upload }
        })
        .collect();
    for (number, target) in (0..fixed as usize).zip(&mut next_row) {
        let strand = builder.strand(None);
        streamed(&mut builder, &accelerators[number % accelerators.len()], strand, a, target);
    }
    for (number, target) in (0..host_chunks + choices).zip(&mut next_row) {
        let choice = (number >= host_chunks).then(|| builder.choice());
        if choice.is_some() {
            for on in &accelerators {
                let strand = builder.strand(choice);
                streamed(&mut builder, on, strand, a, target);
            }
        }
        let strand = builder.strand(choice);
        let compute = task(TaskKind::CpuCompute, DeviceId::HOST, strand, None, None);
        builder.task(compute, &[], &[a, x], &[target]);
    }
    builder.freeze()
}

/// Peak resident memory of this process, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn main() -> rowloom::Result<()> {
    println!("   tasks  validate s  schedule s   run s  us/task  virtual s  peak MiB");
    for size in [100_000, 1_000_000] {
        let graph = graph(size);
        let tasks = graph.tasks().len();
        let begin = Instant::now();
        graph.validate().map_err(|unsound| unsound.into_error())?;
        let validate_s = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let schedule = TaskSchedule::new(&graph)?;
        let schedule_s = begin.elapsed().as_secs_f64();

        let (sender, completions) = unbounded();
        let simulation = Simulation::new(400.0);
        let reports = |number| Reports::new(DeviceId(number), sender.clone());
        let mut devices: Vec<SimulatedDevice> =
            vec![simulation.device(&SimulatedSpec::host("cpu", 1, 8), reports(0))];
        for number in 1..=ACCELERATORS {
            let spec = SimulatedSpec::accelerator(format!("sim:{number}"), 80 << 30, 50.0, 5000);
            devices.push(simulation.device(&spec, reports(number)));
        }
        let mut devices: Vec<&mut dyn Device<'static>> =
            devices.iter_mut().map(|device| device as &mut dyn Device<'static>).collect();
        let mut run_s = f64::INFINITY;
        let mut virtual_s = 0.0;
        for _ in 0..3 {
            let (begin, begin_ns) = (Instant::now(), simulation.now_ns());
            let options = ExecOptions::default();
            let outcome = execute(&graph, &schedule, &mut devices, &completions, &mut Pass, &options)?;
            run_s = run_s.min(begin.elapsed().as_secs_f64());
            virtual_s = (simulation.now_ns() - begin_ns) as f64 * 1e-9;
            assert!(outcome.is_complete());
        }
        println!(
            "{tasks:>8} {validate_s:>11.3} {schedule_s:>11.3} {run_s:>7.3} {:>8.3} {virtual_s:>10.3} {:>9}",
            run_s * 1e6 / tasks as f64,
            peak_mib()
        );
    }
    Ok(())
}
