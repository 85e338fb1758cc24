//! Waits for completions, with a watchdog for devices that hang; [`Timeouts`](crate::device::completion::Timeouts) has the rule.
//!
//! Messages to and from other ranks have a timeout of their own, which is longer. A device that hangs is noticed while messages are in
//! flight, too.

use std::time::{Duration, Instant};

use crossbeam::channel::RecvTimeoutError;

use super::TaskFault;
use super::coordinator::{Coordinator, DeviceState, State};
use crate::device::Fault;
use crate::error::Result;
use crate::graph::{DeviceId, TaskId};

/// How often a cancellable run polls its cancel flag.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The tasks that a timeout is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tasks {
    /// Those of the host and of devices.
    OfDevices,
    /// Messages to and from other ranks.
    Messages,
}

/// The decision of the watchdog.
enum Next {
    /// Nothing hangs before the silence has lasted so long.
    Wait(Duration),
    /// These tasks hang.
    Hung(Tasks),
}

impl Coordinator<'_, '_, '_> {
    /// Waits for a completion, by advancing virtual time if a device has it, otherwise in real time.
    pub(super) fn wait(&mut self) -> Result<()> {
        let now = Instant::now;
        if std::mem::take(&mut self.progressed) {
            self.last_progress = now();
        }
        if self.devices.iter_mut().any(|device| device.advance()) {
            self.progressed = true;
            return Ok(());
        }
        if let Some(completion) = self.poll(self.last_progress.elapsed()) {
            self.complete(completion);
            return Ok(());
        }
        let silent = self.last_progress.elapsed();
        let timeout = match self.next_timeout(silent) {
            Next::Wait(timeout) => timeout,
            Next::Hung(tasks) => return self.declare_hung(tasks, silent),
        };
        let left = timeout.saturating_sub(silent);
        let slice = if self.options.cancel.is_some() { left.min(CANCEL_POLL_INTERVAL) } else { left };
        match self.completions.recv_timeout(slice) {
            Ok(completion) => self.complete(completion),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                self.declare_hung(Tasks::OfDevices, silent)?;
                return self.declare_hung(Tasks::Messages, silent);
            }
        }
        Ok(())
    }

    /// What to do after nothing has completed for the time `silent`. A timeout is extended for the longest task in flight.
    fn next_timeout(&self, silent: Duration) -> Next {
        let timeouts = &self.options.timeouts;
        let shortest = timeouts.of_devices(Duration::ZERO).min(timeouts.of_messages(Duration::ZERO));
        if silent < shortest {
            return Next::Wait(shortest);
        }
        let (mut longest_ns, mut next) = (0, None);
        for (task, _) in self.device_states.iter().flat_map(|device_state| device_state.in_flight.values()) {
            longest_ns = longest_ns.max(self.task(*task).demand.alone_ns);
        }
        let longest = Duration::from_nanos(longest_ns);
        let (of_devices, of_messages) = (timeouts.of_devices(longest), timeouts.of_messages(longest));
        for (tasks, timeout) in [(Tasks::OfDevices, of_devices), (Tasks::Messages, of_messages)] {
            if !self.device_states.iter().any(|device_state| self.has_in_flight(device_state, tasks)) {
                continue;
            }
            if silent >= timeout {
                return Next::Hung(tasks);
            }
            next = Some(next.map_or(timeout, |next: Duration| next.min(timeout)));
        }
        Next::Wait(next.unwrap_or(of_devices))
    }

    fn has_in_flight(&self, device_state: &DeviceState, tasks: Tasks) -> bool {
        let is_message = |(task, _): &(TaskId, u32)| self.task(*task).kind.is_network();
        device_state.in_flight.values().any(|in_flight| is_message(in_flight) == (tasks == Tasks::Messages))
    }

    /// Declares operations in flight hung, and their devices dead. A host that is silent together with a device is not
    /// declared hung before the watchdog fires again: its threads may be short of time, and the device hangs anyway.
    fn declare_hung(&mut self, tasks: Tasks, silent: Duration) -> Result<()> {
        let hanging: Vec<bool> =
            self.device_states.iter().map(|device_state| self.has_in_flight(device_state, tasks)).collect();
        let devices_hang = hanging.iter().skip(1).any(|&hangs| hangs);
        for number in (usize::from(devices_hang)..hanging.len()).filter(|&number| hanging[number]) {
            let device = DeviceId(number as u32);
            let device_state = &mut self.device_states[number];
            let mut hung: Vec<TaskId> = device_state.in_flight.drain().map(|(_, (task, _))| task).collect();
            hung.sort_unstable();
            let Some(&first) = hung.first() else { continue };
            self.in_flight -= hung.len();
            let name = |task: &TaskId| format!("{} {}", self.task(*task).kind.name(), task.0);
            let fault = Fault::hang(hung.iter().map(name), silent);
            if device == DeviceId::HOST {
                return Err(fault.into_error(&self.devices[number].describe().name));
            }
            if !self.device_states[number].dead {
                self.outcome.faults.push(TaskFault { task: first, device, fault });
            }
            for task in hung {
                let strand = &mut self.strands[self.graph.tasks()[task.index()].strand.index()];
                strand.hung = true;
                self.states[task.index()] = State::Dropped;
            }
            self.mark_dead(device);
        }
        self.progressed = true;
        Ok(())
    }
}
