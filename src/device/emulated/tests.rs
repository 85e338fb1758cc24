//! Tests of the emulated device: products under random delays, missing waits, injected faults, closing.

use std::collections::HashMap;
use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};

use super::*;
use crate::device::conformance::{Supports, conforms};
use crate::device::{Argument, Completion, Launch, PinnedRange};
use crate::graph::DeviceId;
use crate::kernel::cuda::{CudaKernel, Variant};
use crate::kernel::{KernelId, reference};
use crate::matrix::{Csr, Dtype, MultiVector, generate};

pub(super) const UPLOAD: usize = 0;
const COMPUTE: usize = 1;
const DOWNLOAD: usize = 2;

pub(super) struct Fixture {
    pub(super) device: EmulatedDevice,
    completions: Receiver<Completion>,
}

impl Fixture {
    pub(super) fn open(options: &str) -> Self {
        let (sender, completions) = unbounded();
        let reports = Reports::new(DeviceId(1), sender);
        let options = EmulatedOptions::parse(options).unwrap();
        let device = EmulatedDevice::open("emu:0", options, Clock::start(), reports).unwrap();
        Self { device, completions }
    }

    pub(super) fn memory(&mut self, bytes: u64) -> MemoryRange {
        MemoryRange { memory: self.device.allocate(bytes).unwrap(), begin: 0, end: bytes }
    }

    pub(super) fn submit(
        &mut self,
        lane: usize,
        operation: Operation<'static>,
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        self.device.submit(lane, operation, Demand::default(), waits)
    }

    pub(super) fn upload<T: bytemuck::Pod>(
        &mut self,
        values: &[T],
        to: MemoryRange,
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let pinned = self.device.allocate_pinned(bytes.len() as u64).unwrap();
        pinned.write().unwrap().copy_from_slice(bytes);
        let from = PinnedRange { begin: 0, end: pinned.bytes() as u64, pinned };
        self.submit(UPLOAD, Operation::upload(from, to), waits)
    }

    pub(super) fn download(&mut self, from: MemoryRange, waits: &[Fence]) -> Result<(Fence, Pinned), Fault> {
        let pinned = self.device.allocate_pinned(from.bytes()).unwrap();
        let to = PinnedRange { begin: 0, end: from.bytes(), pinned: pinned.clone() };
        Ok((self.submit(DOWNLOAD, Operation::download(from, to), waits)?, pinned))
    }

    /// The results of the next `count` completions.
    pub(super) fn ends(&self, count: usize) -> HashMap<Fence, Result<(), Fault>> {
        (0..count)
            .map(|_| {
                let end = self.completions.recv_timeout(Duration::from_secs(60)).unwrap();
                assert!(end.start_ns <= end.end_ns && end.device == DeviceId(1));
                (end.fence, end.result)
            })
            .collect()
    }
}

pub(super) fn kind(end: &Result<(), Fault>) -> Option<FaultKind> {
    end.as_ref().err().map(|fault| fault.kind)
}

/// Y = A X on the device: three uploads of A, one of X, a launch, a download. All ranges are in one allocation.
struct Product {
    a: Csr<f64>,
    x: MultiVector<f64>,
    /// Row pointers, columns, values, X, Y.
    places: [MemoryRange; 5],
}

impl Product {
    fn new(fixture: &mut Fixture, k: usize) -> Self {
        let a = generate::<f64>("hub,rows=300,degree=3,hubs=1", 3, u64::MAX).unwrap().matrix;
        let x =
            MultiVector::from_fn(a.cols(), k, |row, column| ((row * 7 + column) % 13) as f64 - 6.0).unwrap();
        let view = a.view();
        let sizes = [
            size_of_val(view.row_pointers()),
            size_of_val(view.columns()),
            size_of_val(view.values()),
            size_of_val(x.data()),
            a.rows() * k * 8,
        ];
        let slab =
            fixture.device.allocate(sizes.iter().map(|size| size.next_multiple_of(16)).sum::<usize>() as u64);
        let memory = slab.unwrap();
        let mut begin = 0;
        let places = sizes.map(|size| {
            let range = MemoryRange { memory, begin, end: begin + size as u64 };
            begin += size.next_multiple_of(16) as u64;
            range
        });
        Self { a, x, places }
    }

    fn upload(&self, fixture: &mut Fixture, waits: &[Fence]) -> Vec<Fence> {
        let view = self.a.view();
        let [pointers, columns, values, x, _] = self.places;
        vec![
            fixture.upload(view.row_pointers(), pointers, waits).unwrap(),
            fixture.upload(view.columns(), columns, &[]).unwrap(),
            fixture.upload(view.values(), values, &[]).unwrap(),
            fixture.upload(self.x.data(), x, &[]).unwrap(),
        ]
    }

