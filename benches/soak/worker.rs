//! One thread of random steps: products of drawn matrices, devices, modes and faults, vectors on devices, plans of other workers.

use std::sync::Arc;

use rowloom::internal::kernel::reference;
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::Mode;
use rowloom::internal::runtime::{ProductOptions, Transfer};
use rowloom::{Error, Product, Result};

use crate::shared::{HandedPlan, HandedVectors, MATRICES, Shared};

const DEVICES: [&str; 6] = ["cpu", "emu:0", "cpu,emu:0", "emu:0,emu:1", "emu:1,emu:0", "cpu,emu:0,emu:1"];
const FAULTS: [&str; 5] =
    ["out_of_memory_at_allocation", "refuse_registration", "fail_launch", "fail_copy", "lost_at_operation"];
/// Products that a worker keeps for further use.
const KEPT: usize = 6;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A product that is used again, with what its Y must be.
struct Kept {
    product: Product<'static, f64>,
    x: MultiVector<f64>,
    expected: MultiVector<f64>,
    words: String,
}

/// Numbers of products.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub products: u64,
    pub with_faults: u64,
    /// Products that a device with a fault refused.
    pub refused: u64,
    /// Operations on vectors of other workers.
    pub on_shared_vectors: u64,
}

pub struct Worker<'a> {
    random: Random,
    shared: &'a Shared,
    kept: Vec<Kept>,
    pub counts: Counts,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared, seed: u64) -> Self {
        Self { random: Random(seed), shared, kept: Vec::new(), counts: Counts::default() }
    }

    /// Drops all products, so that their number does not count as growth.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// One random step.
    pub fn step(&mut self) -> Result<()> {
        match self.random.below(12) {
            0..8 if !self.kept.is_empty() => {
                let index = self.random.below(self.kept.len());
                self.use_again(index)?;
                if self.random.below(6) == 0 {
                    self.kept.swap_remove(index);
                }
                Ok(())
            }
            8 => self.read_shared_vectors(),
            9 => self.use_plan_of_another(),
            _ => self.new_product(),
        }
    }

    fn new_product(&mut self) -> Result<()> {
        let devices = self.random.one(&DEVICES);
        let is_faulty = self.random.below(3) == 0 && devices != "cpu";
        let (runtime, words) = if is_faulty {
            let fault = format!("emu:0?{}={}", self.random.one(&FAULTS), 1 + self.random.below(30));
            let words = devices.replace("emu:0", &fault);
            (self.shared.open(&words)?, words)
        } else {
            (self.shared.runtime(devices)?, devices.to_string())
        };
        let matrix = self.random.below(MATRICES.len());
        let is_shared = self.random.below(2) == 0;
        let a: Arc<Csr<f64>> = match is_shared {
            true => self.shared.matrices[matrix].clone(),
            false => Arc::new(generate(MATRICES[matrix], self.random.below(1000) as u64, u64::MAX)?.matrix),
        };
        let k = self.random.one(&[1, 2, 3, 8, 17]);
        let options = ProductOptions {
            uses: Some(1 + self.random.below(20) as u64),
            mode: self.random.one(&[None, Some(Mode::Oneshot), Some(Mode::Stream), Some(Mode::Resident)]),
            chunks: self.random.one(&[None, Some(1), Some(5), Some(9)]),
            transfer: self.random.one(&[Transfer::Auto, Transfer::Staged, Transfer::Registered]),
            reproducible: true,
            ..ProductOptions::default()
        };
        self.counts.with_faults += u64::from(is_faulty);
        let built = runtime.product(a.clone()).columns(k).options(options).build();
        let product = match built {
            Err(Error::Device { .. }) if is_faulty => {
                self.counts.refused += 1;
                return Ok(());
            }
            built => built?,
        };
        if is_shared && !is_faulty && self.random.below(4) == 0 {
            let plan = product.plan().clone();
            self.shared.hand_on_plan(HandedPlan { devices, matrix, columns: k, plan });
        }
        self.keep(product, &a, k, words)?;
        let last = self.kept.len() - 1;
        let used = self.use_again(last);
        if is_faulty {
            self.kept.swap_remove(last);
        }
        match used {
            Err(Error::Device { .. }) if is_faulty => {
                self.counts.refused += 1;
                Ok(())
            }
            used => used,
        }
    }

    /// Keeps a product, and drops the oldest one if there are too many.
    fn keep(&mut self, product: Product<'static, f64>, a: &Csr<f64>, k: usize, words: String) -> Result<()> {
        let x = MultiVector::random(a.cols(), k, self.counts.products)?;
        let mut expected = MultiVector::zeros(a.rows(), k)?;
        reference::csr(a.view(), x.view(), &mut expected.view_mut())?;
        if self.kept.len() >= KEPT {
            self.kept.swap_remove(0);
        }
        self.kept.push(Kept { product, x, expected, words });
        Ok(())
    }

    fn use_plan_of_another(&mut self) -> Result<()> {
        let Some(handed) = self.shared.handed_plan(self.random.below(1000)) else { return Ok(()) };
        let a = self.shared.matrices[handed.matrix].clone();
        let runtime = self.shared.runtime(handed.devices)?;
        let builder = runtime.product(a.clone()).columns(handed.columns).reproducible(true);
        let product = builder.plan(handed.plan).build()?;
        self.keep(product, &a, handed.columns, format!("{} by a plan of another worker", handed.devices))?;
        self.use_again(self.kept.len() - 1)
    }

    fn read_shared_vectors(&mut self) -> Result<()> {
        let Some(handed) = self.shared.handed_vectors(self.random.below(1000)) else { return Ok(()) };
        let HandedVectors { vectors, expected } = &*handed;
        if self.random.below(2) == 0 {
            let mut copy = MultiVector::zeros(vectors.rows(), vectors.columns())?;
            vectors.copy_to(&mut copy)?;
            assert!(bits(&copy) == bits(expected), "other rows in vectors of another worker");
        } else {
            let dot = vectors.dot(vectors)?;
            for (column, dot) in dot.iter().enumerate() {
                let squares = (0..expected.rows()).map(|row| expected.row(row)[column].powi(2));
                let sum: f64 = squares.sum();
                assert!((dot - sum).abs() <= 1e-9 * sum, "another sum in vectors of another worker");
            }
        }
        self.counts.on_shared_vectors += 1;
        Ok(())
    }

    fn use_again(&mut self, index: usize) -> Result<()> {
        let Kept { product, x, expected, words } = &mut self.kept[index];
        // Products of given plans have no vectors, and those of devices with faults may lose them.
        let may_have_vectors = !words.contains('?') && !words.contains("plan");
        let in_vectors = may_have_vectors && expected.rows() == x.rows() && self.random.below(3) == 0;
        let y = if in_vectors {
            let (mut on_devices, mut y) = (product.vectors()?, product.vectors()?);
            on_devices.copy_from(&*x)?;
            product.apply_into(&on_devices, &mut y)?;
            let mut host = MultiVector::zeros(y.rows(), y.columns())?;
            y.copy_to(&mut host)?;
            if self.random.below(4) == 0 {
                let mut expected = MultiVector::zeros(x.rows(), x.k())?;
                expected.data_mut().copy_from_slice(x.data());
                self.shared.hand_on_vectors(HandedVectors { vectors: on_devices, expected });
            }
            host
        } else {
            product.apply(&*x)?
        };
        assert!(bits(&y) == bits(expected), "a wrong Y on {words}");
        self.counts.products += 1;
        Ok(())
    }
}

fn bits(values: &MultiVector<f64>) -> Vec<u64> {
    values.data().iter().map(|value| value.to_bits()).collect()
}
