//! A candidate plan for a set of devices and a mode: shares, spans, and the assembled plan with its reasons.

use std::cell::RefCell;
use std::sync::OnceLock;

use super::choice::ChunkKernels;
use super::data::{Chunk, DevicePlan, Mode, PLAN_VERSION, Plan, Registered, SetUp, XPlan};
use super::device_part::{DeviceChunks, DevicePart, KnownChunks};
use super::explain::{describe, mode_reason};
use super::linear_times::Samples;
use super::memory::budget;
use super::request::{DeviceSpec, PlanRequest};
use super::resident::Adopted;
use super::shares::Balance;
use super::tail::{split_rows, unassign_tail};
use super::transfer::{self, Traffic, TransferChoice};
use crate::cost::{Candidate, Form, HostRates, Profile};
use crate::error::{Advice, Error, Reason, Result};
use crate::kernel::cuda::Layout;
use crate::work::{ChunkRows, Combine, Facts, Fingerprint, Forms, Position, PositionRange, Size};

/// A row is split between devices only if it costs more than the whole product divided by this.
const SPLIT_ROW_DIVISOR: u128 = 200;

/// The rows are divided again, at most so often, where the first device is predicted to finish before this part of the time of the last.
const REBALANCED_TIMES: usize = 2;
const REBALANCED_BELOW: f64 = 0.85;
/// A division is kept if its product takes at most this part of the time of the one before.
const REBALANCED_GAIN: f64 = 0.99;

/// The division of the rows between the devices.
pub(super) struct Division<'a> {
    pub devices: &'a [Option<DeviceSpec>],
    pub shares: &'a [f64],
    pub spans: &'a [PositionRange],
    /// The chunks that were made of it so far.
    pub known_chunks: RefCell<Vec<KnownChunks>>,
}

/// The devices, the CPU first.
fn in_order(devices: &[DeviceSpec]) -> impl Iterator<Item = &DeviceSpec> {
    let of_kind =
        |with_link: bool| devices.iter().filter(move |device| device.profile.link.is_some() == with_link);
    of_kind(false).chain(of_kind(true))
}

/// The devices with the host first; the host computes only if it is among them.
pub(super) fn ordered(devices: &[DeviceSpec]) -> Vec<Option<DeviceSpec>> {
    let has_cpu = devices.iter().any(|device| device.profile.link.is_none());
    let host = (!has_cpu).then_some(None);
    host.into_iter().chain(in_order(devices).cloned().map(Some)).collect()
}

/// The rows divided among the devices, with the plan of that.
struct Divided {
    assembled: Assembled,
    /// The reason of how operands are copied.
    transfer: Option<String>,
    balance: Option<Balance>,
    shares: Vec<f64>,
    spans: Vec<PositionRange>,
    known_chunks: RefCell<Vec<KnownChunks>>,
    /// The factors that the times of the devices were balanced with.
    slower: Vec<f64>,
}

impl Divided {
    fn predicted_s(&self) -> f64 {
        self.assembled.plan.predicted_s
    }
}

/// A plan without reasons.
pub(super) struct Assembled {
    pub plan: Plan,
    /// Predicted seconds of the kernel of each chunk on its own device.
    pub kernel_s: Vec<f64>,
}

/// A candidate: the devices and the mode to plan for.
pub(super) struct Draft<'a> {
    pub request: &'a PlanRequest<'a>,
    /// The fingerprint of the matrix.
    pub fingerprint: &'a Fingerprint,
    pub forms: Forms,
    /// Rates of the host's CPU, where it is not among the devices.
    pub host_profile: &'a Profile,
    pub devices: &'a [DeviceSpec],
    pub mode: Mode,
    /// Samples of the rows, made once for all candidates.
    pub samples: &'a OnceLock<Samples>,
    /// The layouts of A that the GPUs have already and that it uses.
    pub adopted: Option<&'a Adopted<'a>>,
}