    fn launch(&self, fixture: &mut Fixture, kernel: KernelId, waits: &[Fence]) -> Result<Fence, Fault> {
        self.launch_scaled(fixture, kernel, (1.0, 0.0), waits)
    }

    fn launch_scaled(
        &self,
        fixture: &mut Fixture,
        kernel: KernelId,
        (alpha, beta): (f64, f64),
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        let (rows, k) = (self.a.rows() as u64, self.x.k() as u64);
        let [pointers, columns, values, x, y] = self.places;
        let arguments = vec![
            Argument::Number(rows),
            Argument::Number(k),
            Argument::Read(pointers),
            Argument::Read(columns),
            Argument::Read(values),
            Argument::Read(x),
            Argument::Number(k),
            if beta == 0.0 { Argument::Write(y) } else { Argument::Modify(y) },
            Argument::Number(k),
            Argument::Number(alpha.to_bits()),
            Argument::Number(beta.to_bits()),
        ];
        let variant = CudaKernel::of(kernel).map_or(Variant::PLAIN, CudaKernel::first_variant);
        let launch = Launch {
            kernel,
            dtype: Dtype::F64,
            variant,
            items: rows.into(),
            uniform: false,
            only_heavy: false,
            k,
            arguments,
            batch: None,
        };
        fixture.submit(COMPUTE, Operation::Launch(launch), waits)
    }

    fn expected(&self) -> Vec<u8> {
        let mut y = MultiVector::zeros(self.a.rows(), self.x.k()).unwrap();
        reference::csr(self.a.view(), self.x.view(), &mut y.view_mut()).unwrap();
        bytemuck::cast_slice(y.data()).to_vec()
    }
}

#[test]
fn a_product_equals_the_reference_bit_for_bit_under_random_delays() {
    for seed in 0..20 {
        let mut fixture = Fixture::open(&format!("delay_seed={seed}"));
        let product = Product::new(&mut fixture, 3);
        let mut last = Vec::new();
        for _ in 0..3 {
            // Each round overwrites the bytes of the previous one, which the waits permit.
            let uploads = product.upload(&mut fixture, &last);
            let launch = product.launch(&mut fixture, KernelId::CsrScalarV3, &uploads[3..]).unwrap();
            let (download, y) = fixture.download(product.places[4], &[launch]).unwrap();
            last = vec![download];
            let ends = fixture.ends(6);
            assert!(ends.values().all(|end| end.is_ok()), "{ends:?}");
            assert_eq!(*y.read().unwrap(), product.expected(), "seed {seed}");
        }
    }
}

#[test]
fn the_old_y_must_be_written_and_ordered_before_a_launch_that_reads_it() {
    let mut fixture = Fixture::open("");
    let product = Product::new(&mut fixture, 2);
    let y = product.places[4];
    let uploads = product.upload(&mut fixture, &[]);
    let (kernel, factors) = (KernelId::CsrScalarV3, (2.0, -0.5));
    let launch = product.launch_scaled(&mut fixture, kernel, factors, &uploads).unwrap();
    let ends = fixture.ends(5);
    let fault = ends[&launch].as_ref().unwrap_err();
    assert!(fault.message.contains("y") && fault.message.contains("unwritten"), "{}", fault.message);

    let mut fixture = Fixture::open("");
    let product = Product::new(&mut fixture, 2);
    let uploads = product.upload(&mut fixture, &[]);
    let old: Vec<f64> = (0..product.a.rows() * 2).map(|at| at as f64 / 3.0).collect();
    let old_y = fixture.upload(&old, y, &[]).unwrap();
    let fault = product.launch_scaled(&mut fixture, kernel, factors, &uploads).expect_err("no wait for Y");
    assert!(fault.message.contains("used before ready"), "{}", fault.message);
    let waits: Vec<Fence> = uploads.into_iter().chain([old_y]).collect();
    let launch = product.launch_scaled(&mut fixture, kernel, factors, &waits).unwrap();
    let (_, found) = fixture.download(y, &[launch]).unwrap();
    let ends = fixture.ends(7);
    assert!(ends.values().all(|end| end.is_ok()), "{ends:?}");
    let sums: Vec<f64> = bytemuck::cast_slice(&product.expected()).to_vec();
    let expected: Vec<f64> = sums.iter().zip(&old).map(|(s, y)| (-0.5f64).mul_add(*y, 2.0 * s)).collect();
    assert_eq!(*found.read().unwrap(), *bytemuck::cast_slice::<f64, u8>(&expected));
}

