//! The reasons of a plan in words. Every number in a reason is a number of the plan, or one computed by the same functions.

use super::data::{Mode, Plan};
use super::packing::packs;
use super::predict::Finish;
use super::set_up::{forms, registered_bytes};
use crate::error::{Bytes, Counted, Seconds};
use crate::work::{ChunkRows, Combine, XPlan};

/// Finish times further apart than this share of the longest are not called balanced without a reason.
const BALANCED_WITHIN: f64 = 0.05;

/// A CPU whose memory takes this share of a product's time is limited by it.
const MEMORY_BOUND: f64 = 0.9;

/// What limits the time of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The limit, as the object of a sentence.
    pub what: String,
    /// What would shorten the product.
    pub help: &'static str,
}

/// A few names in full; of many the number, the first and the last.
pub(super) fn list(names: &[&str]) -> String {
    const IN_FULL: usize = 2;
    match names {
        [first, .., last] if names.len() > IN_FULL => {
            format!("{} devices ({first} to {last})", names.len())
        }
        few => few.join(" and "),
    }
}

impl Plan {
    /// The set-up time in words: parts that add up to [`super::SetUp::total_s`].
    #[doc(hidden)]
    pub fn set_up_reason(&self) -> String {
        let gpus: Vec<usize> =
            (0..self.devices.len()).filter(|&index| self.devices[index].profile.link.is_some()).collect();
        let kernels = gpus.iter().map(|&index| forms(self, index).len()).max().unwrap_or(0);
        // Lists of long rows are made in the same step.
        let register = match gpus.iter().map(|&index| registered_bytes(self, index)).sum::<u64>() {
            0 => "list the long rows of A".into(),
            bytes if packs(self) => format!("pack and register {}", Bytes(bytes)),
            bytes => format!("register {}", Bytes(bytes)),
        };
        let resident = gpus.iter().map(|&index| self.devices[index].slots.resident_bytes);
        let parts = [
            (self.set_up.open_s, format!("open {}", self.opened(gpus.len()))),
            (self.set_up.load_kernels_s, format!("load {}", Counted(kernels as u64, "kernel"))),
            (self.set_up.register_s, register),
            (self.set_up.bring_a_s, format!("copy A ({}) to the devices", Bytes(resident.sum()))),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(seconds, _)| *seconds > 0.0)
            .map(|(seconds, what)| format!("{what} {}", Seconds(*seconds)))
            .collect();
        match &parts[..] {
            [] => "nothing to open, register or copy".into(),
            parts => parts.join(" + "),
        }
    }

    /// The devices that are opened one after the other, and how many hosts do that at the same time.
    fn opened(&self, devices: usize) -> String {
        match &self.cluster {
            Some(cluster) if cluster.nodes > 1 => {
                let of_node = Counted(u64::from(cluster.gpus_per_node.max(1)), "device");
                format!("{of_node} on each of {} nodes", cluster.nodes)
            }
            _ => Counted(devices as u64, "device").to_string(),
        }
    }

    /// What limits the time of a product on the devices of one machine, and what would shorten it; `None` without rows.
    #[doc(hidden)]
    pub fn limit(&self) -> Option<Limit> {
        let last = self.last_to_finish()?;
        let (device, finish) = (&self.devices[last], self.finish(last));
        let memory_s = self.memory_bytes(&self.host) as f64 / (self.host.memory_gb_per_s * 1e9);
        let is_cpu = device.profile.link.is_none();
        let waits = self.predicted_s > finish.total_s() * (1.0 + 1e-9);
        if waits || is_cpu && memory_s >= MEMORY_BOUND * self.predicted_s {
            let what = format!("the memory of the host ({:.0} GB/s)", self.host.memory_gb_per_s);
            return Some(Limit { what, help: "faster memory" });
        }
        if is_cpu {
            let what = format!("the kernel on {}", device.name);
            return Some(Limit { what, help: "more or faster cores" });
        }
        let parts = [
            (finish.chunks_s, finish.longest),
            (finish.x_s, "copying X"),
            (finish.ends_s, "filling and draining the pipeline"),
        ];
        let longest = parts.into_iter().reduce(|best, part| if part.0 > best.0 { part } else { best });
        let (_, step) = longest?;
        let help = match step {
            "the kernel" => "a faster GPU",
            step if step.ends_with("on the host") => "faster memory of the host",
            step if step.starts_with("filling") => "lower latency of copies and launches",
            _ => "faster copies to and from the GPU",
        };
        Some(Limit {
            what: format!("{step} on {}", device.name).replace("on the host on", "on the host for"),
            help,
        })
    }

