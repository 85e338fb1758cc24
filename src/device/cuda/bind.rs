//! Checks an operation before it is issued, and resolves its memory to addresses of the card.

use super::actions::{Action, BoundEntry, Copy, copy};
use super::completion_thread::HeldMemory;
use super::cublas::CublasProduct;
use super::{CudaDevice, misuse};
use crate::device::{
    Argument, EntryLaunch, Fault, HostTransfer, LaneKind, Launch, LaunchWithCopies, MemoryRange, Operation,
};
use crate::kernel::cuda::{CudaKernel, Parameter};

impl CudaDevice {
    /// Card address of a range's first byte; a fault if the range is not in this device's memory.
    pub(super) fn address(&self, range: &MemoryRange) -> Result<u64, Fault> {
        let outside =
            || misuse(format!("bytes {}..{} are outside memory {}", range.begin, range.end, range.memory.0));
        let memory = self.memories.get(range.memory).ok_or_else(outside)?;
        if range.begin > range.end || range.end > memory.bytes() {
            return Err(outside());
        }
        Ok(memory.address() + range.begin)
    }

    /// Card address of a transfer's first byte; a fault unless all rows are inside both memories.
    fn check_transfer(&self, transfer: &HostTransfer) -> Result<u64, Fault> {
        if !transfer.is_sound() {
            return Err(misuse(format!(
                "invalid copy between {} bytes of device memory and bytes {}..{} of {} pinned bytes",
                transfer.device.bytes(),
                transfer.host.begin,
                transfer.host.end,
                transfer.host.pinned.bytes()
            )));
        }
        self.address(&transfer.device)
    }

    /// Checks an operation for a lane of kind `kind`. Returns the driver action, its name and the memory it holds.
    pub(super) fn bind(
        &mut self,
        operation: Operation<'_>,
        kind: LaneKind,
    ) -> Result<(Action, &'static str, Vec<HeldMemory>), Fault> {
        match (operation, kind) {
            (Operation::Upload(transfers), LaneKind::Upload) => {
                let (mut copies, mut held) = (Vec::new(), Vec::new());
                for transfer in &transfers {
                    let card = self.check_transfer(transfer)?;
                    let read = transfer.host.pinned.read()?;
                    let host = read[transfer.host.begin as usize..].as_ptr().cast_mut();
                    copies.push(copy(transfer, host, card));
                    held.push(HeldMemory::Read(read));
                }
                Ok((Action::Upload(copies), "upload", held))
            }
            (Operation::Download(transfer), LaneKind::Download) => {
                let card = self.check_transfer(&transfer)?;
                let mut written = transfer.host.pinned.write()?;
                let host = written[transfer.host.begin as usize..].as_mut_ptr();
                let action = Action::Download(copy(&transfer, host, card));
                Ok((action, "download", vec![HeldMemory::Written(written)]))
            }
            (Operation::PeerCopy(copy), LaneKind::Upload) => {
                let (action, held) = self.bind_peer_copy(&copy)?;
                Ok((action, "peer copy", vec![held]))
            }
            (Operation::Launch(launch), LaneKind::Compute) => {
                let (action, what) = self.bind_launch(launch)?;
                self.launches += 1;
                let faulty = self.options.fault_at(self.launches);
                Ok((faulty.map_or(action, Action::Fault), what, Vec::new()))
            }
            (Operation::VectorLaunch(launch), LaneKind::Compute) => {
                let launch = launch.entry_launch().map_err(|error| misuse(error.message()))?;
                let name = launch.kernel.name;
                Ok((Action::EntryLaunches(vec![self.bind_entry_launch(launch)?]), name, Vec::new()))
            }
            (Operation::LaunchWithCopies(launch), LaneKind::Compute) => self.bind_launch_with_copies(*launch),
            (Operation::EntryLaunches(launches), LaneKind::Compute) => {
                let name = launches.first().map_or("no launch", |launch| launch.kernel.name);
                let bound = launches.into_iter().map(|launch| self.bind_entry_launch(launch));
                Ok((Action::EntryLaunches(bound.collect::<Result<_, Fault>>()?), name, Vec::new()))
            }
            (Operation::LibraryGemm(gemm), LaneKind::Compute) => {
                let [a, b, c] = [gemm.a, gemm.b, gemm.c].map(|rows| self.address(&rows.memory));
                Ok((Action::Cublas(CublasProduct::new(&gemm, [a?, b?, c?])?), "cublas", Vec::new()))
            }
            (Operation::Pass, _) => Ok((Action::Pass, "pass", Vec::new())),
            (Operation::Job(_) | Operation::ShortJob(_), _) => {
                Err(misuse("a CUDA device runs no host jobs".into()))
            }
            (_, kind) => Err(misuse(format!("a lane of kind {kind:?} does not run that operation"))),
        }
    }