#[test]
fn a_missing_wait_is_found_even_if_the_timing_was_right() {
    let mut fixture = Fixture::open("");
    let product = Product::new(&mut fixture, 2);
    let uploads = product.upload(&mut fixture, &[]);
    assert_eq!(fixture.ends(4).len(), 4);
    // All uploads have completed, but no wait orders the launch after them.
    let fault = product.launch(&mut fixture, KernelId::CsrScalarV3, &uploads[..3]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Misuse);
    assert!(
        fault.message.contains("used before ready") && fault.message.contains("upload 3"),
        "{}",
        fault.message
    );
    let launch = product.launch(&mut fixture, KernelId::CsrScalarV3, &uploads).unwrap();
    assert!(fixture.ends(1)[&launch].is_ok());
    let fault = fixture.download(product.places[4], &uploads).unwrap_err();
    assert!(fault.message.contains("used before ready"), "{}", fault.message);
    let fault = fixture.upload(product.a.view().values(), product.places[2], &[]).unwrap_err();
    assert!(fault.message.contains("reused too early"), "{}", fault.message);
    Device::mark_synchronized(&mut fixture.device);
    assert!(fixture.upload(product.a.view().values(), product.places[2], &[]).is_ok());
    assert!(fixture.download(product.places[4], &[]).is_ok());
}

#[test]
fn the_device_conforms() {
    for options in ["", "delay_seed=3"] {
        conforms(Supports::Copies, |reports| {
            let options = EmulatedOptions::parse(options).unwrap();
            Box::new(EmulatedDevice::open("emu:0", options, Clock::start(), reports).unwrap())
        });
    }
}

#[test]
fn mark_synchronized_orders_nothing_after_operations_in_flight() {
    let mut fixture = Fixture::open("hang_at_operation=1");
    let range = fixture.memory(64);
    fixture.upload(&[1u8; 64], range, &[]).unwrap();
    Device::mark_synchronized(&mut fixture.device);
    assert!(fixture.download(range, &[]).is_err());
}

#[test]
fn a_kernel_fault_is_reported_and_the_device_remains_usable() {
    let mut fixture = Fixture::open("");
    let mut product = Product::new(&mut fixture, 2);
    let uploads = product.upload(&mut fixture, &[]);
    let whole_x = product.places[3];
    product.places[3].end -= 16;
    let wrong = product.launch(&mut fixture, KernelId::CsrVector, &uploads).unwrap();
    product.places[3] = whole_x;
    let (download, _) = fixture.download(product.places[4], &[wrong]).unwrap();
    let right = product.launch(&mut fixture, KernelId::CsrVector, &[uploads[3], download]).unwrap();
    let ends = fixture.ends(7);
    let fault = ends[&wrong].clone().unwrap_err();
    assert_eq!(fault.kind, FaultKind::Misuse);
    assert!(fault.message.contains("csr_vector_f64, block ") && fault.message.contains(" of x, which has"));
    assert!(ends[&download].clone().unwrap_err().message.contains("operation 4 failed"));
    assert!(ends[&right].is_ok());
}

#[test]
fn downloads_of_unwritten_memory_are_reported() {
    let mut fixture = Fixture::open("");
    let range = fixture.memory(64);
    let upload = fixture.upload(&[1u8; 32], MemoryRange { end: 32, ..range }, &[]).unwrap();
    let (download, _) = fixture.download(range, &[upload]).unwrap();
    let fault = fixture.ends(2)[&download].clone().unwrap_err();
    assert!(fault.kind == FaultKind::Misuse && fault.message.contains("byte 32"), "{}", fault.message);
}

#[test]
fn an_injected_fault_affects_its_operation_and_its_readers_only() {
    for (options, failing, failed) in [
        ("fail_copy=2", FaultKind::Copy, &[1, 4, 5][..]),
        ("fail_launch=1", FaultKind::Launch, &[4, 5]),
        ("fail_copy=5", FaultKind::Copy, &[5]),
    ] {
        let mut fixture = Fixture::open(options);
        let product = Product::new(&mut fixture, 1);
        let uploads = product.upload(&mut fixture, &[]);
        let launch = product.launch(&mut fixture, KernelId::CsrScalarV2, &uploads).unwrap();
        let (download, _) = fixture.download(product.places[4], &[launch]).unwrap();
        // A second round on the same bytes, ordered after the failed one but independent of its data.
        let uploads = product.upload(&mut fixture, &[launch]);
        let launch = product.launch(&mut fixture, KernelId::CsrScalarV2, &[uploads[3], download]).unwrap();
        let (_, y) = fixture.download(product.places[4], &[launch]).unwrap();
        let ends = fixture.ends(12);
        for fence in 0..12 {
            let expected = failed.contains(&fence).then_some(failing);
            assert_eq!(kind(&ends[&Fence(fence)]), expected, "{options}: operation {fence}");
        }
        assert_eq!(*y.read().unwrap(), product.expected(), "{options}");
    }
}