    /// The seconds that a first run on a machine adds to the set-up, where it has to compile kernels.
    #[doc(hidden)]
    pub fn first_compile_s(&self) -> f64 {
        let used = self.devices.iter().filter(|device| device.chunks > 0);
        used.map(|device| device.profile.first_compile_s).fold(0.0, f64::max)
    }

    /// The time of a product in words: parts that add up to `predicted_s`.
    #[doc(hidden)]
    pub fn product_reason(&self) -> String {
        let Some(last) = self.last_to_finish() else { return "since there are no rows".into() };
        let (device, Finish { x_s, chunks_s, longest, ends_s }) = (&self.devices[last], self.finish(last));
        let finish_s = x_s + chunks_s + ends_s;
        if self.predicted_s > finish_s * (1.0 + 1e-9) {
            return format!(
                "limited by the host's memory: {} at {:.0} GB/s; {} finishes after {}",
                Bytes(self.memory_bytes(&self.host)),
                self.host.memory_gb_per_s,
                device.name,
                Seconds(finish_s)
            );
        }
        let chunks = Counted(device.chunks, "chunk");
        let place = match self.devices.iter().filter(|device| device.chunks > 0).count() {
            1 => format!("on {}", device.name),
            _ => format!("on the slowest device, {}", device.name),
        };
        if device.profile.link.is_none() {
            return format!("{place}: {chunks}");
        }
        let copy_x = match (device.x, device.x_blocks.len()) {
            (XPlan::Nothing, _) => String::new(),
            (_, 0) => format!("copy X {} + ", Seconds(x_s)),
            (_, blocks) => format!("X in {blocks} blocks with "),
        };
        format!(
            "{place}: {copy_x}{chunks} {} ({longest} is the slowest step) + pipeline fill and drain {}",
            Seconds(chunks_s),
            Seconds(ends_s)
        )
    }

    /// The index of the device that is predicted to finish last; `None` where no device has a chunk.
    pub(super) fn last_to_finish(&self) -> Option<usize> {
        let busy = (0..self.devices.len()).filter(|&index| self.devices[index].chunks > 0);
        busy.max_by(|&a, &b| self.devices[a].predicted_s.total_cmp(&self.devices[b].predicted_s))
    }

    /// The clause that a balance needs where finish times differ; `cause` is its reason.
    pub(super) fn imbalance(&self, cause: &str) -> Option<String> {
        let busy = || self.devices.iter().filter(|device| device.chunks > 0).map(|device| device.predicted_s);
        let (first, last) = (busy().fold(f64::INFINITY, f64::min), busy().fold(0.0, f64::max));
        (busy().count() > 1 && first < (1.0 - BALANCED_WITHIN) * last).then(|| {
            format!("; predicted finish times differ ({} to {}): {cause}", Seconds(first), Seconds(last))
        })
    }
}

