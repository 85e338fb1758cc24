//! The open devices of a runtime, by name. A device is opened when it is first needed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::{CudaOptions, Description, EmulatedOptions};
use crate::error::Result;
use crate::plan::Plan;
use crate::runtime::devices::{OpenDevice, OperationRecord};
use crate::runtime::run::Round;
use crate::trace::Clock;

/// The options of devices, by device name.
#[derive(Debug, Clone, Default)]
pub struct DeviceOptions {
    /// Of emulated devices.
    pub emulated: Vec<(String, EmulatedOptions)>,
    /// Of CUDA devices.
    pub cuda: Vec<(String, CudaOptions)>,
}

impl DeviceOptions {
    /// The options of an emulated device.
    pub fn emulated_of(&self, name: &str) -> EmulatedOptions {
        find(name, &self.emulated)
    }

    /// The options of a CUDA device.
    pub fn cuda_of(&self, name: &str) -> CudaOptions {
        find(name, &self.cuda)
    }
}

fn find<T: Copy + Default>(name: &str, options: &[(String, T)]) -> T {
    options.iter().find(|(of, _)| of == name).map(|(_, options)| *options).unwrap_or_default()
}

/// The open devices of a runtime.
pub struct RuntimeDevices {
    clock: Clock,
    open: Mutex<HashMap<String, Arc<OpenDevice>>>,
    /// Whether queued operations are recorded.
    records: AtomicBool,
    rounds: Mutex<Vec<RecordedRound>>,
}

/// A product on vectors that ran as a graph.
pub struct RecordedRound {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// The devices of the plan, the host first.
    pub descriptions: Arc<[Description]>,
    /// The graph and its outcome.
    pub round: Round,
}

impl RuntimeDevices {
    /// No device is open yet. Their times will be on `clock`.
    pub fn new(clock: Clock) -> Self {
        Self { clock, open: Mutex::default(), records: AtomicBool::new(false), rounds: Mutex::default() }
    }

    /// The clock of all devices.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The device named `name`, which is opened with `options` unless it is open.
    pub fn get(&self, name: &str, options: &DeviceOptions) -> Result<Arc<OpenDevice>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(name).filter(|device| device.lock().is_open()) {
            return Ok(device.clone());
        }
        let (emulated, cuda) = (options.emulated_of(name), options.cuda_of(name));
        let device = Arc::new(OpenDevice::open(name, emulated, cuda, self.clock)?);
        if self.records.load(Ordering::Relaxed) {
            device.lock().start_recording();
        }
        open.insert(name.into(), device.clone());
        Ok(device)
    }

    /// The devices that are open, with their names.
    pub fn all_open(&self) -> Vec<(String, Arc<OpenDevice>)> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = open.iter().map(|(name, device)| (name.clone(), device.clone())).collect();
        all.retain(|(_, device)| device.is_open());
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// Records the queued operations of all devices from now on.
    pub fn start_recording(&self) {
        self.records.store(true, Ordering::Relaxed);
        for device in self.open.lock().unwrap_or_else(PoisonError::into_inner).values() {
            device.lock().start_recording();
        }
    }

    /// Whether operations are recorded.
    pub fn is_recording(&self) -> bool {
        self.records.load(Ordering::Relaxed)
    }

    /// Keeps a product on vectors that ran as a graph.
    pub fn record_round(&self, round: RecordedRound) {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).push(round);
    }

    /// The recorded products since the last call.
    pub fn take_rounds(&self) -> Vec<RecordedRound> {
        std::mem::take(&mut self.rounds.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The recorded operations of each open device since the last call, with its description.
    pub fn take_records(&self) -> Vec<(Description, Vec<OperationRecord>)> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<&String> = open.keys().collect();
        names.sort();
        let devices = names.into_iter().filter_map(|name| open.get(name));
        let taken = devices.map(|device| {
            let mut device = device.lock();
            // A fault is reported by the operation's own caller.
            let _ = device.drain();
            (device.description(), device.take_records())
        });
        taken.collect()
    }
}
