//! One attempt at a plan: these devices, this mode. Shares, where each device's part lies, and the plan's description.

use super::balance::{Line, balance};
use super::data::{Chunk, DevicePlan, Mode, PLAN_VERSION, Plan, Registered, XPlan};
use super::kernels::{ChunkKernels, Forms};
use super::memory::budget;
use super::part::{CHUNKS_A_DEVICE, Part};
use super::predict::{memory_s, whole, x_s};
use super::request::{DeviceSpec, PlanRequest};
use super::tail::{describe, float_the_tail, predict, split_rows};
use super::transfer::{self, Traffic};
use crate::cost::{Choice, HostRates, Load, Profile};
use crate::error::{Error, Result};
use crate::work::features::features;
use crate::work::{ChunkRows, Features, Fingerprint, Position, PositionRange, position_at, split};

/// Parts that the whole job is looked at in, to see how fast each device would be.
const PROBES: usize = 32;
/// Share of the job that a device gets if it was asked for by name and would not help.
const LEAST_SHARE: f64 = 1.0 / 64.0;
/// A row lighter than this share of the job is not cut between devices.
const GRAIN: u128 = 200;

/// One attempt: these devices, this mode.
pub(super) struct Draft<'a> {
    pub request: &'a PlanRequest<'a>,
    /// What tells the matrix from others.
    pub fingerprint: &'a Fingerprint,
    pub forms: Forms,
    /// Rates of the host, where it is not among the devices.
    pub host_profile: &'a Profile,
    pub devices: &'a [DeviceSpec],
    pub mode: Mode,
}