    fn bind_launch(&self, launch: Launch) -> Result<(Action, &'static str), Fault> {
        let kernel = CudaKernel::of(launch.kernel).map_err(|error| misuse(error.message()))?;
        let Launch { variant, dtype, items, k, .. } = &launch;
        let shape = kernel.shape(variant, *dtype, *items, *k).map_err(|error| misuse(error.message()))?;
        let name = launch.kernel.name();
        let words = self.words(name, &launch.arguments, kernel.parameters)?;
        Ok((Action::Launch { launch, shape, words }, name))
    }

    fn bind_launch_with_copies(
        &self,
        operation: LaunchWithCopies,
    ) -> Result<(Action, &'static str, Vec<HeldMemory>), Fault> {
        let LaunchWithCopies { numbers, launch, download } = operation;
        let launch = launch.map(|launch| launch.entry_launch()).transpose();
        let launch = launch.map_err(|error| misuse(error.message()))?;
        let name = launch.as_ref().map_or("copy", |launch| launch.kernel.name);
        let launch = launch.map(|launch| self.bind_entry_launch(launch)).transpose()?;
        let mut held = Vec::new();
        let upload = numbers.map(|(bytes, to)| {
            let (card, count) = (self.address(&to)?, bytes.len());
            if count as u64 != to.bytes() {
                return Err(misuse(format!("{count} bytes are written to {} bytes", to.bytes())));
            }
            let host = bytes.as_ptr().cast_mut();
            held.push(HeldMemory::Bytes(bytes));
            Ok(Copy { host, card, bytes: count, rows: 1, host_pitch: count, card_pitch: count })
        });
        let upload = upload.transpose()?;
        let download = download.map(|transfer| {
            let card = self.check_transfer(&transfer)?;
            let mut written = transfer.host.pinned.write()?;
            let host = written[transfer.host.begin as usize..].as_mut_ptr();
            held.push(HeldMemory::Written(written));
            Ok(copy(&transfer, host, card))
        });
        let download = download.transpose()?;
        Ok((Action::LaunchWithCopies { upload, launch, download }, name, held))
    }

    fn bind_entry_launch(&self, launch: EntryLaunch) -> Result<BoundEntry, Fault> {
        let EntryLaunch { kernel, dtype, shape, arguments } = launch;
        let words = self.words(kernel.name, &arguments, kernel.parameters)?;
        Ok(BoundEntry { kernel, dtype, shape, words, function: None })
    }

    /// The words that the kernel `name` gets: numbers, and addresses of memory inside its allocation.
    fn words(&self, name: &str, arguments: &[Argument], parameters: &[Parameter]) -> Result<Vec<u64>, Fault> {
        let (given, wanted) = (arguments.len(), parameters.len());
        if given != wanted {
            return Err(misuse(format!("{name} got {given} arguments; it takes {wanted}")));
        }
        let word = |(argument, parameter): (&Argument, &Parameter)| match (argument, parameter) {
            (Argument::Number(number), Parameter::Number(_)) => Ok(*number),
            (Argument::Read(range), Parameter::Read(_))
            | (Argument::Write(range), Parameter::Write(_) | Parameter::Result(_))
            | (Argument::Modify(range), Parameter::Modify(_) | Parameter::Result(_))
            | (Argument::Update(range), Parameter::Update(_))
            | (Argument::ReadPart { whole: range, .. }, Parameter::Read(_)) => self.address(range),
            _ => {
                let parameter = parameter.name();
                Err(misuse(format!("{name} got an argument of the wrong kind for its parameter {parameter}")))
            }
        };
        arguments.iter().zip(parameters).map(word).collect()
    }
}
