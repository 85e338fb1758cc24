//! Waits for completions, with a watchdog for devices that hang.

use std::time::{Duration, Instant};

use crossbeam::channel::RecvTimeoutError;

use super::TaskFault;
use super::coordinator::{Coordinator, State};
use crate::device::{Fault, FaultKind};
use crate::error::{Error, Result};
use crate::graph::{DeviceId, TaskId};

/// How often a cancellable run polls its cancel flag.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A task counts as hung only after this many times its predicted time.
const PREDICTION_SLACK: u64 = 20;

/// The most tasks named in a message; the rest are counted.
const NAMED_TASKS: usize = 6;

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
        let watchdog_timeout = if silent < self.options.watchdog_timeout {
            self.options.watchdog_timeout
        } else {
            self.watchdog_timeout()
        };
        if silent >= watchdog_timeout {
            return self.declare_hung(silent);
        }
        let left = watchdog_timeout - silent;
        let slice = if self.options.cancel.is_some() { left.min(CANCEL_POLL_INTERVAL) } else { left };
        match self.completions.recv_timeout(slice) {
            Ok(completion) => self.complete(completion),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return self.declare_hung(silent),
        }
        Ok(())
    }

    /// The watchdog timeout, extended for the longest task in flight.
    fn watchdog_timeout(&self) -> Duration {
        let under_way = self.device_states.iter().flat_map(|device_state| device_state.in_flight.values());
        let longest = under_way.map(|(task, _)| self.task(*task).demand.alone_ns).max().unwrap_or(0);
        self.options.watchdog_timeout.max(Duration::from_nanos(longest.saturating_mul(PREDICTION_SLACK)))
    }

    /// Declares all operations in flight hung, and their devices dead. A host that is silent together with a device is not
    /// declared hung before the watchdog fires again: its threads may be short of time, and the device hangs anyway.
    fn declare_hung(&mut self, silent: Duration) -> Result<()> {
        let devices_hang = self.device_states.iter().skip(1).any(|state| !state.in_flight.is_empty());
        for number in usize::from(devices_hang)..self.device_states.len() {
            let device = DeviceId(number as u32);
            let device_state = &mut self.device_states[number];
            let mut hung: Vec<TaskId> = device_state.in_flight.drain().map(|(_, (task, _))| task).collect();
            hung.sort_unstable();
            let Some(&first) = hung.first() else { continue };
            self.in_flight -= hung.len();
            let message =
                format!("{} did not complete within {:.1} s", self.names(&hung), silent.as_secs_f64());
            if device == DeviceId::HOST {
                let device = self.devices[number].describe().name.clone();
                return Err(Error::device(device, message));
            }
            if !self.device_states[number].dead {
                let fault = Fault::new(FaultKind::Hang, message);
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

    fn names(&self, tasks: &[TaskId]) -> String {
        let name = |task: &TaskId| format!("{} {}", self.task(*task).kind.name(), task.0);
        let mut names = tasks.iter().take(NAMED_TASKS).map(name).collect::<Vec<_>>().join(", ");
        if tasks.len() > NAMED_TASKS {
            names.push_str(&format!(" and {} more", tasks.len() - NAMED_TASKS));
        }
        names
    }
}
