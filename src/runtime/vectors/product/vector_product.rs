//! A product on multivectors that stay on its devices: A is resident, no row is divided, rows of X are exchanged before it.
//!
//! With one owner of all rows, the kernels are queued and nothing is waited for. With several owners, the exchange and the chunks are
//! tasks of a graph, which is built once and run to its end with every product.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::check::VectorCheck;
use crate::device::completion::Timeouts;
use crate::device::{Description, NetworkDevice};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::CsrView;
use crate::plan::Plan;
use crate::runtime::Check;
use crate::runtime::Runtime;
use crate::runtime::job::Checks;
use crate::runtime::run::Planned;
use crate::runtime::spmm::PreparedProduct;
use crate::runtime::vectors::Vectors;
use crate::runtime::vectors::exchange::{
    ArrivalMemory, DepartureMemory, Exchange, ExchangeMemory, MessageGroups, OwnedChunk, RowForm,
};
use crate::runtime::vectors::graph::{CompleteMessages, DirectMessages, GraphSource, Wanted};
use crate::runtime::vectors::owners::{Owners, distribution};
use crate::runtime::vectors::ranks::{Arrival, MessagesOfDevices, RankLists};
use crate::runtime::vectors::row_distribution::RowDistribution;
use crate::runtime::vectors::simulated::simulated_peer_copies;
use crate::runtime::vectors::simulated_machine::SimulatedMachine;
use crate::work::{Work, pitch_bytes};

/// A product on [`Vectors`].
pub(in crate::internal::runtime) struct VectorProduct<'a, T: Kernels> {
    pub(crate) backing: Backing<'a, T>,
    pub(crate) runtime: Runtime,
    pub(crate) k: usize,
    /// Distance between rows on devices, in elements.
    pitch: u64,
    /// The owners of the rows of X, and of the rows of Y. A square matrix has the same owners of both.
    pub(crate) x: Arc<RowDistribution>,
    pub(crate) y: Arc<RowDistribution>,
    pub(crate) chunks: Vec<OwnedChunk>,
    pub(crate) exchange: Exchange,
    /// The messages that are packed together, and those that are stored together.
    groups: Arc<MessageGroups>,
    /// The memory of the messages.
    pub(crate) messages: ExchangeMemory,
    /// For each message whether the receiver copies from the sender's memory.
    peer_copies: Vec<bool>,
    /// The other ranks of the job.
    pub(crate) ranks: Option<Arc<RankLists>>,
    /// The memory of each message to another rank, and from another rank.
    pub(crate) departures: Vec<DepartureMemory>,
    pub(crate) arrivals: Vec<ArrivalMemory>,
    /// Those of them in the memory of a device.
    direct: DirectMessages,
    /// For each owner whether it is a device, as the messages and the graphs assume.
    on_devices: Vec<bool>,
    /// The graphs of whole products.
    graphs: Vec<(Wanted, Arc<Planned>)>,
    /// The plan and the devices, for traces.
    pub(crate) traced: Option<(Arc<Plan>, Arc<[Description]>)>,
    /// X and Y of products on arrays of other libraries.
    pub(crate) foreign: Option<ForeignVectors<T>>,
    pub(crate) checks: Checks,
    /// The weights of a check, while products are checked.
    pub(crate) check_memory: Option<VectorCheck>,
}

/// X and Y without memory of their own.
pub(crate) struct ForeignVectors<T: Kernels> {
    pub(super) x: Vectors<T>,
    pub(super) y: Vectors<T>,
}

/// The devices of a product.
pub(crate) enum Backing<'a, T: Kernels> {
    /// They compute.
    Real(Box<PreparedProduct<'a, T>>),
    /// They have times only.
    Simulated(Box<Plan>, Arc<SimulatedMachine>),
}

impl<T: Kernels> Backing<'_, T> {
    fn plan(&self) -> &Plan {
        match self {
            Self::Real(prepared) => prepared.plan(),
            Self::Simulated(plan, _) => plan,
        }
    }

    fn descriptions(&self) -> Vec<Description> {
        match self {
            Self::Real(prepared) => prepared.descriptions(),
            Self::Simulated(_, machine) => machine.descriptions(),
        }
    }
}