#[test]
fn a_fault_is_reported_before_the_operations_that_it_skips() {
    for _ in 0..500 {
        let mut fixture = Fixture::open("fail_copy=1");
        let memory = fixture.memory(64);
        let upload = fixture.upload(&[1u8; 64], memory, &[]).unwrap();
        fixture.download(memory, &[upload]).unwrap();
        let first = fixture.completions.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(first.fence, upload, "{:?}", first.result);
    }
}

#[test]
fn a_lost_device_fails_this_and_every_later_call() {
    let mut fixture = Fixture::open("lost_at_operation=2");
    let range = fixture.memory(64);
    let first = fixture.upload(&[1u8; 64], range, &[]).unwrap();
    let second = fixture.upload(&[2u8; 64], range, &[]).unwrap();
    let ends = fixture.ends(2);
    assert!(ends[&first].is_ok() && kind(&ends[&second]) == Some(FaultKind::Lost));
    assert_eq!(fixture.submit(COMPUTE, Operation::Pass, &[]).unwrap_err().kind, FaultKind::Lost);
    assert_eq!(fixture.device.allocate(1).unwrap_err().kind, FaultKind::Lost);
}

#[test]
fn a_hung_operation_blocks_only_its_lane_and_close_returns() {
    let mut fixture = Fixture::open("hang_at_operation=1");
    let (left, right) = (fixture.memory(64), fixture.memory(64));
    let hung = fixture.upload(&[1u8; 64], left, &[]).unwrap();
    let behind = fixture.upload(&[1u8; 64], right, &[]).unwrap();
    let beside = fixture.submit(COMPUTE, Operation::Pass, &[]).unwrap();
    fixture.submit(COMPUTE, Operation::Pass, &[hung]).unwrap();
    assert_eq!(fixture.ends(1).into_keys().collect::<Vec<_>>(), [beside]);
    assert!(behind > hung);
    Device::close(&mut fixture.device);
    assert!(fixture.completions.recv_timeout(Duration::from_millis(20)).is_err());
    assert_eq!(fixture.submit(COMPUTE, Operation::Pass, &[]).unwrap_err().kind, FaultKind::Lost);
}

#[test]
fn operations_hold_their_host_memory_from_submission_and_hung_ones_also_after_close() {
    let mut fixture = Fixture::open("hang_at_operation=2");
    let range = fixture.memory(64);
    let first = fixture.upload(&[1u8; 64], range, &[]).unwrap();
    let second = fixture.submit(COMPUTE, Operation::Pass, &[first]).unwrap();
    let (_, behind) = fixture.download(range, &[first, second]).unwrap();
    assert!(behind.read().is_err(), "the download waits and does not hold its memory");
    assert!(fixture.ends(1)[&first].is_ok());
    // The lane must have reached the operation that hangs.
    std::thread::sleep(Duration::from_millis(50));
    Device::close(&mut fixture.device);
    assert!(behind.read().is_err(), "a closed device released memory that a hung operation may write");
}

#[test]
fn a_lane_that_panics_is_lost_and_answers_for_every_operation() {
    let mut fixture = Fixture::open("panic_at_operation=2");
    let range = fixture.memory(64);
    let first = fixture.upload(&[1u8; 64], range, &[]).unwrap();
    let second = fixture.upload(&[2u8; 64], range, &[]).unwrap();
    let Ok((third, returned)) = fixture.download(range, &[second]) else {
        // The panic came first.
        return;
    };
    let ends = fixture.ends(3);
    assert!(ends[&first].is_ok());
    assert_eq!((kind(&ends[&second]), kind(&ends[&third])), (Some(FaultKind::Lost), Some(FaultKind::Lost)));
    assert!(returned.write().is_ok(), "the memory of a failed operation is still held");
    assert_eq!(fixture.device.allocate(1).unwrap_err().kind, FaultKind::Lost);
}

#[test]
fn closing_abandons_kernels_at_the_next_block() {
    let mut fixture = Fixture::open("");
    let product = Product::new(&mut fixture, 32);
    let uploads = product.upload(&mut fixture, &[]);
    let mut last = uploads[3];
    for _ in 0..200 {
        last = product.launch(&mut fixture, KernelId::CsrVector, &[last]).unwrap();
    }
    Device::close(&mut fixture.device);
    assert!(fixture.completions.try_iter().count() < 204);
}