/// Writes the reason of every chunk and device.
pub(super) fn describe(plan: &mut Plan) {
    let names: Vec<String> = plan.devices.iter().map(|device| device.name.clone()).collect();
    let name = |device: u32| names.get(device as usize).map_or("", String::as_str);
    let computing = plan.computing().count();
    let (alone, rows, chunks) = (computing == 1, plan.matrix.rows, plan.chunks.len());
    let concatenates = plan.output.combine == Combine::Concatenate;
    for chunk in &mut plan.chunks {
        let place = match chunk.rows {
            ChunkRows::Segments { row, .. } if concatenates => {
                format!("part of row {row}, which is larger than a chunk")
            }
            _ if alone => format!("{} is the only device", name(chunk.home)),
            _ => format!("in the share of {}", name(chunk.home)),
        };
        let others: Vec<&str> = chunk.also.iter().map(|&device| name(device)).collect();
        let unassigned = if others.is_empty() {
            String::new()
        } else {
            format!("; unassigned: {} may take it", others.join(", "))
        };
        chunk.reason = format!("{place}{unassigned}");
    }
    let gpus = || plan.devices.iter().filter(|device| device.profile.link.is_some() && device.chunks > 0);
    let stages_a = gpus().any(|device| !device.registered.a && plan.mode != Mode::Resident);
    let on_host = match (stages_a, gpus().any(|device| !device.registered.y)) {
        (true, true) => "copies A to page-locked memory and merges Y",
        (true, false) => "copies A to page-locked memory",
        (false, true) => "merges Y",
        (false, false) => "computes nothing",
    };
    for device in &mut plan.devices {
        device.reason = match (device.computes, device.chunks) {
            (false, _) => format!("{on_host}; computes no rows"),
            (true, 0) if rows == 0 => "no share: there are no rows".into(),
            // A sum over all rows has one row, and few chunks because few devices help.
            (true, 0) if !concatenates => "no share: the other devices finish before it could help".into(),
            (true, 0) if rows < computing as u64 => "no share: there are fewer rows than devices".into(),
            (true, 0) if chunks < computing => "no share: there are fewer chunks than devices".into(),
            (true, 0) => "no share: the other devices finish before it could help".into(),
            (true, 1) if alone => "all rows in one chunk: it is the only device".into(),
            (true, _) if alone => "all rows: it is the only device".into(),
            (true, _) => "its share of the balance".into(),
        };
    }
}

/// Why A is resident, copied once or streamed. `repeat` is the number of products, `requested` whether `--mode` was given.
pub(super) fn mode_reason(mode: Mode, repeat: u64, requested: bool, gpus: usize) -> String {
    let why = match mode {
        _ if gpus == 0 => "A stays in the host's memory, where the CPU computes".to_string(),
        _ if requested => "as requested".into(),
        Mode::Resident => {
            format!(
                "A, X and Y fit in device memory, and A is copied once for {}",
                Counted(repeat, "product")
            )
        }
        Mode::Stream => "A does not fit in device memory at once".into(),
        Mode::Oneshot if repeat > 1 => {
            let products = Counted(repeat, "product");
            format!("copying A with each of {products} is predicted faster than keeping A on the devices")
        }
        Mode::Oneshot => "A fits in device memory, and 1 product is requested".into(),
    };
    format!("mode: {}: {why}", mode.name())
}

#[cfg(test)]
mod tests {
    use super::super::make::make;
    use super::super::request::PlanRequest;
    use super::super::tests::{matrix, request};
    use super::*;
    use crate::work::Work;

    fn plan(spec: &str, chunks: Option<usize>, words: &[&str]) -> Plan {
        let matrix = matrix(spec);
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        make(&PlanRequest { chunks, mode: Some(Mode::Oneshot), ..request(work, words) }).unwrap()
    }

    #[test]
    fn the_time_of_a_product_names_the_device_that_finishes_last() {
        assert_eq!(plan("empty,rows=0", None, &["cpu"]).product_reason(), "since there are no rows");
        assert_eq!(plan("stencil5,n=20", None, &["cpu"]).product_reason(), "on cpu: 1 chunk");
        let mut shared = plan("stencil5,n=20", Some(8), &["cpu", "emu"]);
        (shared.devices[0].predicted_s, shared.devices[1].predicted_s) = (2.0, 1.0);
        shared.predicted_s = 0.0;
        let chunks = Counted(shared.devices[0].chunks, "chunk");
        assert_eq!(shared.product_reason(), format!("on the slowest device, cpu: {chunks}"));
    }