impl<'a, T: Kernels> VectorProduct<'a, T> {
    /// The product of a prepared resident plan without split rows. All ranks of `ranks` call this.
    pub fn new(
        runtime: &Runtime,
        mut prepared: PreparedProduct<'a, T>,
        ranks: Option<Arc<RankLists>>,
        check: Check,
    ) -> Result<Self> {
        prepared.timeouts.message = ranks.as_ref().map(|ranks| ranks.communicator.timeout());
        let y = distribution(prepared.plan(), prepared.timeouts, |index| prepared.device(index).cloned())?;
        for part in &y.parts {
            // The copies of A have ended; a product on vectors that were only filled comes after them too.
            if let Some(device) = part.device() {
                device.lock().drain().map_err(|fault| fault.into_error(&part.name))?;
            }
        }
        let build = |x: &RowDistribution, chunks: &[OwnedChunk]| {
            let view = prepared.matrix();
            let work = Work::spmm(&view, prepared.plan().k as usize)?;
            Ok(runtime.pool().install(|| Exchange::new(x, chunks, &work)))
        };
        let owners = Owners::new(prepared.plan(), y, ranks.as_deref(), build)?;
        Self::with_owners(runtime, Backing::Real(Box::new(prepared)), owners, ranks, check)
    }

    /// The product of a plan for simulated devices.
    pub fn simulated(runtime: &Runtime, plan: Plan, matrix: &CsrView<'_, T>) -> Result<Self> {
        let machine = Arc::new(SimulatedMachine::new(&plan)?);
        let y = RowDistribution {
            machine: Some(machine.clone()),
            ..distribution(&plan, Timeouts::default(), |_| None)?
        };
        let build = |x: &RowDistribution, chunks: &[OwnedChunk]| {
            let work = Work::spmm(matrix, plan.k as usize)?;
            Ok(runtime.pool().install(|| Exchange::new(x, chunks, &work)))
        };
        let owners = Owners::new(&plan, y, None, build)?;
        Self::with_owners(runtime, Backing::Simulated(Box::new(plan), machine), owners, None, Check::Never)
    }

    fn with_owners(
        runtime: &Runtime,
        backing: Backing<'a, T>,
        owners: Owners,
        ranks: Option<Arc<RankLists>>,
        check: Check,
    ) -> Result<Self> {
        let checks = Checks::new(check, backing.plan().devices.len());
        let k = backing.plan().k as usize;
        let value = size_of::<T>() as u64;
        let pitch = pitch_bytes(k as u64 * value) / value;
        let Owners { x, y, chunks, exchange } = owners;
        let mut product = Self {
            backing,
            runtime: runtime.clone(),
            k,
            pitch,
            x,
            y,
            chunks,
            exchange,
            groups: Arc::default(),
            messages: ExchangeMemory::default(),
            peer_copies: Vec::new(),
            ranks,
            departures: Vec::new(),
            arrivals: Vec::new(),
            direct: DirectMessages::default(),
            on_devices: Vec::new(),
            graphs: Vec::new(),
            traced: None,
            foreign: None,
            checks,
            check_memory: None,
        };
        product.update_owners()?;
        Ok(product)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.backing.plan()
    }

    /// Nanoseconds on the clock of simulated devices.
    pub fn simulated_ns(&self) -> Option<u64> {
        self.x.machine.as_ref().map(|machine| machine.now_ns())
    }

    /// The descriptions of all devices, the host first and the network last.
    pub fn descriptions(&self) -> Vec<Description> {
        let network = self.ranks.as_ref().map(|_| NetworkDevice::description());
        self.backing.descriptions().into_iter().chain(network).collect()
    }

