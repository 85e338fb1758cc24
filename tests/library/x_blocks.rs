//! X in blocks of rows: the times in virtual time, and the same bits as in one piece on the emulator.

use std::sync::Arc;
use std::time::Duration;

use rowloom::Result;
use rowloom::internal::cost::{cpu_profile, emulated_profile, host_rates, preset};
use rowloom::internal::graph::TaskKind;
use rowloom::internal::kernel::reference;
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::{Csr, MultiVector, MultiVectorView, generate};
use rowloom::internal::plan::{
    DevicePlan, DeviceSpec, Mode, Plan, PlanRequest, Remaining, XPlan, XRows, make,
};
use rowloom::internal::runtime::{FaultReport, Pool, Product, ProductOptions, Runtime, Simulated};
use rowloom::internal::work::Work;

fn pool() -> Arc<Pool> {
    Arc::new(Pool::new(&Machine::detect(), Some(2)).unwrap())
}

fn matrix(spec: &str) -> Csr<f64> {
    generate(spec, 1, u64::MAX).unwrap().matrix
}

/// The plan for one simulated H200 with X and Y registered.
fn h200(matrix: &Csr<f64>, k: usize, mode: Mode) -> Plan {
    let machine = preset("h200").unwrap();
    let device = DeviceSpec::new("sim:h200", machine.gpus[0].clone());
    let work = Work::spmm(&matrix.view(), k).unwrap();
    let request = PlanRequest::new(work, vec![device], machine.host);
    make(&PlanRequest { mode: Some(mode), repeat: 10, always_register: true, ..request }).unwrap()
}

/// Simulated seconds of a product divided by the least time of its copies. While both directions of the link are busy, each is slower
/// than alone, as their combined bandwidth says.
fn over_link_bound(plan: &Plan) -> f64 {
    let report = Simulated::new(plan).unwrap().run().unwrap();
    let graph = plan.graph(&Remaining::all(plan)).unwrap().graph;
    let link_bytes = |kind: TaskKind| {
        let tasks = graph.tasks().iter().filter(move |task| task.kind == kind);
        tasks.map(|task| task.demand.link_bytes).sum::<u64>() as f64
    };
    let link = plan.devices[1].profile.link.as_ref().unwrap();
    let up_s = link_bytes(TaskKind::Upload) / (link.to_device_gb_per_s * 1e9);
    let down_s = link_bytes(TaskKind::Download) / (link.from_device_gb_per_s * 1e9);
    let product_s = (report.end_ns - report.start_ns) as f64 * 1e-9;
    let ratio = product_s / plan.predicted_s;
    assert!((0.9..1.1).contains(&ratio), "predicted {} s, simulated {product_s} s", plan.predicted_s);
    let slower = (link.to_device_gb_per_s + link.from_device_gb_per_s) / link.both_gb_per_s;
    product_s / (up_s.max(down_s) + (slower - 1.0) * up_s.min(down_s))
}

#[test]
fn x_and_y_cross_at_the_same_time_where_a_is_resident() {
    let plan = h200(&matrix("stencil27,n=96"), 32, Mode::Resident);
    let ratio = over_link_bound(&plan);
    assert!(ratio <= 1.12, "{ratio}: {:?}", plan.reasons);
    assert!(plan.reasons.iter().any(|reason| reason.contains(" blocks of rows of about ")));
}

#[test]
fn x_and_a_cross_in_turns_where_a_is_copied_too() {
    let plan = h200(&matrix("stencil7,n=160"), 32, Mode::Oneshot);
    let ratio = over_link_bound(&plan);
    assert!(ratio <= 1.12, "{ratio}: {:?}", plan.reasons);
}

/// A product on emulated devices with copies that have no latency, so that even small blocks pay.
struct Case<'a> {
    /// `cpu`, `emu:0`, `emu:1?fail_launch=3`.
    devices: &'a str,
    mode: Mode,
    register: bool,
    k: usize,
    /// Elements between the starts of two rows of X.
    leading_dimension: usize,
}