impl Draft<'_> {
    /// The plan, or why there is none.
    pub fn plan(&self) -> Result<Plan> {
        let work = &self.request.work;
        let mut reasons = Vec::new();
        let devices = self.ordered();
        let shares = self.shares(&devices, &mut reasons)?;
        let spans = self.spans(&devices, &shares);
        let (mut registered, mut why) = self.registered(&devices, &shares, self.forms.read_a_as_it_lies());
        let mut parts = self.parts(&devices, &shares, &spans, &registered);
        if matches!(parts, Err(Error::DoesNotFit { .. })) && registered.iter().any(|crosses| crosses.a) {
            // A that crosses as it lies names any row of X; copied, it names those that its device is sent.
            (registered, why) = self.registered(&devices, &shares, false);
            parts = self.parts(&devices, &shares, &spans, &registered);
        }
        let parts = parts?;
        reasons.extend(why);
        let mode = self.resolved_mode(&devices, &parts, &mut reasons);
        let mut plan = Plan {
            version: PLAN_VERSION,
            matrix: self.fingerprint.clone(),
            k: work.k() as u64,
            dtype: work.dtype(),
            mode,
            x_order: self.forms.x_order(),
            host: self.request.host.clone(),
            devices: Vec::new(),
            chunks: Vec::new(),
            split_rows: Vec::new(),
            predicted_s: 0.0,
            reasons: Vec::new(),
        };
        for (index, (spec, part)) in devices.iter().zip(&parts).enumerate() {
            self.add(&mut plan, index as u32, spec, part)?;
        }
        plan.split_rows = split_rows(work, &plan.chunks);
        predict(&mut plan);
        float_the_tail(&mut plan, &mut reasons);
        describe(&mut plan);
        plan.reasons = reasons;
        Ok(plan)
    }

    /// The devices, the CPU first.
    fn in_order(&self) -> impl Iterator<Item = &DeviceSpec> {
        let of_kind = |with_link: bool| {
            self.devices.iter().filter(move |device| device.profile.link.is_some() == with_link)
        };
        of_kind(false).chain(of_kind(true))
    }

    /// The devices with the host first; the host computes only if it was among them.
    fn ordered(&self) -> Vec<Option<DeviceSpec>> {
        let has_cpu = self.devices.iter().any(|device| device.profile.link.is_none());
        let host = (!has_cpu).then_some(None);
        host.into_iter().chain(self.in_order().cloned().map(Some)).collect()
    }

    fn gpus(&self) -> usize {
        self.devices.iter().filter(|device| device.profile.link.is_some()).count()
    }

    /// The host's rates as one of several GPUs sees them.
    fn host_share(&self) -> HostRates {
        let host = &self.request.host;
        HostRates { copy_gb_per_s: host.copy_gb_per_s / self.gpus().max(1) as f64, ..host.clone() }
    }

    /// The share of the job that each device gets.
    fn shares(&self, devices: &[Option<DeviceSpec>], reasons: &mut Vec<String>) -> Result<Vec<f64>> {
        let work = &self.request.work;
        let computing: Vec<usize> = (0..devices.len()).filter(|&index| devices[index].is_some()).collect();
        let mut shares = vec![0.0; devices.len()];
        if let [only] = computing[..] {
            shares[only] = 1.0;
            return Ok(shares);
        }
        let pieces = split(work, PositionRange::all(work), PROBES);
        let probes = features(work, &pieces);
        let (k, host) = (work.k() as u64, self.host_share());
        let as_it_lies = self.forms.read_a_as_it_lies();
        let line = |device: &DeviceSpec| {
            if device.profile.link.is_none() {
                return self.host_line(device);
            }
            let choices = pieces.iter().zip(&probes);
            let choices = choices.map(|(piece, probe)| self.choice(&device.profile, piece, probe));
            let choices = choices.collect::<Result<Vec<Choice>>>()?;
            // As the kernels have it, which may be more than A itself.
            let staged = choices.iter().zip(pieces.iter().zip(&probes)).map(|(choice, (piece, probe))| {
                let form = &choice.form;
                let footprint = work.footprint(piece, form.layout(), &form.variant, probe.max);
                footprint.map_or(0, |footprint| footprint.slot_bytes)
            });
            let a_bytes = staged.fold(0, u64::saturating_add).max(work.a_bytes());
            let (registered, _) = transfer::choose(&device.profile, &host, &self.traffic(1.0, as_it_lies));
            let parts = probes.iter().zip(&choices);
            let parts = parts.map(|(probe, choice)| (*probe, choice.form, choice.predicted_s));
            let steps = whole(&device.profile, &host, parts, k, work.dtype()).in_mode(self.mode);
            let steps = steps.with(registered);
            let starts = probes.len() as f64 * device.profile.launch_us * 1e-6;
            let room = budget(device).saturating_sub(work.x_bytes());
            let most = if device.profile.link.is_some() && self.mode == Mode::Resident {
                // Slots of Y and the padding of slots take a little too.
                0.95 * room as f64 / (a_bytes + work.y_bytes() / CHUNKS_A_DEVICE as u64) as f64
            } else {
                1.0
            };
            Ok(Line {
                fixed_s: x_s(&device.profile, &host, work.x_bytes(), registered),
                whole_s: (steps.longest_s() - starts).max(0.0),
                most,
            })
        };
        let lines: Vec<Line> = devices.iter().flatten().map(line).collect::<Result<_>>()?;
        let Some((balanced, _)) = balance(&lines) else {
            return Err(Error::DoesNotFit {
                what: "A, X and Y on the devices".into(),
                needed_bytes: work.a_bytes().saturating_add(work.x_bytes()),
                limit_bytes: devices.iter().flatten().map(budget).sum(),
                advice: "take --mode stream, or add cpu to --devices".into(),
            });
        };
        let balanced = match self.request.cpu_share {
            Some(share) => self.as_asked(balanced, share)?,
            None => self.raised(balanced, &lines, reasons),
        };
        for (&index, share) in computing.iter().zip(balanced) {
            shares[index] = share;
        }
        let words: Vec<String> = computing
            .iter()
            .filter_map(|&index| {
                let device = devices[index].as_ref()?;
                Some(format!("{} {:.1}%", device.name, shares[index] * 100.0))
            })
            .collect();
        let why = match self.request.cpu_share {
            Some(_) => "shares, the CPU's as asked for",
            None => "shares with which all devices should be done together",
        };
        reasons.push(format!("{why}: {}", words.join(", ")));
        if let Some(limit) = self.request.chunks {
            keep_largest(&mut shares, limit);
        }
        Ok(shares)
    }

    /// What the CPU needs: it computes nearly all of its share in one go.
    fn host_line(&self, device: &DeviceSpec) -> Result<Line> {
        let work = &self.request.work;
        let all = ChunkRows::Rows { begin: 0, end: work.rows() };
        let features = Features::of(work, &all);
        let choice = self.choice(&device.profile, &all, &features)?;
        let load = Load::of(&features, work.k() as u64, work.dtype());
        let memory_s = memory_s(&device.profile, &self.request.host, &choice.form, &load);
        let start_s = device.profile.launch_us * 1e-6;
        let whole_s = (choice.predicted_s - start_s).max(memory_s).max(0.0);
        Ok(Line { fixed_s: 0.0, whole_s, most: 1.0 })
    }

    /// The CPU's share as asked for, and the rest as the others would share it out.
    fn as_asked(&self, balanced: Vec<f64>, cpu_share: f64) -> Result<Vec<f64>> {
        let is_cpu: Vec<bool> = self.in_order().map(|device| device.profile.link.is_none()).collect();
        if !is_cpu.contains(&true) || !(0.0..=1.0).contains(&cpu_share) {
            let message = "a share of the CPU is from 0 to 1, and cpu must be among the devices";
            return Err(Error::Usage(message.into()));
        }
        let others: f64 =
            balanced.iter().zip(&is_cpu).filter(|(_, cpu)| !**cpu).map(|(share, _)| share).sum();
        let even = 1.0 / is_cpu.iter().filter(|cpu| !**cpu).count().max(1) as f64;
        let share = |(balanced, cpu): (f64, &bool)| match (*cpu, others > 0.0) {
            (true, _) => cpu_share,
            (false, true) => (1.0 - cpu_share) * balanced / others,
            (false, false) => (1.0 - cpu_share) * even,
        };
        Ok(balanced.into_iter().zip(&is_cpu).map(share).collect())
    }

    /// What a device with that share of the job has to be sent and sends back.
    fn traffic(&self, share: f64, a_as_it_lies: bool) -> Traffic {
        let work = &self.request.work;
        let part = |bytes: u64| (bytes as f64 * share) as u64;
        Traffic {
            mode: self.mode,
            a_bytes: part(work.a_bytes()),
            x_bytes: work.x_bytes(),
            y_bytes: part(work.y_bytes()),
            a_as_it_lies,
            rows_as_they_lie: work.row_bytes() == work.pitch_bytes(),
            repeat: self.request.repeat,
        }
    }

    /// What crosses each device's link from where it lies, A only if it may, and why so.
    fn registered(
        &self,
        devices: &[Option<DeviceSpec>],
        shares: &[f64],
        as_it_lies: bool,
    ) -> (Vec<Registered>, Vec<String>) {
        let (host, mut reasons) = (self.host_share(), Vec::new());
        let of_device = |(device, &share): (&Option<DeviceSpec>, &f64)| {
            let Some(device) = device.as_ref().filter(|_| share > 0.0) else { return Registered::default() };
            let traffic = self.traffic(share, as_it_lies);
            let (registered, reason) = transfer::choose(&device.profile, &host, &traffic);
            reasons.extend(reason.map(|reason| format!("{}: {reason}", device.name)));
            registered
        };
        let registered = devices.iter().zip(shares).map(of_device).collect();
        (registered, reasons)
    }

    /// The shares with those of devices that were named brought up to a chunk's.
    fn raised(&self, mut shares: Vec<f64>, lines: &[Line], reasons: &mut Vec<String>) -> Vec<f64> {
        let chunk = self.request.chunks.map_or(LEAST_SHARE, |chunks| 1.0 / chunks.max(1) as f64);
        let devices: Vec<&DeviceSpec> = self.in_order().collect();
        let low: Vec<usize> = (0..shares.len())
            .filter(|&index| devices[index].required && shares[index] < chunk.min(lines[index].most))
            .collect();
        if low.is_empty() || self.few_chunks() {
            return shares;
        }
        for &index in &low {
            shares[index] = chunk.min(lines[index].most);
        }
        let names: Vec<&str> = low.iter().map(|&index| devices[index].name.as_str()).collect();
        reasons.push(format!(
            "{} would help little or not at all, but was asked for by name: {:.1}% each",
            names.join(", "),
            chunk * 100.0
        ));
        let taken: f64 = low.iter().map(|&index| shares[index]).sum();
        let others: f64 = shares.iter().sum::<f64>() - taken;
        let factor = if taken < 1.0 && others > 0.0 { (1.0 - taken) / others } else { 1.0 };
        for (index, share) in shares.iter_mut().enumerate() {
            *share *= if low.contains(&index) { 1.0 } else { factor };
        }
        let sum: f64 = shares.iter().sum();
        shares.iter().map(|share| share / sum).collect()
    }

    /// Whether there are too few chunks for every device to get one.
    fn few_chunks(&self) -> bool {
        self.request.chunks.is_some_and(|chunks| chunks < self.devices.len())
    }

    /// Where each device's part begins and ends. A device that was named gets at least a row while there are any.
    fn spans(&self, devices: &[Option<DeviceSpec>], shares: &[f64]) -> Vec<PositionRange> {
        let work = &self.request.work;
        let all = PositionRange::all(work);
        let total = all.cost(work);
        let few_chunks = self.few_chunks();
        let must = |index: usize| {
            let named = devices[index].as_ref().is_some_and(|device| device.required);
            named && (!few_chunks || shares[index] > 0.0)
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
                position_at(work, (total as f64 * sum.min(1.0)) as u128, total / GRAIN)
            };
            if must(index) && end <= begin {
                end = Position { row: begin.row + 1, segment: 0 };
            }
            // The devices after this one need their rows too.
            let latest = Position { row: work.rows().saturating_sub(later), segment: 0 };
            end = end.min(latest).min(all.end).max(begin);
            spans.push(PositionRange { begin, end });
            begin = end;
        }
        spans
    }

    /// A ring is called a stream where A would not fit at once; says why the mode is what it is.
    fn resolved_mode(
        &self,
        devices: &[Option<DeviceSpec>],
        parts: &[Part],
        reasons: &mut Vec<String>,
    ) -> Mode {
        let asked = self.request.mode.is_some();
        if self.gpus() == 0 {
            reasons.push("mode: A stays in the host's memory, where it is computed".into());
            return self.mode;
        }
        let repeat = self.request.repeat.max(1);
        let fits = devices.iter().zip(parts).all(|(device, part)| match device {
            Some(device) if device.profile.link.is_some() => {
                let all: u64 = part.pieces.iter().map(|piece| self.request.work.piece_bytes(piece)).sum();
                part.slots.x_bytes.saturating_add(all) <= budget(device)
            }
            _ => true,
        });
        let (mode, why) = match self.mode {
            _ if asked => (self.mode, "as asked for".to_string()),
            Mode::Resident => {
                (Mode::Resident, format!("A, X and Y fit, and A is used {repeat} times once it is there"))
            }
            _ if !fits => (Mode::Stream, "A does not fit on the devices at once".into()),
            _ if repeat > 1 => (Mode::Oneshot, "bringing A each time is predicted to be faster".into()),
            _ => (Mode::Oneshot, "A fits, and one product is all that is asked for".into()),
        };
        reasons.push(format!("mode: {}, {why}", mode.name()));
        mode
    }

    /// Adds a device and its chunks to the plan.
    fn add(&self, plan: &mut Plan, index: u32, spec: &Option<DeviceSpec>, part: &Part) -> Result<()> {
        let work = &self.request.work;
        for ((piece, features), kernels) in part.pieces.iter().zip(&part.features).zip(&part.kernels) {
            let ChunkKernels { cpu, gpu, reason } = kernels;
            let footprint = work.footprint(piece, gpu.layout(), &gpu.variant, features.max)?;
            plan.chunks.push(Chunk {
                rows: *piece,
                nnz: features.nnz,
                home: index,
                also: Vec::new(),
                cpu_kernel: cpu.kernel,
                gpu_kernel: gpu.kernel,
                gpu_variant: gpu.variant,
                staged_bytes: footprint.slot_bytes,
                scratch_bytes: footprint.scratch_bytes,
                features: *features,
                reason: reason.clone(),
                predicted_s: 0.0,
            });
        }
        let rows = part.pieces.iter().map(|piece| match piece {
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
            x: if spec.is_some() && !part.pieces.is_empty() { part.x.x } else { XPlan::Nothing },
            x_reason: part.x.reason.clone(),
            rows: rows.sum(),
            nnz: part.features.iter().map(|features| features.nnz).sum(),
            chunks: part.pieces.len() as u64,
            predicted_s: 0.0,
            reason: String::new(),
        });
        Ok(())
    }
}

/// Leaves a share to the `count` devices with the largest.
fn keep_largest(shares: &mut [f64], count: usize) {
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(a.cmp(&b)));
    for &index in order.iter().skip(count) {
        shares[index] = 0.0;
    }
    let sum: f64 = shares.iter().sum();
    if sum > 0.0 {
        shares.iter_mut().for_each(|share| *share /= sum);
    }
}
