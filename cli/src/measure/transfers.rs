//! Measures copies between the host's memory and a device's: kinds of host memory, directions and sizes.
//!
//! A time is what the host waits: from the call to the completion of the last copy, staging included. Registering memory is not part of a
//! copy and is timed once.

use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, unbounded};
use serde::Serialize;

use rowloom::internal::device::{
    Completion, Fault, FaultKind, HostMemory, LaneKind, MemoryRange, Operation, Pinned, PinnedRange, Reports,
};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::graph::{Demand, DeviceId};
use rowloom::internal::runtime::{BoxedDevice, Runtime};

/// How host memory takes part in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferKind {
    /// Pageable memory: the driver copies it through buffers of its own.
    Pageable,
    /// Pageable memory, copied by the host through two page-locked slots.
    Staged,
    /// Pageable memory that was page-locked in place before.
    Registered,
    /// Page-locked memory that the host writes past its caches.
    WriteCombined,
}

impl TransferKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Pageable, Self::Staged, Self::Registered, Self::WriteCombined];

    /// Its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pageable => "pageable",
            Self::Staged => "staged",
            Self::Registered => "registered",
            Self::WriteCombined => "write-combined",
        }
    }

    fn memory(self) -> HostMemory {
        match self {
            Self::Pageable | Self::Staged => HostMemory::Pageable,
            Self::Registered => HostMemory::Registered,
            Self::WriteCombined => HostMemory::WriteCombined,
        }
    }
}

/// The direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the device.
    Up,
    /// From the device.
    Down,
    /// A copy in each direction at the same time; the rate counts the bytes of both.
    Both,
}

impl Direction {
    /// All directions.
    pub const ALL: [Self; 3] = [Self::Up, Self::Down, Self::Both];

    /// Its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Both => "both",
        }
    }
}

/// A measured copy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TransferTime {
    /// The kind of host memory.
    pub kind: TransferKind,
    /// The direction.
    pub direction: Direction,
    /// Bytes of each copy.
    pub bytes: u64,
    /// Number of measured copies.
    pub repeats: u32,
    /// Median time of a copy.
    pub median_s: f64,
    /// Shortest time of a copy.
    pub shortest_s: f64,
    /// Bytes of all directions per median time.
    pub gb_per_s: f64,
}

/// Seconds of registering memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RegisterTime {
    /// Bytes.
    pub bytes: u64,
    /// Seconds of allocating and registering it.
    pub seconds: f64,
}

/// The smallest copy.
pub const SMALLEST_BYTES: u64 = 1 << 10;
/// The largest copy that is measured if memory allows it and no other limit is given.
pub const LARGEST_BYTES: u64 = 4 << 30;
/// Bytes of each of the two slots of staged copies.
const SLOT_BYTES: u64 = 4 << 20;
/// Copies of a size are repeated for about this time, within these numbers.
const CASE_SECONDS: f64 = 0.1;
const REPEATS: (u32, u32) = (3, 50);
/// A copy that takes longer counts as hung.
const COPY_TIMEOUT: Duration = Duration::from_secs(120);

/// The sizes from [`SMALLEST_BYTES`] to `largest`: powers of four, and `largest` if it is larger than the last.
pub fn sizes(largest: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> =
        (0..).map(|step| SMALLEST_BYTES << (2 * step)).take_while(|&size| size <= largest).collect();
    if sizes.last() != Some(&largest) {
        sizes.push(largest);
    }
    sizes
}

/// A device whose copies are measured.
pub struct TransferBench {
    device: BoxedDevice,
    completions: Receiver<Completion>,
    upload: usize,
    download: usize,
    name: String,
}

/// The memory of a case: for each direction a range of the device and host memory, and two page-locked slots if it is staged.
struct Ends {
    up: (Pinned, MemoryRange),
    down: (Pinned, MemoryRange),
    slots: Option<[[Pinned; 2]; 2]>,
    bytes: u64,
    /// Seconds that the allocation of the first host memory took.
    allocation_s: f64,
}

impl TransferBench {
    /// Opens a device of the runtime by name, apart from the one that its products use; an error for the CPU and for simulated devices.
    pub fn open(runtime: &Runtime, name: &str) -> Result<Self> {
        let no_memory = |reason: &str| Error::Device { device: name.into(), reason: reason.into() };
        if name == "cpu" {
            return Err(no_memory("the CPU uses the host's memory, so nothing is copied to it; name a GPU"));
        }
        if name.starts_with("sim:") {
            return Err(no_memory("a simulated device copies nothing; name cuda:0 or emu:0"));
        }
        let (sender, completions) = unbounded();
        let device = runtime.open_apart(name, Reports::new(DeviceId(1), sender))?;
        let lane = |kind: LaneKind| device.describe().lanes.iter().position(|lane| lane.kind == kind);
        let (Some(upload), Some(download)) = (lane(LaneKind::Upload), lane(LaneKind::Download)) else {
            return Err(no_memory("it has no lanes for copies"));
        };
        Ok(Self { device, completions, upload, download, name: name.into() })
    }