    #[test]
    fn a_product_that_waits_for_the_hosts_memory_says_its_bytes_and_bandwidth() {
        let mut plan = plan("diagonal,rows=16384", Some(4), &["emu"]);
        let a_bytes: u64 = plan.chunks.iter().map(|chunk| chunk.staged_bytes).sum();
        plan.devices[1].registered = Default::default();
        (plan.host.memory_gb_per_s, plan.predicted_s) = (7.0, 1e3);
        let Finish { x_s, chunks_s, ends_s, .. } = plan.finish(1);
        let (bytes, finish) = (Bytes(3 * (a_bytes + 2 * 16384 * 64)), Seconds(x_s + chunks_s + ends_s));
        assert_eq!(
            plan.product_reason(),
            format!("limited by the host's memory: {bytes} at 7 GB/s; emu:0/0 finishes after {finish}")
        );
    }

    #[test]
    fn the_limit_of_a_product_is_its_longest_part_or_the_hosts_memory() {
        let what = |plan: &Plan| plan.limit().map(|limit| limit.what);
        assert_eq!(what(&plan("empty,rows=0", None, &["cpu"])), None);
        let mut cpu = plan("stencil5,n=20", None, &["cpu"]);
        let Finish { x_s, chunks_s, ends_s, .. } = cpu.finish(0);
        cpu.predicted_s = x_s + chunks_s + ends_s;
        cpu.host.memory_gb_per_s = 1e9;
        assert_eq!(what(&cpu), Some("the kernel on cpu".into()));
        cpu.host.memory_gb_per_s = 1e-3;
        assert_eq!(what(&cpu), Some("the memory of the host (0 GB/s)".into()));
        let mut gpu = plan("diagonal,rows=16384", Some(4), &["emu"]);
        gpu.predicted_s = 0.0;
        let said = what(&gpu).unwrap();
        assert!(said.ends_with(" emu:0/0"), "{said}");
        gpu.predicted_s = 1e3;
        assert!(what(&gpu).unwrap().starts_with("the memory of the host"));
    }

    #[test]
    fn nodes_of_a_cluster_open_their_devices_at_the_same_time_and_register_nothing() {
        use super::super::set_up::set_up;
        use crate::cost::{Network, SimulatedCluster};
        let mut plan = plan("stencil5,n=20", Some(8), &["h200x4"]);
        let one = set_up(&plan);
        let (host, network) = (plan.host.clone(), Network::named("ndr400").unwrap());
        plan.cluster = Some(SimulatedCluster { nodes: 2, gpus_per_node: 2, host, network });
        plan.set_up = set_up(&plan);
        let driver_s = plan.devices[1].profile.driver_start_s;
        assert!((2.0 * (plan.set_up.open_s - driver_s) - (one.open_s - driver_s)).abs() < 1e-9);
        assert_eq!(plan.set_up.register_s, 0.0);
        assert!(plan.set_up_reason().starts_with("open 2 devices on each of 2 nodes "));
    }

    #[test]
    fn finish_times_that_differ_by_more_than_a_twentieth_need_a_reason() {
        let mut plan = plan("stencil5,n=20", Some(8), &["cpu", "emu"]);
        let mut of = |first_s: f64, last_s: f64| {
            (plan.devices[0].predicted_s, plan.devices[1].predicted_s) = (first_s, last_s);
            plan.imbalance("a reason")
        };
        assert_eq!(of(2.0, 1.0), Some("; predicted finish times differ (1.00 s to 2.00 s): a reason".into()));
        assert_eq!(
            of(0.94, 1.0),
            Some("; predicted finish times differ (940 ms to 1.00 s): a reason".into())
        );
        assert_eq!(of(0.96, 1.0), None);
        assert_eq!(of(1.0, 1.0), None);
    }

    #[test]
    fn a_device_without_a_share_says_whether_rows_or_chunks_are_too_few() {
        let reasons = |spec: &str, chunks| {
            let plan = plan(spec, chunks, &["cpu", "emu", "emu"]);
            let unused = plan.devices.iter().filter(|device| device.chunks == 0);
            let mut reasons: Vec<String> = unused.map(|device| device.reason.clone()).collect();
            reasons.dedup();
            reasons
        };
        assert_eq!(reasons("diagonal,rows=3", Some(2)), ["no share: there are fewer chunks than devices"]);
        assert_eq!(reasons("diagonal,rows=2", None), ["no share: there are fewer rows than devices"]);
        assert!(reasons("diagonal,rows=3", None).is_empty());
    }
}