#[test]
fn allocations_fail_at_the_limit_and_at_the_injected_fault() {
    let mut fixture = Fixture::open("memory_bytes=1000&out_of_memory_at_allocation=2");
    assert_eq!(fixture.device.allocate(1001).unwrap_err().kind, FaultKind::OutOfMemory);
    assert_eq!(fixture.device.allocate(1).unwrap_err().kind, FaultKind::OutOfMemory);
    assert!(fixture.device.allocate(600).is_ok());
    assert_eq!(fixture.device.allocate(401).unwrap_err().kind, FaultKind::OutOfMemory);
    assert!(fixture.device.allocate(400).is_ok());
}

#[test]
fn invalid_operations_are_refused_and_change_nothing() {
    let mut fixture = Fixture::open("");
    let product = Product::new(&mut fixture, 2);
    let range = fixture.memory(64);
    let pinned = fixture.device.allocate_pinned(64).unwrap();
    let from = |begin, end| PinnedRange { pinned: pinned.clone(), begin, end };
    let beyond = MemoryRange { end: 65, ..range };
    let elsewhere = MemoryRange { memory: Memory(9), ..range };
    let wrong = [
        (UPLOAD, Operation::upload(from(0, 65), beyond)),
        (UPLOAD, Operation::upload(from(0, 64), elsewhere)),
        (UPLOAD, Operation::upload(from(0, 32), range)),
        (UPLOAD, Operation::upload(from(64, 0), MemoryRange { begin: 64, end: 0, ..range })),
        (COMPUTE, Operation::upload(from(0, 64), range)),
        (DOWNLOAD, Operation::download(beyond, from(0, 64))),
        (COMPUTE, Operation::Job(Box::new(|| Ok(())))),
        (7, Operation::Pass),
    ];
    for (at, (lane, operation)) in wrong.into_iter().enumerate() {
        assert_eq!(fixture.submit(lane, operation, &[]).unwrap_err().kind, FaultKind::Misuse, "{at}");
    }
    for kernel in [KernelId::CpuCsr, KernelId::Ellpack] {
        assert_eq!(product.launch(&mut fixture, kernel, &[]).unwrap_err().kind, FaultKind::Misuse);
    }
    assert_eq!(fixture.submit(COMPUTE, Operation::Pass, &[Fence(0)]).unwrap_err().kind, FaultKind::Misuse);
    assert_eq!(fixture.submit(COMPUTE, Operation::Pass, &[]).unwrap(), Fence(0));
}

#[test]
fn two_devices_run_kernels_with_shared_memory_concurrently() {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut fixture = Fixture::open("");
                let product = Product::new(&mut fixture, 4);
                let uploads = product.upload(&mut fixture, &[]);
                let launch = product.launch(&mut fixture, KernelId::CsrVector, &uploads).unwrap();
                let (_, y) = fixture.download(product.places[4], &[launch]).unwrap();
                assert!(fixture.ends(6).values().all(Result::is_ok));
                // Only the length: concurrent launches must not disturb each other's shared memory.
                assert_eq!(y.read().unwrap().len(), product.expected().len());
            });
        }
    });
}

#[test]
fn a_failed_copy_is_no_obstacle_to_operations_that_write_its_bytes_later_and_its_bytes_cannot_be_read() {
    let mut fixture = Fixture::open("fail_copy=2");
    let memory = fixture.memory(64);
    fixture.upload(&[1u8; 64], memory, &[]).unwrap();
    let failed = fixture.upload(&[2u8; 32], MemoryRange { end: 32, ..memory }, &[]).unwrap();
    assert_eq!(kind(&fixture.ends(2)[&failed]), Some(FaultKind::Copy));
    Device::mark_synchronized(&mut fixture.device);
    let (stale, _) = fixture.download(memory, &[]).unwrap();
    let fault = fixture.ends(1)[&stale].clone().unwrap_err();
    assert!(fault.kind == FaultKind::Misuse && fault.message.contains("byte 0"), "{}", fault.message);
    let repeated = fixture.upload(&[3u8; 32], MemoryRange { end: 32, ..memory }, &[stale]).unwrap();
    let (download, bytes) = fixture.download(memory, &[repeated]).unwrap();
    let ends = fixture.ends(2);
    assert!(ends[&repeated].is_ok() && ends[&download].is_ok());
    assert_eq!(*bytes.read().unwrap(), [[3u8; 32], [1; 32]].concat()[..]);
}