    /// Bytes of the device's memory.
    pub fn memory_bytes(&self) -> u64 {
        self.device.describe().memory_bytes.unwrap_or(0)
    }

    /// Measures all directions of one kind for each size. `measured` gets each result and returns whether to continue.
    pub fn measure(
        &mut self,
        kind: TransferKind,
        sizes: &[u64],
        mut measured: impl FnMut(TransferTime) -> bool,
    ) -> Result<Option<RegisterTime>> {
        let Some(&largest) = sizes.iter().max() else { return Ok(None) };
        let name = self.name.clone();
        let failed = move |fault: Fault| fault.into_error(&name);
        let mut ends = self.ends(kind, largest).map_err(&failed)?;
        let registered = RegisterTime { bytes: largest, seconds: ends.allocation_s };
        'sizes: for &bytes in sizes {
            ends.bytes = bytes;
            for direction in Direction::ALL {
                let time = self.case(kind, direction, &ends).map_err(&failed)?;
                if !measured(time) {
                    break 'sizes;
                }
            }
        }
        self.device.free(ends.up.1.memory);
        self.device.free(ends.down.1.memory);
        Ok((kind == TransferKind::Registered).then_some(registered))
    }

    fn ends(&mut self, kind: TransferKind, bytes: u64) -> std::result::Result<Ends, Fault> {
        let mut allocation_s = 0.0;
        let mut end = || -> std::result::Result<(Pinned, MemoryRange), Fault> {
            let started = Instant::now();
            let host = self.device.allocate_host(bytes, kind.memory())?;
            allocation_s = started.elapsed().as_secs_f64();
            // Pages that are not written yet would all be the same one.
            host.write()?.fill(1);
            Ok((host, MemoryRange { memory: self.device.allocate(bytes)?, begin: 0, end: bytes }))
        };
        let (up, down) = (end()?, end()?);
        // What is downloaded must be written before.
        self.submit(Direction::Up, &up.0, (0, 0), bytes, down.1)?;
        self.wait(1)?;
        let mut slot = || self.device.allocate_pinned(SLOT_BYTES.min(bytes));
        let slots = match kind {
            TransferKind::Staged => Some([[slot()?, slot()?], [slot()?, slot()?]]),
            _ => None,
        };
        Ok(Ends { up, down, slots, bytes, allocation_s })
    }

    /// Copies `bytes` bytes between `host`, from `at.0` on, and `device`, from `at.1` on.
    fn submit(
        &mut self,
        direction: Direction,
        host: &Pinned,
        at: (u64, u64),
        bytes: u64,
        device: MemoryRange,
    ) -> std::result::Result<(), Fault> {
        let host = PinnedRange { pinned: host.clone(), begin: at.0, end: at.0 + bytes };
        let device = MemoryRange { begin: at.1, end: at.1 + bytes, ..device };
        let (lane, operation) = match direction {
            Direction::Down => (self.download, Operation::download(device, host)),
            _ => (self.upload, Operation::upload(host, device)),
        };
        self.device.submit(lane, operation, Demand::default(), &[]).map(drop)
    }

    /// Waits for the completion of so many copies.
    fn wait(&mut self, copies: usize) -> std::result::Result<(), Fault> {
        for _ in 0..copies {
            let completion = self.completions.recv_timeout(COPY_TIMEOUT).map_err(|_| {
                let message = format!("a copy has not ended after {} s", COPY_TIMEOUT.as_secs());
                Fault::new(FaultKind::Hang, message)
            })?;
            completion.result?;
        }
        self.device.mark_synchronized();
        Ok(())
    }

    fn case(
        &mut self,
        kind: TransferKind,
        direction: Direction,
        ends: &Ends,
    ) -> std::result::Result<TransferTime, Fault> {
        let mut times = Vec::new();
        let mut total = 0.0;
        // The first copy is not measured.
        self.once(direction, ends)?;
        while times.len() < REPEATS.0 as usize || (total < CASE_SECONDS && times.len() < REPEATS.1 as usize) {
            let started = Instant::now();
            self.once(direction, ends)?;
            let seconds = started.elapsed().as_secs_f64();
            times.push(seconds);
            total += seconds;
        }
        times.sort_by(f64::total_cmp);
        let median_s = times[times.len() / 2];
        let moved = ends.bytes * if direction == Direction::Both { 2 } else { 1 };
        Ok(TransferTime {
            kind,
            direction,
            bytes: ends.bytes,
            repeats: times.len() as u32,
            median_s,
            shortest_s: times[0],
            gb_per_s: moved as f64 / median_s.max(1e-12) * 1e-9,
        })
    }

    fn once(&mut self, direction: Direction, ends: &Ends) -> std::result::Result<(), Fault> {
        if ends.slots.is_some() {
            return self.staged(direction, ends);
        }
        let mut copies = 0;
        for (wanted, other, (host, device)) in
            [(Direction::Up, Direction::Down, &ends.up), (Direction::Down, Direction::Up, &ends.down)]
        {
            if direction != other {
                self.submit(wanted, host, (0, 0), ends.bytes, *device)?;
                copies += 1;
            }
        }
        self.wait(copies)
    }

    /// Copies slot by slot. While the device copies one slot of a direction, the host copies the other one.
    fn staged(&mut self, direction: Direction, ends: &Ends) -> std::result::Result<(), Fault> {
        let Some(slots) = &ends.slots else { return Ok(()) };
        let pieces: Vec<(u64, u64)> = (0..ends.bytes)
            .step_by(SLOT_BYTES as usize)
            .map(|begin| (begin, SLOT_BYTES.min(ends.bytes - begin)))
            .collect();
        // Piece `step` is on the device's lanes during a step; the host fills the next piece of `up` and empties the last of `down`.
        let copy_up = |(begin, bytes): (u64, u64), slot: &Pinned| -> std::result::Result<(), Fault> {
            let (from, mut to) = (ends.up.0.read()?, slot.write()?);
            to[..bytes as usize].copy_from_slice(&from[begin as usize..(begin + bytes) as usize]);
            Ok(())
        };
        let copy_down = |(begin, bytes): (u64, u64), slot: &Pinned| -> std::result::Result<(), Fault> {
            let (from, mut to) = (slot.read()?, ends.down.0.write()?);
            to[begin as usize..(begin + bytes) as usize].copy_from_slice(&from[..bytes as usize]);
            Ok(())
        };
        let (up, down) = (direction != Direction::Down, direction != Direction::Up);
        if up && let Some(&first) = pieces.first() {
            copy_up(first, &slots[0][0])?;
        }
        for (step, &(begin, bytes)) in pieces.iter().enumerate() {
            let mut copies = 0;
            if up {
                self.submit(Direction::Up, &slots[0][step % 2], (0, begin), bytes, ends.up.1)?;
                copies += 1;
            }
            if down {
                self.submit(Direction::Down, &slots[1][step % 2], (0, begin), bytes, ends.down.1)?;
                copies += 1;
            }
            if up && let Some(&next) = pieces.get(step + 1) {
                copy_up(next, &slots[0][(step + 1) % 2])?;
            }
            if down && step > 0 {
                copy_down(pieces[step - 1], &slots[1][(step - 1) % 2])?;
            }
            self.wait(copies)?;
        }
        match pieces.last() {
            Some(&last) if down => copy_down(last, &slots[1][(pieces.len() - 1) % 2]),
            _ => Ok(()),
        }
    }
}

