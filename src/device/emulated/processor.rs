#![allow(unsafe_code)] // The emulator's bridge: abandons coroutines in the middle of a kernel that failed.
//! Runs grids block by block and warp by warp. Each waiting thread has its own stack; stacks are reused.
//!
//! A runner is a coroutine that starts one thread after the other and yields only if a thread has to wait for others. A
//! kernel without barriers therefore runs on one stack.

use std::sync::atomic::{AtomicBool, Ordering};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult};

use super::barriers::{Block, LANES, State, block_state, release_warp, stuck_warp};
use super::bridge::{Context, Parts, Pause};
use super::fault::{FaultCause, Index3, KernelFault};
use super::memory::Allocation;
use super::region::Region;

/// Bytes of a thread's stack.
const STACK_BYTES: usize = 64 << 10;

/// The most shared memory of a block, as on the largest cards.
pub const SHARED_BYTES: usize = 227 << 10;

/// A grid to run.
pub struct Grid<'a> {
    /// The entry's name, for messages.
    pub name: &'a str,
    /// The launch.
    pub parts: Parts<'a>,
    /// The regions that its pointers may access.
    pub regions: Vec<Region<'a>>,
}

struct Runner {
    coroutine: Coroutine<(), Pause, ()>,
    /// Bounds of its stack.
    stack: (usize, usize),
}

/// The processor of an emulated device. One host thread uses it.
pub struct Processor {
    runners: Vec<Runner>,
    idle: Vec<usize>,
    stacks: Vec<DefaultStack>,
    shared_memory: Allocation,
}

impl Processor {
    /// A processor; `None` if the host has no memory for it.
    pub fn new() -> Option<Self> {
        let shared_memory = Allocation::new(SHARED_BYTES)?;
        Some(Self { runners: Vec::new(), idle: Vec::new(), stacks: Vec::new(), shared_memory })
    }

    /// Runs the blocks of a grid until the first fault. `stop` is checked before each block.
    pub fn run(&mut self, grid: Grid<'_>, stop: &AtomicBool) -> Result<(), KernelFault> {
        let Self { runners, idle, stacks, shared_memory } = self;
        let Grid { name, parts, regions } = grid;
        let dynamic_bytes = parts.dynamic_shared_bytes;
        let context = Context::new(parts, regions, shared_memory);
        let mut block = BlockRun { context: &context, runners, idle, stacks, holders: Vec::new() };
        let result = context.enter(|| {
            if dynamic_bytes > SHARED_BYTES {
                return Err(FaultCause::SharedMemory { bytes: dynamic_bytes, limit_bytes: SHARED_BYTES });
            }
            for z in 0..context.grid.z {
                for y in 0..context.grid.y {
                    for x in 0..context.grid.x {
                        if stop.load(Ordering::Relaxed) {
                            return Err(FaultCause::Stopped);
                        }
                        context.block.set(Index3 { x, y, z });
                        block.run()?;
                    }
                }
            }
            Ok(())
        });
        let thread = context.thread_index(context.thread.get());
        let fault = |cause| KernelFault { kernel: name.into(), block: context.block.get(), thread, cause };
        let result = result.map_err(fault);
        if result.is_err() {
            self.abandon_runners();
        }
        result
    }

    /// Abandons all threads and recovers their stacks.
    fn abandon_runners(&mut self) {
        self.idle.clear();
        for mut runner in self.runners.drain(..) {
            // SAFETY: the stack holds frames of a kernel and of the bridge, which own no resources.
            unsafe { runner.coroutine.force_reset() };
            self.stacks.push(runner.coroutine.into_stack());
        }
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        self.abandon_runners();
    }
}

struct BlockRun<'a, 'b> {
    context: &'a Context<'a>,
    runners: &'b mut Vec<Runner>,
    idle: &'b mut Vec<usize>,
    stacks: &'b mut Vec<DefaultStack>,
    /// For each waiting thread its runner.
    holders: Vec<usize>,
}

impl BlockRun<'_, '_> {
    fn run(&mut self) -> Result<(), FaultCause> {
        let context = self.context;
        let threads = context.states.borrow().len();
        self.holders.resize(threads, 0);
        context.states.borrow_mut().fill(State::Ready);
        context.forget_shared_memory();
        let mut begun = false;
        loop {
            for first in (0..threads).step_by(LANES) {
                self.run_warp(first, (first + LANES).min(threads), begun)?;
            }
            begun = true;
            let state = block_state(&context.states.borrow());
            match state {
                Block::Done => return Ok(()),
                Block::AtBarrier => context.states.borrow_mut().fill(State::Ready),
                Block::Diverged { waiting, count, line, absent, absent_line } => {
                    context.thread.set(waiting);
                    let absent = context.thread_index(absent);
                    return Err(FaultCause::Barrier { line, waiting: count, absent, absent_line });
                }
            }
        }
    }

    /// Runs a warp until each of its threads has returned or waits at a block barrier.
    fn run_warp(&mut self, first: usize, end: usize, begun: bool) -> Result<(), FaultCause> {
        let context = self.context;
        if begun {
            self.resume_ready(first, end)?;
        } else {
            context.next_thread.set(first);
            context.warp_end.set(end);
            while context.next_thread.get() < end {
                let runner = self.idle_runner()?;
                self.resume(runner)?;
            }
        }
        loop {
            let released = {
                let (mut states, mut answers) = (context.states.borrow_mut(), context.answers.borrow_mut());
                release_warp(&mut states[first..end], &mut answers[first..end])
            };
            match released {
                Ok(true) => self.resume_ready(first, end)?,
                Ok(false) => break,
                Err((lane, cause)) => return self.fail(first + lane, cause),
            }
        }
        let stuck = stuck_warp(&context.states.borrow()[first..end]);
        stuck.map_or(Ok(()), |(lane, cause)| self.fail(first + lane, cause))
    }

    fn fail(&self, thread: usize, cause: FaultCause) -> Result<(), FaultCause> {
        self.context.thread.set(thread);
        Err(cause)
    }

    /// Resumes the ready threads of a warp.
    fn resume_ready(&mut self, first: usize, end: usize) -> Result<(), FaultCause> {
        for thread in first..end {
            let ready = self.context.states.borrow()[thread] == State::Ready;
            if ready {
                self.resume(self.holders[thread])?;
            }
        }
        Ok(())
    }

    fn resume(&mut self, number: usize) -> Result<(), FaultCause> {
        let runner = &mut self.runners[number];
        self.context.stack.set(runner.stack);
        match runner.coroutine.resume(()) {
            CoroutineResult::Yield(Pause::Waiting) => self.holders[self.context.thread.get()] = number,
            CoroutineResult::Yield(Pause::Failed) => {
                return Err(self.context.cause.take().unwrap_or(FaultCause::Stopped));
            }
            CoroutineResult::Yield(Pause::Idle) | CoroutineResult::Return(()) => self.idle.push(number),
        }
        Ok(())
    }

    fn idle_runner(&mut self) -> Result<usize, FaultCause> {
        if let Some(number) = self.idle.pop() {
            return Ok(number);
        }
        let threads = self.runners.len();
        let stack = match self.stacks.pop() {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_BYTES).map_err(|_| FaultCause::Stacks { threads })?,
        };
        let bounds = (stack.limit().get(), stack.base().get());
        let coroutine = Coroutine::with_stack(stack, |yielder, ()| Context::run_threads(yielder));
        self.runners.push(Runner { coroutine, stack: bounds });
        Ok(threads)
    }
}
