//! What cases share: thread pools and open runtimes; and what draws share: random numbers, counters and the options of the run.

use std::collections::HashMap;
use std::sync::Arc;

use rowloom::internal::kernel::KernelId;
use rowloom::internal::machine::Machine;
use rowloom::internal::runtime::{Pool, Runtime};

use crate::coverage::{Coverage, columns_bucket, factor_bucket};
use crate::random::Random;
use crate::{cpu, runtime};

/// Runtimes with emulated devices that are open at a time: each such device maps a stack per thread of a block, and a process has a
/// limited number of mappings. Others stay open: to open a card again takes longer than many products.
const MOST_EMULATED: usize = 6;

/// Threads of runtimes with cards, whatever is drawn.
const CARD_THREADS: usize = 2;

/// Pools and runtimes, which stay open between cases.
pub struct Lab {
    machine: Machine,
    pools: HashMap<usize, Arc<rayon::ThreadPool>>,
    worker_pools: HashMap<usize, Arc<Pool>>,
    /// By devices and threads, in the order of their last use.
    runtimes: Vec<((&'static str, usize), Runtime)>,
}

impl Lab {
    pub fn new() -> Self {
        let (pools, worker_pools, runtimes) = (HashMap::new(), HashMap::new(), Vec::new());
        Self { machine: Machine::detect(), pools, worker_pools, runtimes }
    }

    /// Forgets everything that a panic may have left in an undefined state.
    pub fn renew(&mut self) {
        self.pools.clear();
        self.worker_pools.clear();
        self.runtimes.clear();
    }

    pub fn pool(&mut self, threads: usize) -> Arc<rayon::ThreadPool> {
        let start = || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            Arc::new(pool.expect("threads can be started"))
        };
        self.pools.entry(threads).or_insert_with(start).clone()
    }

    pub fn runtime(&mut self, devices: &'static str, threads: usize) -> rowloom::Result<Runtime> {
        // Every runtime has its own context on a card, which takes a second to create and half a gigabyte of its memory.
        let threads = if devices.contains("cuda") { CARD_THREADS } else { threads };
        let key = (devices, threads);
        if let Some(at) = self.runtimes.iter().position(|(known, _)| *known == key) {
            let used = self.runtimes.remove(at);
            let runtime = used.1.clone();
            self.runtimes.push(used);
            return Ok(runtime);
        }
        let is_emulated = |(devices, _): &(&'static str, usize)| devices.contains("emu");
        if is_emulated(&key)
            && self.runtimes.iter().filter(|(known, _)| is_emulated(known)).count() >= MOST_EMULATED
        {
            let oldest = self.runtimes.iter().position(|(known, _)| is_emulated(known));
            oldest.map(|at| self.runtimes.remove(at));
        }
        let pool = match self.worker_pools.get(&threads) {
            Some(pool) => pool.clone(),
            None => {
                let pool = Arc::new(Pool::new(&self.machine, Some(threads))?);
                self.worker_pools.insert(threads, pool.clone());
                pool
            }
        };
        let builder = Runtime::builder().devices(devices).model("none").refine(false);
        let runtime = builder.pool(self.machine.clone(), pool).open()?;
        self.runtimes.push((key, runtime.clone()));
        Ok(runtime)
    }
}

/// The options of the run that restrict or extend what is drawn.
#[derive(Debug, Clone, Default)]
pub struct Restrictions {
    pub cuda: bool,
    pub kernel: Option<KernelId>,
}

/// The state of drawing one case.
pub struct Drawing<'a> {
    pub random: Random,
    pub coverage: &'a mut Coverage,
    pub restrictions: &'a Restrictions,
}

impl Drawing<'_> {
    fn restricted(&self, kernels: Vec<KernelId>) -> Vec<KernelId> {
        match self.restrictions.kernel {
            Some(kernel) if kernels.contains(&kernel) => vec![kernel],
            _ => kernels,
        }
    }

    pub fn cpu_kernels(&self) -> Vec<KernelId> {
        self.restricted(cpu::kernels())
    }

    /// The kernels that a family of the runtime draws by name.
    pub fn kernels_for(&self, family: &str) -> Vec<KernelId> {
        if family == "runtime" { self.cpu_kernels() } else { self.restricted(runtime::gpu_kernels()) }
    }

    /// Leaves out a kernel for other matrices or other products: what the library refuses is asked for rarely.
    pub fn leave_out_refused(&mut self, kernels: &mut Vec<KernelId>, refused: KernelId) {
        if kernels.len() > 1 && !self.random.one_in(10) {
            kernels.retain(|&kernel| kernel != refused);
        }
    }

    pub fn fixes_kernel(&self) -> bool {
        self.restrictions.kernel.is_some()
    }

    pub fn count_runs(&mut self, family: &'static str, factors: impl IntoIterator<Item = (f64, f64)>) {
        for (alpha, beta) in factors {
            self.coverage.count(family, "alpha", factor_bucket(alpha));
            self.coverage.count(family, "beta", factor_bucket(beta));
        }
    }

    pub fn count_columns(&mut self, family: &'static str, k: usize) {
        self.coverage.count(family, "K", columns_bucket(k));
    }
}