impl Draft<'_> {
    /// Makes the plan.
    pub fn plan(&self) -> Result<Plan> {
        let devices = self.ordered();
        let mut divided = self.divided(&devices, &vec![1.0; devices.len()])?;
        for _ in 0..REBALANCED_TIMES {
            let Some(slower) = self.finish_over_balance(&divided) else { break };
            match self.divided(&devices, &slower) {
                Ok(again) if again.predicted_s() < REBALANCED_GAIN * divided.predicted_s() => divided = again,
                _ => break,
            }
        }
        let Divided { assembled, transfer, balance, shares, spans, known_chunks, .. } = divided;
        let division = Division { devices: &devices, shares: &shares, spans: &spans, known_chunks };
        let plan = &assembled.plan;
        let repeat = self.request.repeat.max(1);
        let mut reasons = vec![mode_reason(plan.mode, repeat, self.request.mode.is_some(), self.gpus())];
        if let Some(Balance { words, cause }) = balance {
            // On a cluster the exchange, which no plan predicts, is a part of the finish times.
            let differ = plan.imbalance(cause).filter(|_| self.request.cluster.is_none());
            reasons.push(format!("{words}{}", differ.unwrap_or_default()));
        }
        reasons.extend(transfer);
        let (mut plan, blocks) = self.in_blocks(assembled, &division)?;
        reasons.extend(blocks);
        unassign_tail(&mut plan, &mut reasons);
        describe(&mut plan);
        if let Some(adopted) = self.adopted {
            reasons.push(adopted.reason());
            plan.set_up.bring_a_s = 0.0;
        }
        plan.reasons = reasons;
        Ok(plan)
    }

    /// For each device of a division, how much longer than in the balance it was taken to need for its part; none where the devices finish
    /// together, or where nothing else decides their parts. The rows of a part may cost more or less than the samples of all rows tell.
    fn finish_over_balance(&self, divided: &Divided) -> Option<Vec<f64>> {
        let is_free =
            self.adopted.is_none() && self.request.cpu_share.is_none() && self.request.cluster.is_none();
        let devices = &divided.assembled.plan.devices;
        let busy = || devices.iter().filter(|device| device.chunks > 0).map(|device| device.predicted_s);
        let (first, last) = (busy().fold(f64::INFINITY, f64::min), busy().fold(0.0, f64::max));
        if !is_free || busy().count() < 2 || first >= REBALANCED_BELOW * last {
            return None;
        }
        // With all parts changed by the same factor the shares are the same, so that only ratios count.
        let slower = devices.iter().zip(&divided.slower).map(|(device, slower)| match device.chunks {
            0 => *slower,
            _ => slower * device.predicted_s / last,
        });
        Some(slower.collect())
    }

    /// The rows divided among the devices, and the plan of that.
    fn divided(&self, devices: &[Option<DeviceSpec>], slower: &[f64]) -> Result<Divided> {
        let (shares, spans, balance) = match self.adopted {
            Some(adopted) => (adopted.shares(&self.request.work), adopted.spans(), None),
            None => {
                let (shares, balance) = self.shares(devices, slower)?;
                let spans = self.spans(devices, &shares);
                (shares, spans, balance)
            }
        };
        let always = self.request.always_register;
        let proposed =
            |a_unchanged| transfer::proposed(&self.transfers(devices, &shares, a_unchanged), always);
        let known_chunks = RefCell::default();
        let division = Division { devices, shares: &shares, spans: &spans, known_chunks };
        let assembled = |registered: &[Registered]| self.assembled(&division, registered, false);
        let all_staged = vec![Registered::default(); devices.len()];
        // Layouts that are there are not copied.
        let registered = proposed(self.forms.read_a_unchanged() && self.adopted.is_none());
        let (assembled, transfer) = if registered == all_staged {
            (assembled(&all_staged)?, None)
        } else {
            let mut plan = assembled(&registered);
            if matches!(plan, Err(Error::DoesNotFit { .. })) && registered.iter().any(|device| device.a) {
                // A registered A has its own column numbers and needs all of X; a staged A is renumbered to a part of X.
                plan = assembled(&proposed(false));
            }
            if always {
                let plan = plan?;
                // Vectors that stay on the devices are not copied.
                let words = (!self.request.vectors_stay).then(|| transfer::requested(&plan.plan));
                (plan, words)
            } else {
                transfer::faster(assembled(&all_staged), plan)?
            }
        };
        let known_chunks = division.known_chunks;
        Ok(Divided { assembled, transfer, balance, shares, spans, known_chunks, slower: slower.to_vec() })
    }

    /// The plan that registers these operands, with its predicted times and without reasons. It has more chunks where X is to be
    /// copied in blocks.
    pub fn assembled(
        &self,
        division: &Division<'_>,
        registered: &[Registered],
        for_blocks: bool,
    ) -> Result<Assembled> {
        let (work, devices) = (&self.request.work, division.devices);
        let parts = self.parts(division, registered, for_blocks)?;
        let mut plan = Plan {
            version: PLAN_VERSION,
            matrix: self.fingerprint.clone(),
            output: work.output(),
            k: work.k() as u64,
            dtype: work.dtype(),
            mode: self.resolved_mode(devices, &parts),
            x_order: self.forms.x_order,
            host: self.request.host.clone(),
            cluster: self.request.cluster.clone(),
            devices: Vec::new(),
            chunks: Vec::new(),
            split_rows: Vec::new(),
            repeat: self.request.repeat.max(1),
            set_up: SetUp::default(),
            predicted_s: 0.0,
            reasons: Vec::new(),
        };
        for (index, (spec, part)) in devices.iter().zip(&parts).enumerate() {
            self.add(&mut plan, index as u32, spec, part);
        }
        plan.split_rows = split_rows(work, &plan.chunks);
        let kernels = parts.iter().flat_map(|part| &part.chunks.kernels);
        let kernel_s: Vec<f64> = kernels.map(|kernels| kernels.home_s).collect();
        plan.predict(&kernel_s);
        Ok(Assembled { plan, kernel_s })
    }

    /// The devices, the CPU first.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &DeviceSpec> {
        in_order(self.devices)
    }

    /// The devices with the host first; the host computes only if it was among them.
    fn ordered(&self) -> Vec<Option<DeviceSpec>> {
        ordered(self.devices)
    }

    fn gpus(&self) -> usize {
        self.devices.iter().filter(|device| device.profile.link.is_some()).count()
    }

    /// What a user can do if resident parts of A do not fit.
    pub fn resident_advice(&self) -> Reason {
        if self.request.cluster.is_some() {
            // The nodes' CPUs do not compute, and no other mode keeps X and Y on the devices.
            return vec![self.request.work.smaller_vectors()].into();
        }
        let other = match (self.gpus() < self.devices.len(), self.request.cpu_share) {
            (false, _) => Advice::AddCpu,
            (true, Some(_)) => Advice::AutomaticCpuShare,
            (true, None) => self.request.work.smaller_vectors(),
        };
        vec![Advice::StreamA, other].into()
    }

    /// The host's rates with the copy bandwidth divided among the GPUs.
    pub fn host_share(&self) -> HostRates {
        let host = &self.request.host;
        HostRates { copy_gb_per_s: host.copy_gb_per_s / self.gpus().max(1) as f64, ..host.clone() }
    }

    /// Bytes of A as the kernels of the draft read it: without values that none reads, or packed.
    pub fn a_bytes(&self) -> u64 {
        let work = &self.request.work;
        let is_packed = |candidate: &Candidate| candidate.form.layout() == Layout::Packed;
        if let Some(bytes) = work.sampled_packed_bytes().filter(|_| self.forms.gpu.iter().all(is_packed)) {
            return bytes.min(work.a_bytes());
        }
        let left_out = |form: &Form| form.left_out_bytes(self.fingerprint.entries, work.dtype());
        let forms = self.forms.gpu.iter().map(|candidate| &candidate.form);
        work.a_bytes().saturating_sub(forms.map(left_out).min().unwrap_or(0))
    }

    /// The traffic of a device with a share of the work.
    pub fn traffic(&self, share: f64, a_unchanged: bool) -> Traffic {
        let work = &self.request.work;
        let part = |bytes: u64| (bytes as f64 * share) as u64;
        Traffic {
            mode: self.mode,
            a_bytes: part(self.a_bytes()),
            x_bytes: work.x_bytes(),
            y_bytes: part(work.y_bytes()),
            a_unchanged,
            rows_unchanged: work.row_bytes() == work.pitch_bytes() && !self.request.vectors_change,
            stages_y: work.output().is_staged(),
            repeat: self.request.repeat,
        }
    }

    /// For each device the operands to register; A only where it is copied unchanged.
    fn transfers(
        &self,
        devices: &[Option<DeviceSpec>],
        shares: &[f64],
        a_unchanged: bool,
    ) -> Vec<TransferChoice> {
        let host = self.host_share();
        let staged = TransferChoice { chosen: Registered::default(), all: Registered::default() };
        let of_device = |(device, &share): (&Option<DeviceSpec>, &f64)| match device {
            Some(device) if share > 0.0 => {
                transfer::choose(&device.profile, &host, &self.traffic(share, a_unchanged))
            }
            _ => staged,
        };
        devices.iter().zip(shares).map(of_device).collect()
    }

    /// The first and last position of each device's part. Every named device gets at least one row while there are enough.
    fn spans(&self, devices: &[Option<DeviceSpec>], shares: &[f64]) -> Vec<PositionRange> {
        let work = &self.request.work;
        let all = work.all();
        let total = work.weight(all);
        let few_chunks = self.few_chunks();
        let grain = if self.request.vectors_stay { u128::MAX } else { total / SPLIT_ROW_DIVISOR };
        let must = |index: usize| {
            devices[index].as_ref().is_some_and(|device| {
                // `--cpu-share 0` leaves a row.
                let smallest = self.request.work.smallest_share(device.profile.processor);
                let may_be_left_out = few_chunks || self.request.cpu_share.is_none() && smallest == 0.0;
                device.required && (!may_be_left_out || shares[index] > 0.0)
            })
        };
        let mut spans = Vec::with_capacity(devices.len());
        let (mut begin, mut sum) = (all.begin, 0.0);
        for index in 0..devices.len() {
            sum += shares[index];
            let later = (index + 1..devices.len()).filter(|&later| must(later)).count();
            let is_last = !(index + 1..devices.len()).any(|later| must(later) || shares[later] > 0.0);
            let mut end = if is_last && sum > 0.5 {
                all.end
            } else {
                work.position_at((total as f64 * sum.min(1.0)) as u128, grain)
            };
            if must(index) && end <= begin {
                end = self.after(begin);
            }
            // Leaves a row or segment for each of the named devices that follow.
            let latest = self.leaving(later);
            end = end.min(latest).min(all.end).max(begin);
            spans.push(PositionRange { begin, end });
            begin = end;
        }
        spans
    }

    /// The end of the smallest part from a position on: a row, or a segment where all chunks compute partial sums of one row.
    fn after(&self, begin: Position) -> Position {
        match self.request.work.output().combine {
            Combine::Concatenate => Position::of_row(begin.row + 1),
            Combine::Add => Position { segment: begin.segment + 1, ..begin },
        }
    }

    /// The position that leaves so many of the smallest parts.
    fn leaving(&self, parts: usize) -> Position {
        let work = &self.request.work;
        match work.output().combine {
            Combine::Add if parts > 0 => {
                Position { row: 0, segment: work.row_segments(0).saturating_sub(parts) }
            }
            _ => Position::of_row(work.rows().saturating_sub(parts)),
        }
    }

    /// The mode of the plan: a copy with each product is a stream where A would not fit in device memory at once.
    fn resolved_mode(&self, devices: &[Option<DeviceSpec>], parts: &[DevicePart]) -> Mode {
        let fits = devices.iter().zip(parts).all(|(device, part)| match device {
            Some(device) if device.profile.link.is_some() => {
                let all: u64 =
                    part.chunks.pieces.iter().map(|piece| self.request.work.piece_bytes(piece)).sum();
                part.slots.x_bytes.saturating_add(all) <= budget(device)
            }
            _ => true,
        });
        match self.mode {
            Mode::Oneshot if self.request.mode.is_none() && !fits => Mode::Stream,
            mode => mode,
        }
    }

    /// Adds a device and its chunks to the plan.
    fn add(&self, plan: &mut Plan, index: u32, spec: &Option<DeviceSpec>, part: &DevicePart) {
        let DeviceChunks { pieces, features, kernels, footprints, .. } = &*part.chunks;
        for (((piece, features), kernels), footprint) in
            pieces.iter().zip(features).zip(kernels).zip(footprints)
        {
            let ChunkKernels { cpu, gpu, reason, .. } = kernels;
            plan.chunks.push(Chunk {
                rows: *piece,
                size: Size { entries: features.entries() },
                home: index,
                also: Vec::new(),
                cpu_kernel: cpu.kernel,
                gpu_kernel: gpu.kernel,
                gpu_variant: gpu.variant,
                staged_bytes: footprint.slot_bytes,
                scratch_bytes: footprint.scratch_bytes,
                features: *features,
                x_rows: None,
                reason: String::new(),
                kernel_reason: reason.clone(),
                predicted_s: 0.0,
            });
        }
        let rows = pieces.iter().map(|piece| match piece {
            ChunkRows::Rows { begin, end } => (end - begin) as u64,
            ChunkRows::Segments { .. } => 0,
        });
        let (name, profile, budget_bytes) = match spec {
            Some(spec) => (spec.name.clone(), spec.profile.clone(), budget(spec)),
            None => ("host".into(), self.host_profile.clone(), u64::MAX),
        };
        plan.devices.push(DevicePlan {
            name,
            computes: spec.is_some(),
            profile,
            memory_budget_bytes: budget_bytes,
            slots: part.slots,
            registered: part.registered,
            x: if spec.is_some() && !pieces.is_empty() { part.x.x } else { XPlan::Nothing },
            x_blocks: Vec::new(),
            x_reason: part.x.reason.clone(),
            rows: rows.sum(),
            size: Size { entries: features.iter().map(Facts::entries).sum() },
            chunks: pieces.len() as u64,
            predicted_s: 0.0,
            reason: String::new(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::with_draft;
    use super::super::tests::{matrix, request};
    use super::*;
    use crate::cost::Profile;
    use crate::work::Work;

    #[test]
    fn shares_follow_the_predicted_times_of_the_parts_where_samples_of_all_rows_mislead() {
        let matrix = matrix("stencil5,n=200");
        let mut request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["cpu", "emu"]);
        // As fast as the CPU, and a part of the rows fits in the cache of the CPU, but not all of them.
        let link = request.devices[1].profile.link.clone();
        request.devices[1].profile = Profile { link, ..request.devices[0].profile.clone() };
        request.devices[0].profile.cache_bytes = request.work.a_bytes();
        with_draft(&request, Mode::Resident, |draft| {
            let devices = draft.ordered();
            let first = draft.divided(&devices, &[1.0, 1.0]).unwrap();
            let plan = draft.plan().unwrap();
            let first_over_last = |plan: &Plan| {
                let finish = |index: usize| plan.devices[index].predicted_s;
                finish(0).min(finish(1)) / finish(0).max(finish(1))
            };
            assert!(first_over_last(&first.assembled.plan) < 0.6, "samples of all rows do not mislead");
            assert!(first_over_last(&plan) > 0.8, "{:?}", plan.devices);
            assert!(
                plan.predicted_s < 0.8 * first.predicted_s(),
                "{} {}",
                plan.predicted_s,
                first.predicted_s()
            );
        });
    }
}
