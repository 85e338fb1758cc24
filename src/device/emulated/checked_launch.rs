//! Launches of kernels on an emulated device: whether their arguments fit the parameters, and which bytes they read and write.

use super::entries::entry;
use super::lane::Action;
use super::launch::{Bound, BoundLaunch, BoundRange, Use};
use super::{Checked, EmulatedDevice, misuse};
use crate::device::{Argument, EntryLaunch, Fault, Launch, LaunchWithCopies, MemoryRange, Pinned};
use crate::kernel::cuda::{CudaKernel, LaunchShape, Parameter};

impl EmulatedDevice {
    /// Checks a launch of a kernel for sparse products.
    pub(super) fn check_launch(&self, launch: &Launch) -> Result<Checked, Fault> {
        let kernel = CudaKernel::of(launch.kernel).map_err(|error| misuse(error.message()))?;
        let Launch { variant, dtype, items, k, .. } = launch;
        let shape = kernel.shape(variant, *dtype, *items, *k).map_err(|error| misuse(error.message()))?;
        let name = kernel.entry(*dtype, variant);
        let times = launch.batch.unwrap_or(1);
        self.bind(name, shape, kernel.parameters, &launch.arguments, times)
    }

    /// Checks a launch of another kernel.
    pub(super) fn check_entry_launch(&self, launch: &EntryLaunch) -> Result<Checked, Fault> {
        let EntryLaunch { kernel, dtype, shape, arguments } = launch;
        self.bind(kernel.entry(*dtype), *shape, kernel.parameters, arguments, 1)
    }

    /// Checks launches that one operation runs one after the other.
    pub(super) fn check_entry_launches(&self, launches: &[EntryLaunch]) -> Result<Checked, Fault> {
        let (mut all, mut reads, mut writes) = (Vec::new(), Vec::new(), Vec::<MemoryRange>::new());
        for launch in launches {
            let checked = self.check_entry_launch(launch)?;
            if let Action::Launch(bound, _) = checked.action {
                all.extend(bound);
            }
            // What an earlier launch of the list writes is no input of the operation.
            let is_written = |range: &MemoryRange| {
                let overlaps = |written: &MemoryRange| written.begin < range.end && range.begin < written.end;
                writes.iter().any(|written| written.memory == range.memory && overlaps(written))
            };
            reads.extend(checked.reads.into_iter().filter(|range| !is_written(range)));
            writes.extend(checked.writes);
        }
        Ok(Checked { action: Action::Launch(all, 1), what: "launch", reads, writes })
    }

    /// Checks a launch with small copies before and after it.
    pub(super) fn check_launch_with_copies(&self, operation: LaunchWithCopies) -> Result<Checked, Fault> {
        let LaunchWithCopies { numbers, launch, download } = operation;
        let launch = launch.map(|launch| launch.entry_launch()).transpose();
        let launch: Vec<EntryLaunch> = launch.map_err(|error| misuse(error.message()))?.into_iter().collect();
        let Checked { action, mut reads, mut writes, .. } = self.check_entry_launches(&launch)?;
        let Action::Launch(launches, _) = action else { return Err(misuse("a launch is no launch".into())) };
        let what = if launches.is_empty() { "copy" } else { "launch" };
        if let Some((bytes, to)) = &numbers {
            if bytes.len() as u64 != to.bytes() {
                return Err(misuse(format!("{} bytes are written to {} bytes", bytes.len(), to.bytes())));
            }
            reads.retain(|range| !is_within(range, to));
            writes.push(*to);
        }
        let download = download.map(|transfer| {
            if !writes.iter().any(|written| is_within(&transfer.device, written)) {
                reads.push(transfer.device);
            }
            self.copy(transfer, Pinned::write)
        });
        let numbers = numbers.map(|(bytes, to)| Ok((self.resolve(&to)?, bytes)));
        let (numbers, download) = (numbers.transpose()?, download.transpose()?);
        let action = Action::LaunchWithCopies { numbers, launches, download };
        Ok(Checked { action, what, reads, writes })
    }

    /// Checks the arguments of a launch of the entry `name`, which runs `times` times.
    fn bind(
        &self,
        name: String,
        shape: LaunchShape,
        parameters: &[Parameter],
        given: &[Argument],
        times: u32,
    ) -> Result<Checked, Fault> {
        let entry =
            entry(&name).ok_or_else(|| misuse(format!("{name} was not compiled for the emulator")))?;
        if given.len() != parameters.len() {
            let (given, wanted) = (given.len(), parameters.len());
            return Err(misuse(format!("{name} got {given} arguments; it takes {wanted}")));
        }
        let (mut reads, mut writes, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
        for (argument, parameter) in given.iter().zip(parameters) {
            let mut bind = |range: &MemoryRange, lead_bytes, using| {
                if using != Use::Read {
                    writes.push(*range);
                }
                if using != Use::Write {
                    reads.push(*range);
                }
                let place = self.resolve(range)?;
                let (memory, range) = (place.memory, place.range);
                Ok(Bound::Range(BoundRange { name: parameter.name(), memory, range, lead_bytes, using }))
            };
            arguments.push(match (argument, parameter) {
                (Argument::Number(number), Parameter::Number(_)) => Bound::Number(*number),
                (Argument::Read(range), Parameter::Read(_)) => bind(range, 0, Use::Read)?,
                (Argument::ReadPart { whole, part }, Parameter::Read(_)) => {
                    let is_inside =
                        whole.memory == part.memory && whole.begin <= part.begin && part.end <= whole.end;
                    if !is_inside {
                        let parameter = parameter.name();
                        return Err(misuse(format!(
                            "{name} reads a part of {parameter} that is outside of it"
                        )));
                    }
                    self.resolve(whole)?;
                    bind(part, (part.begin - whole.begin) as usize, Use::Read)?
                }
                (Argument::Write(range), Parameter::Write(_) | Parameter::Result(_)) => {
                    bind(range, 0, Use::Write)?
                }
                (Argument::Modify(range), Parameter::Modify(_) | Parameter::Result(_))
                | (Argument::Update(range), Parameter::Update(_)) => bind(range, 0, Use::Update)?,
                _ => {
                    let parameter = parameter.name();
                    return Err(misuse(format!(
                        "{name} got an argument of the wrong kind for its parameter {parameter}"
                    )));
                }
            });
        }
        let action = Action::Launch(vec![BoundLaunch { name, entry, shape, arguments }], times);
        Ok(Checked { action, what: "launch", reads, writes })
    }
}

/// Whether all bytes of `range` are bytes of `other`.
fn is_within(range: &MemoryRange, other: &MemoryRange) -> bool {
    range.memory == other.memory && other.begin <= range.begin && range.end <= other.end
}
