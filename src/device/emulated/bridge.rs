#![allow(unsafe_code)] // The emulator's bridge: functions that kernels compiled from C++ call.
//! The bridge between kernels compiled by the host's C++ compiler and the emulator.
//!
//! The kernels are compiled with thread-sanitizer instrumentation, and the build renames the functions that the compiler calls: each
//! load and store calls one of the `rowloom_tsan_…` functions here, and no sanitizer library is linked. For misaligned addresses the
//! kernels call `rowloom_ubsan_…`, for CUDA's built-ins other `rowloom_…` functions. All of them find the running launch of their host
//! thread in [`CURRENT`], and none of them unwinds.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use corosensei::Yielder;

use super::barriers::{State, WarpCall, WarpKind};
use super::entries::Entry;
use super::fault::{AccessKind, FaultCause, Index3};
use super::memory::Allocation;
use super::region::{Region, outside};

/// The most static shared memory of a block.
pub const STATIC_SHARED_BYTES: usize = 48 << 10;

/// Bytes left free between shared variables, so that an overrun is detected.
const GAP_BYTES: usize = 64;

/// Why a runner yielded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// All threads of the warp have started.
    Idle,
    /// Its thread waits for others.
    Waiting,
    /// Its thread faulted and must not be resumed.
    Failed,
}

/// A running launch.
pub struct Context<'a> {
    pub entry: Entry,
    pub arguments: &'a [u64],
    pub grid: Index3,
    pub block_size: Index3,
    /// The running block.
    pub block: Cell<Index3>,
    /// The running thread, numbered within its block.
    pub thread: Cell<usize>,
    /// The first thread of the warp that has not started.
    pub next_thread: Cell<usize>,
    pub warp_end: Cell<usize>,
    /// For each thread of the block its state, and the result of its last warp operation.
    pub states: RefCell<Vec<State>>,
    pub answers: RefCell<Vec<u64>>,
    /// The cause of the fault, if any.
    pub cause: Cell<Option<FaultCause>>,
    /// Bounds of the stack that the running thread uses.
    pub stack: Cell<(usize, usize)>,
    yielder: Cell<*const Yielder<(), Pause>>,
    regions: UnsafeCell<Vec<Region<'a>>>,
    shared_memory: &'a Allocation,
    shared_used: Cell<usize>,
    /// For each shared variable the address of its key and the index of its region.
    shared_variables: RefCell<Vec<(usize, usize)>>,
    dynamic_region: usize,
}

thread_local! {
    /// The running launch of this host thread.
    static CURRENT: Cell<*const Context<'static>> = const { Cell::new(ptr::null()) };
}

/// The parameters of a launch, without its memory.
pub struct Parts<'a> {
    pub entry: Entry,
    pub arguments: &'a [u64],
    pub grid: [u32; 3],
    pub block_size: [u32; 3],
    pub dynamic_shared_bytes: usize,
}

impl<'a> Context<'a> {
    /// A launch that may access `regions` and the shared variables that it declares in `shared_memory`.
    pub fn new(parts: Parts<'a>, mut regions: Vec<Region<'a>>, shared_memory: &'a Allocation) -> Self {
        let index = |[x, y, z]: [u32; 3]| Index3 { x, y, z };
        let threads = parts.block_size.iter().map(|size| *size as usize).product();
        let dynamic_region = regions.len();
        let dynamic = 0..parts.dynamic_shared_bytes.min(shared_memory.bytes());
        regions.push(Region::new("the dynamic shared memory", shared_memory, dynamic.clone(), true));
        Self {
            entry: parts.entry,
            arguments: parts.arguments,
            grid: index(parts.grid),
            block_size: index(parts.block_size),
            block: Cell::default(),
            thread: Cell::default(),
            next_thread: Cell::default(),
            warp_end: Cell::default(),
            states: RefCell::new(vec![State::Ready; threads]),
            answers: RefCell::new(vec![0; threads]),
            cause: Cell::default(),
            stack: Cell::default(),
            yielder: Cell::new(ptr::null()),
            regions: UnsafeCell::new(regions),
            shared_memory,
            shared_used: Cell::new(dynamic.end),
            shared_variables: RefCell::default(),
            dynamic_region,
        }
    }