impl Case<'_> {
    fn request<'w>(&self, a: &'w Csr<f64>) -> PlanRequest<'w> {
        let device = |word: &str| {
            let name = word.split('?').next().unwrap_or(word);
            let mut profile =
                if name == "cpu" { cpu_profile(2, 1 << 34) } else { emulated_profile() }.unwrap();
            profile.product_ns = emulated_profile().unwrap().product_ns / 1e3;
            profile.launch_us = 0.0;
            if let Some(link) = &mut profile.link {
                (link.to_device_gb_per_s, link.from_device_gb_per_s, link.latency_us) = (0.1, 0.1, 0.0);
                link.register_s_per_gb = Some(0.0);
            }
            DeviceSpec::new(name, profile)
        };
        let mut host = host_rates(2).unwrap();
        (host.memory_gb_per_s, host.copy_gb_per_s) = (1e4, 1e3);
        let request = PlanRequest::new(
            Work::spmm(&a.view(), self.k).unwrap(),
            self.devices.split(',').map(device).collect(),
            host,
        );
        let cpu_share = self.devices.starts_with("cpu").then_some(0.25);
        PlanRequest {
            mode: Some(self.mode),
            chunks: Some(12),
            repeat: 3,
            always_register: self.register,
            reproducible: true,
            cpu_share,
            ..request
        }
    }

    fn x(&self, a: &Csr<f64>) -> Vec<f64> {
        // What lies between the rows of X must not be used.
        let value = |at: usize| match at % self.leading_dimension {
            k if k < self.k => ((at * 31) % 101) as f64 / 37.0 - 1.3,
            _ => f64::NAN,
        };
        (0..a.cols() * self.leading_dimension).map(value).collect()
    }

    /// The product according to `plan`.
    fn product<'a>(&self, pool: &Arc<Pool>, a: &'a Csr<f64>, plan: Plan) -> Result<Product<'a, f64>> {
        let options = ProductOptions {
            watchdog_timeout: Some(Duration::from_secs(20)),
            host_memory_limit_bytes: Some(u64::MAX),
            bound: true,
            fixed: true,
            ..ProductOptions::default()
        };
        let runtime = Runtime::builder()
            .devices(self.devices)
            .model("none")
            .pool(Machine::detect(), pool.clone())
            .open()?;
        runtime.product(a).columns(self.k).options(options).plan(plan).build()
    }

    /// Y of the last of three products according to `plan`, and the faults.
    fn compute(&self, pool: &Arc<Pool>, a: &Csr<f64>, plan: Plan) -> (Vec<u64>, Vec<FaultReport>) {
        let mut product = self.product(pool, a, plan).unwrap();
        let data = self.x(a);
        let x = MultiVectorView::try_new(&data, a.cols(), self.k, self.leading_dimension).unwrap();
        let mut y = MultiVector::<f64>::zeros(a.rows(), self.k).unwrap();
        for _ in 0..3 {
            y.data_mut().fill(f64::NAN);
            product.bind(&x, &mut y, |bound| bound.apply()).unwrap();
        }
        (bits(&y), product.faults())
    }

    fn expected(&self, a: &Csr<f64>) -> Vec<u64> {
        let data = self.x(a);
        let x = MultiVectorView::try_new(&data, a.cols(), self.k, self.leading_dimension).unwrap();
        let mut y = MultiVector::<f64>::zeros(a.rows(), self.k).unwrap();
        reference::csr(a.view(), x, &mut y.view_mut()).unwrap();
        bits(&y)
    }
}

fn bits(values: &MultiVector<f64>) -> Vec<u64> {
    values.data().iter().map(|value| value.to_bits()).collect()
}

fn blocks(plan: &Plan) -> usize {
    plan.devices.iter().map(|device| device.x_blocks.len()).max().unwrap_or(0)
}

/// The same plan with X in one piece.
fn in_one_piece(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.devices.iter_mut().for_each(|device| device.x_blocks.clear());
    plan.chunks.iter_mut().for_each(|chunk| chunk.x_rows = None);
    plan
}

/// A band of width 3 in which most rows have no nonzeros.
fn band_with_empty_rows() -> Csr<f64> {
    let rows = 600u32;
    let (mut pointers, mut columns) = (vec![0u64], Vec::new());
    for row in 0..rows {
        if row % 100 < 30 {
            columns.extend(row.saturating_sub(1)..(row + 2).min(rows));
        }
        pointers.push(columns.len() as u64);
    }
    let values: Vec<f64> = (0..columns.len()).map(|at| 0.5 + at as f64).collect();
    Csr::try_new(rows as usize, rows as usize, pointers, columns, values).unwrap()
}

