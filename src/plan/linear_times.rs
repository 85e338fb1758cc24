//! The time of each device as a linear function of its share of the work, for the balance.

use super::balance::Line;
use super::blocks::least_block_bytes;
use super::data::Mode;
use super::device_part::CHUNKS_PER_DEVICE;
use super::draft::Draft;
use super::memory::budget;
use super::predict::{Steps, memory_s, whole};
use super::request::DeviceSpec;
use super::set_up::x_s;
use super::transfer;
use crate::cost::Choice;
use crate::error::Result;
use crate::work::{ChunkRows, Facts, SharedBytes, Work};

/// Samples of the rows from which the speed of each device is predicted.
const SAMPLES: usize = 32;

/// Samples of the rows of A.
pub(super) struct Samples {
    pieces: Vec<ChunkRows>,
    features: Vec<Facts>,
}

impl Draft<'_> {
    /// The lines of all devices in their order.
    pub fn lines(&self, devices: &[Option<DeviceSpec>]) -> Result<Vec<Line>> {
        let samples = self.samples.get_or_init(|| Samples::of(&self.request.work));
        let line = |device: &DeviceSpec| match device.profile.link {
            None => self.host_line(device),
            Some(_) => self.gpu_line(device, samples),
        };
        devices.iter().flatten().map(line).collect()
    }

    fn gpu_line(&self, device: &DeviceSpec, samples: &Samples) -> Result<Line> {
        let work = &self.request.work;
        let (k, host, profile) = (work.k() as u64, self.host_share(), &device.profile);
        let sampled = || samples.pieces.iter().zip(&samples.features);
        let choices = sampled().map(|(piece, sample)| self.choice(profile, piece, sample));
        let choices = choices.collect::<Result<Vec<Choice>>>()?;
        // In the layout of the kernels, which may be larger than A itself.
        let staged = choices.iter().zip(sampled()).map(|(choice, (piece, sample))| {
            let footprint = work.footprint(piece, &choice.form, sample);
            footprint.map_or(0, |footprint| footprint.slot_bytes)
        });
        let a_bytes = staged.fold(0, u64::saturating_add).max(self.a_bytes());
        let traffic = self.traffic(1.0, self.forms.read_a_unchanged());
        let registered = transfer::choose(profile, &host, &traffic).chosen;
        let parts = samples.features.iter().zip(&choices);
        let parts = parts.map(|(sample, choice)| (*sample, choice.form, choice.predicted_s));
        let steps = whole(profile, &host, parts, k, work.dtype()).in_mode(self.mode);
        let steps = steps.with(registered);
        let starts_s = samples.pieces.len() as f64 * profile.launch_us * 1e-6;
        let x = if registered.a && self.mode != Mode::Resident {
            // The column numbers of a registered A refer to all of X.
            SharedBytes { fixed: work.x_bytes(), shared: 0 }
        } else {
            work.x_by_share(&samples.features, self.devices.len())
        };
        let share_bytes = x.shared as f64 / self.devices.len() as f64;
        let steps_s = if least_block_bytes(profile) < share_bytes / 2.0 {
            // Blocks of X are copied while earlier chunks are computed.
            let stage_s = if registered.x { 0.0 } else { host.copy_s(x.shared) };
            let upload_s = profile.upload_s(x.shared) - profile.upload_s(0);
            steps.plus(Steps { stage_s, upload_s, ..Steps::default() }).longest_s(profile)
        } else {
            let latency_s = x_s(profile, &host, 0, registered);
            steps.longest_s(profile) + x_s(profile, &host, x.shared, registered) - latency_s
        };
        let free = budget(device).saturating_sub(work.x_bytes());
        let most = if self.mode == Mode::Resident {
            // Leaves some memory for slots of Y and for padding.
            0.95 * free as f64 / (a_bytes + work.y_bytes() / CHUNKS_PER_DEVICE as u64) as f64
        } else {
            1.0
        };
        let fixed_s = x_s(profile, &host, x.fixed, registered);
        Ok(Line { fixed_s, whole_s: (steps_s - starts_s).max(0.0), most })
    }

    /// The CPU computes nearly all of its share in one chunk.
    fn host_line(&self, device: &DeviceSpec) -> Result<Line> {
        let work = &self.request.work;
        let all = ChunkRows::Rows { begin: 0, end: work.rows() };
        let features = work.all_facts();
        let choice = self.choice(&device.profile, &all, &features)?;
        let load = features.load(work.k() as u64, work.dtype());
        let memory_s = memory_s(&device.profile, &self.request.host, &choice.form, &load);
        let start_s = device.profile.launch_us * 1e-6;
        let whole_s = (choice.predicted_s - start_s).max(memory_s).max(0.0);
        Ok(Line { fixed_s: 0.0, whole_s, most: 1.0 })
    }
}

impl Samples {
    fn of(work: &Work<'_>) -> Self {
        let pieces = work.split(work.all(), SAMPLES);
        let features = work.facts(&pieces);
        Self { pieces, features }
    }
}