    pub(crate) fn prepared(&self) -> Result<&PreparedProduct<'a, T>> {
        match &self.backing {
            Backing::Real(prepared) => Ok(prepared),
            Backing::Simulated(..) => Err(Error::Internal("a simulated product computes nothing".into())),
        }
    }

    /// Rows that this rank receives from other ranks with every product.
    pub fn rows_from_ranks(&self) -> u64 {
        self.ranks.as_ref().map_or(0, |ranks| ranks.ghosts.iter().sum())
    }

    /// The messages between ranks whose rows a device of this rank has or needs.
    pub fn messages_of_devices(&self) -> MessagesOfDevices {
        let is_device = |owner: &usize| self.on_devices.get(*owner) == Some(&true);
        let sent = self.exchange.departures.iter().filter(|departure| is_device(&departure.from)).count();
        let received = self.exchange.receivers.iter().filter(|owners| owners.iter().any(is_device)).count();
        let direct = self.direct.sent.iter().chain(&self.direct.received);
        MessagesOfDevices {
            all: (sent + received) as u64,
            direct: direct.filter(|&&is_direct| is_direct).count() as u64,
        }
    }

    /// Whether this rank sends or receives rows.
    pub(crate) fn has_rank_messages(&self) -> bool {
        !self.exchange.departures.is_empty() || !self.exchange.receivers.is_empty()
    }

    /// No message between ranks is complete.
    pub(crate) fn no_messages(&self) -> CompleteMessages {
        CompleteMessages {
            sent: vec![false; self.exchange.departures.len()],
            received: vec![false; self.exchange.receivers.len()],
        }
    }

    pub(crate) fn network(&self) -> Option<MutexGuard<'_, NetworkDevice>> {
        let ranks = self.ranks.as_ref()?;
        Some(ranks.network.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Rows that cross between owners with every product.
    pub fn exchanged_rows(&self) -> usize {
        self.exchange.rows()
    }

    /// A new Y.
    pub fn y(&self) -> Result<Vectors<T>> {
        Vectors::zeros(&self.y, self.runtime.pool(), self.k)
    }

    /// A new X.
    pub fn x(&self) -> Result<Vectors<T>> {
        Vectors::zeros(&self.x, self.runtime.pool(), self.k)
    }

    /// Allocates the messages and builds the graphs for the devices that are in use, unless they are for the same devices.
    pub(crate) fn update_owners(&mut self) -> Result<()> {
        let on_devices = self.x.on_devices();
        if self.on_devices == on_devices {
            return Ok(());
        }
        self.messages = ExchangeMemory::default();
        self.graphs.clear();
        let row_bytes = self.pitch * size_of::<T>() as u64;
        self.groups = Arc::new(MessageGroups::new(&self.x, &self.exchange, &on_devices, row_bytes));
        if self.x.parts.len() > 1 && self.x.machine.is_none() {
            let groups = self.groups.clone();
            self.messages = ExchangeMemory::new::<T>(&self.x, &self.exchange, groups, self.pitch)?;
        }
        if let Some(ranks) = self.x.ranks.clone() {
            self.update_rank_messages(&ranks.arrivals, &on_devices)?;
        }
        self.peer_copies = match self.x.machine {
            None => self.messages.peer_copies(),
            Some(_) => simulated_peer_copies(self.backing.plan(), &self.x, &self.exchange),
        };
        self.on_devices = on_devices;
        if self.x.parts.len() > 1 || self.x.machine.is_some() || self.has_rank_messages() {
            for (exchange, reads_y) in [(true, false), (true, true), (false, false), (false, true)] {
                let (chunks, ranks) = (vec![true; self.chunks.len()], self.no_messages());
                let wanted = Wanted { exchange, reads_y, chunks, ranks };
                let planned = self.planned(&wanted)?;
                self.graphs.push((wanted, planned));
            }
        }
        Ok(())
    }

    /// Allocates the messages between ranks for the devices that are in use.
    fn update_rank_messages(&mut self, arrivals: &[Arrival], on_devices: &[bool]) -> Result<()> {
        let direct = self.ranks.as_ref().is_some_and(|ranks| ranks.direct);
        let form = RowForm { k: self.k, pitch: self.pitch, direct };
        let departures = self.exchange.departures.iter();
        let memory = |departure| DepartureMemory::new::<T>(&self.x, departure, form);
        self.departures = departures.map(memory).collect::<Result<_>>()?;
        let mut before = std::mem::take(&mut self.arrivals).into_iter();
        for (arrival, to) in arrivals.iter().zip(&self.exchange.receivers) {
            let before = before.next();
            // Rows that arrived before another device was lost do not arrive again, and others still arrive there.
            let is_kept = |memory: &ArrivalMemory| {
                memory.direct_receiver().is_some_and(|owner| on_devices.get(owner) == Some(&true))
            };
            self.arrivals.push(match before {
                Some(memory) if is_kept(&memory) => memory,
                before => {
                    let mut memory = ArrivalMemory::new::<T>(&self.x, arrival, to, form)?;
                    before.into_iter().try_for_each(|before| memory.replace(before))?;
                    memory
                }
            });
        }
        self.direct = DirectMessages {
            sent: self.departures.iter().map(DepartureMemory::is_direct).collect(),
            received: self.arrivals.iter().map(|memory| memory.direct_receiver().is_some()).collect(),
        };
        Ok(())
    }

    /// The graph of a product, or of what is left of it.
    pub(crate) fn planned(&self, wanted: &Wanted) -> Result<Arc<Planned>> {
        if let Some((_, planned)) = self.graphs.iter().find(|(of, _)| of == wanted) {
            return Ok(planned.clone());
        }
        let source = GraphSource {
            plan: self.backing.plan(),
            x: &self.x,
            chunks: &self.chunks,
            exchange: &self.exchange,
            groups: &self.groups,
            peer_copies: &self.peer_copies,
            row_bytes: self.pitch * size_of::<T>() as u64,
            packed_row_bytes: (self.k * size_of::<T>()) as u64,
            direct: &self.direct,
            on_devices: self.on_devices.clone(),
        };
        Ok(Arc::new(Planned::new(source.graph(wanted))?))
    }
}