    /// Runs `body` as this host thread's launch.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        let before = CURRENT.replace(ptr::from_ref(self).cast());
        let result = body();
        CURRENT.set(before);
        result
    }

    /// The index within the block of thread number `thread`.
    pub fn thread_index(&self, thread: usize) -> Index3 {
        let (width, height) = (self.block_size.x.max(1), self.block_size.y.max(1));
        let thread = thread as u32;
        Index3 { x: thread % width, y: thread / width % height, z: thread / width / height }
    }

    /// Marks the shared memory as unwritten, for a new block.
    pub fn forget_shared_memory(&self) {
        // SAFETY: only this launch uses its processor's shared memory, and no thread of it runs now.
        unsafe { self.shared_memory.forget(0..self.shared_used.get()) };
    }

    /// The body of a runner: starts the threads of the warp one after the other and yields when none is left.
    pub fn run_threads(yielder: &Yielder<(), Pause>) {
        loop {
            match current() {
                Some(context) if context.next_thread.get() < context.warp_end.get() => {
                    let thread = context.next_thread.get();
                    context.next_thread.set(thread + 1);
                    context.thread.set(thread);
                    context.yielder.set(yielder);
                    // SAFETY: the arguments were checked against the entry's parameters when they were bound, and every
                    // access is checked before it is executed.
                    unsafe { context.entry.call(context.arguments) };
                    context.states.borrow_mut()[thread] = State::Done;
                }
                _ => yielder.suspend(Pause::Idle),
            }
        }
    }

    /// Suspends the running thread until the others have arrived. Returns its result.
    fn wait(&self, state: State) -> u64 {
        let (thread, yielder) = (self.thread.get(), self.yielder.get());
        self.states.borrow_mut()[thread] = state;
        // SAFETY: it belongs to the runner of this thread, which outlives the thread.
        unsafe { (*yielder).suspend(Pause::Waiting) };
        self.thread.set(thread);
        self.yielder.set(yielder);
        self.answers.borrow()[thread]
    }

    /// Ends the launch with a fault. The running thread is abandoned.
    #[cold]
    fn fail(&self, cause: FaultCause) -> ! {
        self.cause.set(Some(cause));
        // SAFETY: as in `wait`.
        unsafe { (*self.yielder.get()).suspend(Pause::Failed) };
        // A runner whose thread failed is never resumed.
        std::process::abort()
    }

    #[inline]
    fn access(&self, access: AccessKind, address: usize, bytes: usize) {
        // SAFETY: only `shared_variable` changes the list, and not while this runs.
        let regions = unsafe { &*self.regions.get() };
        for region in regions {
            if region.contains(address, bytes) {
                if !region.allows(access, address, bytes)
                    && let Err(cause) = region.check(access, address, bytes)
                {
                    self.fail(cause);
                }
                return;
            }
        }
        let (low, high) = self.stack.get();
        if address < low || address >= high {
            self.fail(outside(regions, access, address, bytes));
        }
    }

    /// Reports an access at an address that is not aligned for its type.
    #[cold]
    fn misaligned(&self, address: usize, alignment: usize, line: u32) {
        // SAFETY: as in `access`.
        let regions = unsafe { &*self.regions.get() };
        if let Some(region) = regions.iter().find(|region| region.contains(address, 1)) {
            let (name, offset) = (region.name.to_owned(), address - region.address());
            self.fail(FaultCause::Misaligned { region: name, offset, alignment, line });
        }
    }

    fn shared_variable(&self, key: usize, name: &'static str, bytes: usize, alignment: usize) -> usize {
        // SAFETY: no thread is inside `access` now.
        let regions = unsafe { &mut *self.regions.get() };
        let known = self.shared_variables.borrow().iter().find(|(other, _)| *other == key).map(|(_, at)| *at);
        if let Some(region) = known.and_then(|at| regions.get(at)) {
            return region.address();
        }
        let begin = (self.shared_used.get() + GAP_BYTES).next_multiple_of(alignment.max(16));
        let limit_bytes = STATIC_SHARED_BYTES.min(self.shared_memory.bytes());
        if begin.saturating_add(bytes) > limit_bytes {
            self.fail(FaultCause::SharedMemory { bytes: begin.saturating_add(bytes), limit_bytes });
        }
        self.shared_used.set(begin + bytes);
        // SAFETY: only this launch uses its processor's shared memory, and this variable is new to it.
        unsafe { self.shared_memory.forget(begin..begin + bytes) };
        self.shared_variables.borrow_mut().push((key, regions.len()));
        let region = Region::new(name, self.shared_memory, begin..begin + bytes, true);
        let address = region.address();
        regions.push(region);
        address
    }
}

/// The running launch of this host thread.
#[inline]
fn current() -> Option<&'static Context<'static>> {
    // SAFETY: set by `Context::enter` while the launch is alive, and used only by code that runs inside it.
    unsafe { CURRENT.get().as_ref() }
}

#[inline]
fn access(access: AccessKind, address: *const c_void, bytes: usize) {
    if let Some(context) = current() {
        context.access(access, address as usize, bytes);
    }
}

