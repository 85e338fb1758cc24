//! What all workers use: runtimes, matrices, plans and vectors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rowloom::Result;
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::{Pool, Runtime, Vectors};

pub const MATRICES: [&str; 8] = [
    "stencil27,n=6",
    "rmat,scale=8,degree=6",
    "hub,rows=400,degree=3,hubs=2",
    "arrow,rows=300",
    "road,n=500",
    "fem3,n=4",
    "diagonal,rows=200",
    "uniform,rows=150,degree=20",
];
/// Plans and vectors that wait for another worker.
const MOST_HANDED_ON: usize = 16;

/// A plan that one worker made and others use.
#[derive(Clone)]
pub struct HandedPlan {
    pub devices: &'static str,
    pub matrix: usize,
    pub columns: usize,
    pub plan: Plan,
}

/// Vectors on devices that several workers read.
pub struct HandedVectors {
    pub vectors: Vectors<f64>,
    pub expected: MultiVector<f64>,
}

/// Shared by all workers.
pub struct Shared {
    machine: Machine,
    pool: Arc<Pool>,
    /// A runtime per device list, open for the whole time.
    runtimes: Mutex<HashMap<&'static str, Runtime>>,
    pub matrices: Vec<Arc<Csr<f64>>>,
    plans: Mutex<Vec<HandedPlan>>,
    vectors: Mutex<Vec<Arc<HandedVectors>>>,
}

impl Shared {
    pub fn new() -> Result<Self> {
        let machine = Machine::detect();
        let pool = Arc::new(Pool::new(&machine, Some(2))?);
        let matrices = MATRICES.iter().map(|words| Ok(Arc::new(generate(words, 1, u64::MAX)?.matrix)));
        let matrices = matrices.collect::<Result<_>>()?;
        let (runtimes, plans, vectors) = Default::default();
        Ok(Self { machine, pool, runtimes, matrices, plans, vectors })
    }

    /// A new runtime.
    pub fn open(&self, devices: &str) -> Result<Runtime> {
        let builder = Runtime::builder().devices(devices).model("none").refine(false);
        builder.pool(self.machine.clone(), self.pool.clone()).open()
    }

    /// The runtime that all workers have for these devices.
    pub fn runtime(&self, devices: &'static str) -> Result<Runtime> {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        if !runtimes.contains_key(devices) {
            runtimes.insert(devices, self.open(devices)?);
        }
        Ok(runtimes[devices].clone())
    }

    pub fn hand_on_plan(&self, plan: HandedPlan) {
        push(&self.plans, plan);
    }

    /// The plan at `place`, counted round.
    pub fn handed_plan(&self, place: usize) -> Option<HandedPlan> {
        pick(&self.plans, place)
    }

    pub fn hand_on_vectors(&self, vectors: HandedVectors) {
        push(&self.vectors, Arc::new(vectors));
    }

    /// The vectors at `place`, counted round.
    pub fn handed_vectors(&self, place: usize) -> Option<Arc<HandedVectors>> {
        pick(&self.vectors, place)
    }

    /// Drops what was handed on, so that its number does not count as growth.
    pub fn clear(&self) {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.vectors.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Keeps the newest ones. The oldest is dropped after the lock is released.
fn push<T>(to: &Mutex<Vec<T>>, one: T) {
    let mut all = to.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(one);
    let oldest = (all.len() > MOST_HANDED_ON).then(|| all.remove(0));
    drop(all);
    drop(oldest);
}

fn pick<T: Clone>(from: &Mutex<Vec<T>>, place: usize) -> Option<T> {
    let all = from.lock().unwrap_or_else(PoisonError::into_inner);
    if all.is_empty() { None } else { Some(all[place % all.len()].clone()) }
}
