//! A device without an ability says so: it refuses, or gives nothing.

use std::time::Duration;

use crossbeam::channel::unbounded;

use super::simulated::{SimulatedSpec, Simulation};
use super::{Device, FaultKind, Memory, Operation, Reports};
use crate::device::cpu::Cpu;
use crate::graph::{Demand, DeviceId};
use crate::trace::Clock;

/// Claims about a device that other libraries, other devices and other ranks cannot use.
fn has_no_special_ability<'run>(device: &mut dyn Device<'run>) {
    assert!(device.place().is_none() && device.compute_stream().is_none());
    assert!(device.address_of(Memory(0)).is_none() && device.peer_memory(Memory(0)).is_none());
    assert!(device.direct_memory(Memory(0)).is_none());
    assert!(!device.compiles() && !device.has_cublas() && !device.keep_receives());
    assert_eq!((device.finish_issued(Duration::ZERO), device.last_issued_ns()), (Ok(true), Ok(None)));
    assert_eq!((device.prepare(&[]), device.clock_error_ns(), device.resources_in_use()), (Ok(()), None, 0));
}

#[test]
fn the_host_has_no_memory_and_no_streams_of_its_own() {
    let (sender, _receiver) = unbounded();
    rayon::in_place_scope(|scope| {
        let mut cpu = Cpu::new(scope, Clock::start(), Reports::new(DeviceId::HOST, sender.clone()));
        has_no_special_ability(&mut cpu);
        assert_eq!(cpu.allocate(8).unwrap_err().kind, FaultKind::OutOfMemory);
        assert_eq!(cpu.allocate_pinned(24).unwrap().bytes(), 24);
        cpu.free(Memory(0));
        cpu.close();
        let late = cpu.submit(0, Operation::Pass, Demand::default(), &[]);
        assert_eq!(late.unwrap_err().kind, FaultKind::Lost);
    });
}

#[test]
fn a_simulated_device_copies_nothing() {
    let (sender, _receiver) = unbounded();
    let spec = SimulatedSpec::accelerator("sim", 1 << 20, 10.0, 0);
    let mut device = Simulation::new(10.0).device(&spec, Reports::new(DeviceId(1), sender));
    has_no_special_ability(&mut device);
    assert_eq!(device.allocate_pinned(24).unwrap().bytes(), 0);
    device.close();
    assert!(device.allocate_pinned(24).is_err());
}