macro_rules! accesses {
    ($($kind:ident $bytes:literal: $($name:ident)+;)+) => {$($(
        #[unsafe(no_mangle)]
        extern "C" fn $name(address: *const c_void) {
            access(AccessKind::$kind, address, $bytes);
        }
    )+)+};
}

accesses! {
    Read 1: rowloom_tsan_read1;
    Read 2: rowloom_tsan_read2 rowloom_tsan_unaligned_read2;
    Read 4: rowloom_tsan_read4 rowloom_tsan_unaligned_read4;
    Read 8: rowloom_tsan_read8 rowloom_tsan_unaligned_read8;
    Read 16: rowloom_tsan_read16 rowloom_tsan_unaligned_read16;
    Write 1: rowloom_tsan_write1;
    Write 2: rowloom_tsan_write2 rowloom_tsan_unaligned_write2;
    Write 4: rowloom_tsan_write4 rowloom_tsan_unaligned_write4;
    Write 8: rowloom_tsan_write8 rowloom_tsan_unaligned_write8;
    Write 16: rowloom_tsan_write16 rowloom_tsan_unaligned_write16;
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_tsan_read_range(address: *const c_void, bytes: usize) {
    access(AccessKind::Read, address, bytes);
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_tsan_write_range(address: *const c_void, bytes: usize) {
    access(AccessKind::Write, address, bytes);
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_tsan_memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    access(AccessKind::Read, from, bytes);
    access(AccessKind::Write, to, bytes);
    // SAFETY: both ranges were checked; `copy` allows them to overlap.
    unsafe { ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    to
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_tsan_memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    rowloom_tsan_memcpy(to, from, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_tsan_memset(to: *mut c_void, byte: i32, bytes: usize) -> *mut c_void {
    access(AccessKind::Write, to, bytes);
    // SAFETY: checked.
    unsafe { ptr::write_bytes(to.cast::<u8>(), byte as u8, bytes) };
    to
}

/// The compiler's description of an access whose address may be misaligned.
#[repr(C)]
struct TypeMismatch {
    file: *const c_char,
    line: u32,
    column: u32,
    kind_of_type: *const c_void,
    log2_alignment: u8,
    kind_of_access: u8,
}

/// Called for an address that is not aligned for its type.
///
/// # Safety
/// `mismatch` is a constant generated by the compiler.
#[unsafe(no_mangle)]
unsafe extern "C" fn rowloom_ubsan_handle_type_mismatch_v1(mismatch: *const TypeMismatch, address: usize) {
    // SAFETY: a constant of the compiled kernel.
    let (line, alignment) = unsafe { ((*mismatch).line, 1usize << ((*mismatch).log2_alignment % 32)) };
    if let Some(context) = current() {
        context.misaligned(address, alignment, line);
    }
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_tsan_init() {}

#[unsafe(no_mangle)]
extern "C" fn rowloom_tsan_func_entry(_caller: *const c_void) {}

#[unsafe(no_mangle)]
extern "C" fn rowloom_tsan_func_exit() {}

#[unsafe(no_mangle)]
extern "C" fn rowloom_thread_index() -> Index3 {
    current().map_or(Index3::default(), |context| context.thread_index(context.thread.get()))
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_block_index() -> Index3 {
    current().map_or(Index3::default(), |context| context.block.get())
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_block_size() -> Index3 {
    current().map_or(Index3::default(), |context| context.block_size)
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_grid_size() -> Index3 {
    current().map_or(Index3::default(), |context| context.grid)
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_barrier(line: u32) {
    if let Some(context) = current() {
        context.wait(State::Barrier { line });
    }
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_warp(kind: u32, mask: u32, line: u32, value: u64, from: u32, width: u32) -> u64 {
    let kind = WarpKind::by_number(kind);
    current()
        .map_or(value, |context| context.wait(State::Warp(WarpCall { kind, mask, line, value, from, width })))
}

/// The address of a shared variable, which is the same for all threads of a block.
///
/// # Safety
/// `name` is a zero-terminated string that lives as long as the program.
#[unsafe(no_mangle)]
unsafe extern "C" fn rowloom_shared(
    key: *const c_void,
    name: *const c_char,
    bytes: usize,
    alignment: usize,
) -> *mut c_void {
    // SAFETY: the header passes a string literal.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("a shared variable");
    let address =
        current().map_or(0, |context| context.shared_variable(key as usize, name, bytes, alignment));
    ptr::with_exposed_provenance_mut(address)
}

#[unsafe(no_mangle)]
extern "C" fn rowloom_dynamic_shared() -> *mut c_void {
    let address = current().map_or(0, |context| {
        // SAFETY: as in `Context::access`.
        let regions = unsafe { &*context.regions.get() };
        regions.get(context.dynamic_region).map_or(0, Region::address)
    });
    ptr::with_exposed_provenance_mut(address)
}