impl Drop for TransferBench {
    fn drop(&mut self) {
        self.device.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_four_up_to_the_largest() {
        assert_eq!(sizes(1 << 14), [1 << 10, 1 << 12, 1 << 14]);
        assert_eq!(sizes(5000), [1 << 10, 1 << 12, 5000]);
        assert_eq!(sizes(100), [100]);
        assert_eq!(sizes(LARGEST_BYTES).last(), Some(&LARGEST_BYTES));
    }

    #[cfg(feature = "emulator")]
    #[test]
    fn every_kind_and_direction_is_measured_and_staged_bytes_arrive() {
        let runtime = Runtime::open("emu:0").unwrap();
        let mut bench = TransferBench::open(&runtime, "emu:0").unwrap();
        let largest = 2 * SLOT_BYTES + 1000;
        for kind in TransferKind::ALL {
            let mut count = 0;
            let registered = bench
                .measure(kind, &[1000, largest], |time| {
                    assert!(time.median_s > 0.0 && time.shortest_s <= time.median_s && time.kind == kind);
                    count += 1;
                    true
                })
                .unwrap();
            assert_eq!(count, 6);
            assert_eq!(registered.is_some(), kind == TransferKind::Registered);
        }
        let ends = bench.ends(TransferKind::Staged, largest).unwrap();
        let bytes: Vec<u8> = (0..largest).map(|at| (at % 251) as u8).collect();
        ends.up.0.write().unwrap().copy_from_slice(&bytes);
        bench.staged(Direction::Up, &ends).unwrap();
        // Downloads what was uploaded.
        let back = Ends { down: (ends.down.0.clone(), ends.up.1), ..ends };
        bench.staged(Direction::Down, &back).unwrap();
        assert!(*back.down.0.read().unwrap() == bytes[..]);
    }

    #[test]
    fn the_cpu_has_nothing_to_copy() {
        let runtime = Runtime::open("cpu").unwrap();
        let error = TransferBench::open(&runtime, "cpu").map(drop).unwrap_err();
        assert_eq!(error.exit_code(), 4);
    }
}