#[test]
fn blocks_give_the_same_bits_as_one_piece() {
    let pool = pool();
    let named = ["stencil5,n=24", "arrow,rows=700", "band,rows=500,width=7", "diagonal,rows=400"];
    let mut matrices: Vec<Csr<f64>> = named.iter().map(|spec| matrix(spec)).collect();
    matrices.push(band_with_empty_rows());
    let mut in_blocks = 0;
    for (number, a) in matrices.iter().enumerate() {
        for devices in ["emu:0", "cpu,emu:0", "emu:0?delay_seed=3,emu:1"] {
            for mode in [Mode::Resident, Mode::Oneshot, Mode::Stream] {
                for (register, k, leading_dimension) in
                    [(false, 5, 5), (false, 3, 8), (true, 4, 4), (true, 8, 11)]
                {
                    let case = Case { devices, mode, register, k, leading_dimension };
                    let plan = make(&case.request(a)).unwrap();
                    let what =
                        format!("matrix {number} on {devices}, {mode:?}, registered {register}, k = {k}");
                    let is_gathered = |device: &DevicePlan| matches!(device.x, XPlan::Gather { .. });
                    let registers =
                        plan.devices.iter().any(|device| device.registered.x || is_gathered(device));
                    assert!(registers || !register, "{what}");
                    in_blocks += usize::from(blocks(&plan) > 1);
                    let want = case.expected(a);
                    let (one_piece, _) = case.compute(&pool, a, in_one_piece(&plan));
                    assert!(one_piece == want, "{what}, in one piece");
                    let (y, faults) = case.compute(&pool, a, plan);
                    assert!(y == want && faults.is_empty(), "{what}, in blocks");
                }
            }
        }
    }
    assert!(in_blocks > 100, "X was in blocks in only {in_blocks} of 180 cases");
}

#[test]
fn rows_without_nonzeros_wait_for_no_block() {
    let pool = pool();
    let a = matrix("empty,rows=50");
    let case = Case { devices: "emu:0", mode: Mode::Resident, register: false, k: 3, leading_dimension: 3 };
    let plan = make(&case.request(&a)).unwrap();
    assert_eq!(case.compute(&pool, &a, plan).0, case.expected(&a));
}

#[test]
fn a_device_lost_between_two_blocks_is_survived() {
    let pool = pool();
    let a = matrix("stencil5,n=24");
    for (others, register, k) in
        [("cpu", false, 3), ("cpu", true, 4), ("emu:1", false, 3), ("emu:1", true, 4)]
    {
        for mode in [Mode::Resident, Mode::Oneshot] {
            let plain = Case { devices: "", mode, register, k, leading_dimension: k };
            let want = plain.expected(&a);
            let mut recovered = 0;
            for operation in 1..40 {
                let lost = format!("emu:0?lost_at_operation={operation}");
                let devices =
                    if others == "cpu" { format!("cpu,{lost}") } else { format!("{lost},{others}") };
                let case = Case { devices: &devices, mode, register, k, leading_dimension: k };
                let plan = make(&case.request(&a)).unwrap();
                assert!(blocks(&plan) > 1, "{:?}", plan.reasons);
                if others == "emu:1" && mode == Mode::Resident {
                    // A device with resident chunks keeps its part of X and takes over no others.
                    continue;
                }
                let (y, faults) = case.compute(&pool, &a, plan);
                assert!(y == want, "{devices}, {mode:?}, registered {register}");
                recovered += faults.len();
            }
            assert!(recovered > 20 || (others == "emu:1" && mode == Mode::Resident), "{recovered} faults");
        }
    }
}

#[test]
fn a_saved_plan_whose_chunk_waits_for_too_few_rows_is_refused() {
    let a = matrix("stencil5,n=24");
    let case = Case { devices: "emu:0", mode: Mode::Resident, register: false, k: 4, leading_dimension: 4 };
    let mut plan = make(&case.request(&a)).unwrap();
    let rows = plan.chunks[5].x_rows.unwrap();
    plan.chunks[5].x_rows = Some(XRows { end: rows.end - 1, ..rows });
    let refused = case.product(&pool(), &a, plan).unwrap().prepare().err().unwrap();
    assert_eq!(refused.exit_code(), 3);
    assert!(refused.to_string().contains("chunk 5"), "{refused}");
}

#[test]
fn traces_name_the_blocks_of_x() {
    let plan = h200(&matrix("stencil27,n=40"), 32, Mode::Resident);
    let simulated = Simulated::new(&plan).unwrap();
    let descriptions = simulated.descriptions();
    let mut trace = rowloom::internal::trace::Trace::default();
    let timeline = rowloom::internal::runtime::Timeline::new(&mut trace, &plan, &descriptions);
    timeline.add_run(&mut trace, &simulated.run().unwrap(), 0);
    for block in 0..plan.devices[1].x_blocks.len() {
        let name = format!("upload X {block}");
        assert!(trace.spans().iter().any(|span| span.name == name), "{name}");
    }
}
