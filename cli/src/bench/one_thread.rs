//! The default kernel of the CPU on one thread: the baseline of speed-ups where a case has more threads.

use crate::measure::{Expected, HostBench, KernelNames, KernelResult, Subject, bench_kernels};
use crate::operands::session::Session;
use crate::results::ONE_THREAD_KERNEL;
use crate::statistics::BenchSettings;
use rowloom::internal::error::Result;
use rowloom::internal::kernel::Schedule;
use rowloom::internal::kernel::cpu::{CpuSettings, Kernels};
use rowloom::internal::machine::Isa;
use rowloom::internal::matrix::{CsrView, MultiVectorView};
use rowloom::internal::runtime::Pool;

/// A pool of one thread, where the kernel is among those to measure and the session has more threads.
pub fn one_thread_pool(session: &Session, names: &KernelNames) -> Result<Option<Pool>> {
    let is_measured = names.take(ONE_THREAD_KERNEL, ONE_THREAD_KERNEL.name());
    let is_needed = is_measured && session.pool.threads() > 1;
    is_needed.then(|| Pool::new(&session.machine, Some(1))).transpose()
}

/// Measures and checks the kernel on the thread of `pool`; none after a signal.
pub fn one_thread<T: Kernels>(
    (session, pool): (&Session, &Pool),
    matrix: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    expected: &Expected<'_, T>,
    settings: BenchSettings,
) -> Result<Option<KernelResult>> {
    let cpu = CpuSettings { k: 0, threads: 1, isa: Isa::detect(), schedule: Schedule::Balanced };
    let name = [ONE_THREAD_KERNEL.name().to_owned()];
    let mut subject =
        HostBench::new(pool, matrix, &KernelNames::new(&name)?, cpu, session.memory_limit_bytes());
    subject.take_x(x)?;
    let results = bench_kernels(pool, &mut subject, x, expected, settings, &|| !session.interrupt.asked())?;
    Ok(results.and_then(|results| results.into_iter().next()))
}
