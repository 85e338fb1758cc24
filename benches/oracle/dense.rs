//! Options that dense products and sums of columns share.

use rowloom::internal::kernel::{KernelId, KindOfWork, Processor, kernels_for};
use rowloom::internal::plan::Mode;
use rowloom::internal::runtime::{Check, ProductOptions, Transfer};

use crate::coverage::Coverage;
use crate::grid::Placement;
use crate::lab::Drawing;

pub const FAMILY: &str = "dense";

#[derive(Debug, Clone)]
pub struct DenseOptions {
    pub devices: &'static str,
    pub threads: usize,
    pub kernel: Option<KernelId>,
    mode: Option<Mode>,
    chunks: Option<usize>,
    cpu_share: Option<f64>,
    transfer: Transfer,
    memory_limit: Option<u64>,
    pub reproducible: bool,
    bound: bool,
    pub a: Placement,
}

pub fn expect(coverage: &mut Coverage, lists: &[&'static str], drawing: &Drawing) {
    for (dimension, work) in
        [("kernel of gemm", KindOfWork::Gemm), ("kernel of colmean", KindOfWork::Colmean)]
    {
        let named = kernel_of_run(drawing, work);
        let fitting =
            lists.iter().copied().filter(|devices| named.is_none_or(|kernel| fits(kernel, devices)));
        coverage.expect(FAMILY, "devices", fitting);
        let all = if named.is_none() { kernels(work) } else { Vec::new() };
        let auto = named.is_none().then_some("auto");
        coverage.expect(FAMILY, dimension, all.into_iter().chain(named).map(KernelId::name).chain(auto));
    }
}

/// The only kernel that the run draws, if it belongs to the kind of work.
fn kernel_of_run(drawing: &Drawing, work: KindOfWork) -> Option<KernelId> {
    drawing.restrictions.kernel.filter(|kernel| kernels(work).contains(kernel))
}

/// A kernel runs on one kind of processor; the other kind of a list takes its own.
fn fits(kernel: KernelId, devices: &str) -> bool {
    match kernel.info().runs_on {
        Processor::Cpu => devices == "cpu",
        Processor::Gpu => devices != "cpu",
    }
}

/// The kernels of a kind of work that need no library of a vendor.
fn kernels(work: KindOfWork) -> Vec<KernelId> {
    kernels_for(work).map(|info| info.id).filter(|&id| id != KernelId::Cublas).collect()
}

impl DenseOptions {
    pub fn draw(drawing: &mut Drawing, work: KindOfWork, lists: &[&'static str]) -> Self {
        let named = kernel_of_run(drawing, work);
        let random = &mut drawing.random;
        let mut lists = lists.to_vec();
        lists.retain(|devices| named.is_none_or(|kernel| fits(kernel, devices)));
        let devices = random.one(&lists);
        let mut fitting = named.map_or_else(|| kernels(work), |kernel| vec![kernel]);
        fitting.retain(|kernel| fits(*kernel, devices));
        let options = Self {
            devices,
            threads: random.within(1, 3),
            kernel: (named.is_some() || random.below(4) > 0).then(|| random.one(&fitting)),
            mode: random.one(&[None, Some(Mode::Resident), Some(Mode::Oneshot), Some(Mode::Stream)]),
            chunks: random.one_in(2).then(|| random.within(1, 6)),
            cpu_share: (devices.contains("cpu,") && random.one_in(3)).then(|| random.one(&[0.0, 0.3, 1.0])),
            transfer: random.one(&[Transfer::Auto, Transfer::Staged, Transfer::Registered]),
            memory_limit: random.one_in(6).then(|| random.one(&[1 << 14, 1 << 16, 1 << 20])),
            reproducible: random.one_in(3),
            bound: random.one_in(2),
            a: Placement::draw(random),
        };
        let dimension = if work == KindOfWork::Gemm { "kernel of gemm" } else { "kernel of colmean" };
        drawing.coverage.count(FAMILY, "devices", devices);
        drawing.coverage.count(FAMILY, dimension, options.kernel.map_or("auto", KernelId::name));
        options
    }

    pub fn options(&self) -> ProductOptions {
        ProductOptions {
            uses: Some(2),
            mode: self.mode,
            kernel: self.kernel,
            chunks: self.chunks,
            cpu_share: self.cpu_share,
            transfer: self.transfer,
            memory_limit_bytes: self.memory_limit,
            reproducible: self.reproducible,
            bound: self.bound,
            check: Check::Always,
            ..ProductOptions::default()
        }
    }

    pub fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        let mut add = |differs: bool, change: &dyn Fn(&mut Self)| {
            if differs {
                let mut other = self.clone();
                change(&mut other);
                simpler.push(other);
            }
        };
        add(self.devices != "cpu", &|other| (other.devices, other.kernel) = ("cpu", None));
        add(self.devices.contains(",emu"), &|other| other.devices = "emu:0");
        add(self.threads > 1, &|other| other.threads = 1);
        add(self.kernel.is_some(), &|other| other.kernel = None);
        add(self.mode.is_some(), &|other| other.mode = None);
        add(self.chunks.is_some(), &|other| other.chunks = None);
        add(self.cpu_share.is_some(), &|other| other.cpu_share = None);
        add(self.transfer != Transfer::Auto, &|other| other.transfer = Transfer::Auto);
        add(self.memory_limit.is_some(), &|other| other.memory_limit = None);
        add(self.reproducible, &|other| other.reproducible = false);
        add(self.bound, &|other| other.bound = false);
        for a in self.a.simpler() {
            add(true, &|other| other.a = a);
        }
        simpler
    }
}
