//! The products of one matrix: one for each number of columns, made when it is first needed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use numpy::Element;
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::matrix::MultiVector;
use rowloom::internal::runtime::{Check, Product, ProductOptions};
use rowloom::{Csr, Result, Runtime};

use crate::abandoned::Abandoned;
use crate::interrupt::Pace;
use crate::of_process::OfProcess;
use crate::per_process::PerProcess;
use crate::ranks::Distribution;
use crate::results::Buffers;
use crate::runtimes::runtime;

/// Products that are kept. A solver with shrinking blocks uses two or three numbers of columns at a time; each product may have a
/// layout of A of its own on the host. On a device they share one.
const MAX_PRODUCTS: usize = 8;

/// The value types of operators.
pub trait Value: Kernels + Element {}
impl Value for f64 {}
impl Value for f32 {}

/// How products are made.
#[derive(Clone)]
pub struct Options {
    pub devices: String,
    pub threads: Option<usize>,
    pub uses: Option<u64>,
    pub reproducible: bool,
    pub check: Check,
}

impl Options {
    /// The runtime of this process for these options.
    pub fn runtime(&self) -> Result<Runtime> {
        runtime(&self.devices, self.threads)
    }
}

/// A matrix and its products.
pub struct Typed<T: Value> {
    /// The matrix, or the rows of this rank.
    pub matrix: Arc<Csr<T>>,
    pub options: Options,
    /// How the matrix is divided between the ranks of an MPI job; `None` in one process.
    pub distribution: Option<OfProcess<Distribution<T>>>,
    products: PerProcess<Mutex<Products<T>>>,
    /// The number of its last product among those of all operators; 0 before the first.
    last_use: AtomicU64,
}

/// The products of a matrix.
struct Products<T: Value> {
    /// Those that are kept, the most recently used first.
    kept: Vec<Arc<Cached<T>>>,
    /// All that were made and may be alive. Vectors keep their product, and vectors with as many columns that are made later belong to the
    /// same one.
    made: Vec<Weak<Cached<T>>>,
}

impl<T: Value> Default for Products<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), made: Vec::new() }
    }
}

impl<T: Value> Products<T> {
    /// The kept product with `columns` columns, now the most recently used one.
    fn kept(&mut self, columns: usize) -> Option<Arc<Cached<T>>> {
        let position = self.kept.iter().position(|cached| cached.columns == columns)?;
        self.kept[..=position].rotate_right(1);
        Some(self.kept[0].clone())
    }

    /// A product that vectors keep; it is kept here again.
    fn alive(&mut self, columns: usize) -> Option<Arc<Cached<T>>> {
        let cached = self.made.iter().filter_map(Weak::upgrade).find(|cached| cached.columns == columns)?;
        self.keep(cached.clone());
        Some(cached)
    }

    fn keep(&mut self, cached: Arc<Cached<T>>) {
        self.kept.insert(0, cached);
        self.kept.truncate(MAX_PRODUCTS);
    }

    fn add(&mut self, cached: &Arc<Cached<T>>) {
        self.made.retain(|made| made.strong_count() > 0);
        self.made.push(Arc::downgrade(cached));
        self.keep(cached.clone());
    }
}

/// A product, buffers for its results, and buffers for X and Y whose rows are not contiguous.
pub struct Cached<T: Value> {
    pub columns: usize,
    pub buffers: Arc<Buffers<T>>,
    pub entry: Mutex<Entry<T>>,
    /// The speed of products with arrays.
    pub pace: Pace,
    pub vector_paces: VectorPaces,
    /// Operations on vectors that were interrupted.
    pub abandoned: Abandoned,
}

/// The speed of operations on vectors. Devices queue operations; those with a result for the host wait for all before them.
#[derive(Default)]
pub struct VectorPaces {
    pub queued: Pace,
    pub waiting: Pace,
    /// Bytes of the operations since the last one that waited.
    pub pending_bytes: AtomicU64,
}

pub struct Entry<T: Value> {
    pub product: Product<'static, T>,
    pub packed_x: Option<MultiVector<T>>,
    pub packed_y: Option<MultiVector<T>>,
}

impl<T: Value> Typed<T> {
    pub fn new(matrix: Arc<Csr<T>>, options: Options) -> Self {
        let (products, last_use) = (PerProcess::new(), AtomicU64::new(0));
        Self { matrix, options, distribution: None, products, last_use }
    }

    /// The rows of this rank of a matrix that is divided between ranks.
    pub fn distributed(distribution: Distribution<T>, options: Options) -> Self {
        let matrix = distribution.matrix().clone();
        Self { distribution: Some(OfProcess::new(distribution)), ..Self::new(matrix, options) }
    }

    /// Counts a product.
    pub fn count_use(&self) {
        static USES: AtomicU64 = AtomicU64::new(0);
        self.last_use.store(USES.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The number of its last product among those of all operators; 0 before the first.
    pub fn last_use(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }

    /// The product with `columns` columns.
    pub fn product(&self, columns: usize) -> Result<Arc<Cached<T>>> {
        let mut products = lock(self.products.get());
        if let Some(cached) = products.kept(columns).or_else(|| products.alive(columns)) {
            return Ok(cached);
        }
        // The lock is held meanwhile, so that threads that need the same product wait for it.
        let Options { uses, reproducible, check, .. } = self.options;
        let options = ProductOptions { uses, reproducible, check, ..ProductOptions::default() };
        let product = match &self.distribution {
            Some(distribution) => distribution.get()?.product(columns, options)?,
            None => {
                let builder = self.options.runtime()?.product(self.matrix.clone());
                builder.columns(columns).options(options).build()?
            }
        };
        let entry = Mutex::new(Entry { product, packed_x: None, packed_y: None });
        let cached = Arc::new(Cached {
            columns,
            buffers: Arc::default(),
            entry,
            pace: Pace::default(),
            vector_paces: VectorPaces::default(),
            abandoned: Abandoned::default(),
        });
        products.add(&cached);
        Ok(cached)
    }

    /// The product with `columns` columns, if it was made and no thread makes another one.
    pub fn made_product(&self, columns: usize) -> Option<Arc<Cached<T>>> {
        try_lock(self.products.get())?.kept(columns)
    }

    /// Bytes that a product with `columns` columns reads and writes.
    pub fn product_bytes(&self, columns: usize) -> u64 {
        let vectors = (self.matrix.rows() + self.matrix.nnz()) as u64 * columns as u64;
        self.matrix.bytes() + vectors * size_of::<T>() as u64
    }

    /// Bytes of a value.
    pub fn value_bytes(&self) -> usize {
        size_of::<T>()
    }

    /// The most recently used product; `None` before the first.
    pub fn last_product(&self) -> Option<Arc<Cached<T>>> {
        lock(self.products.get()).kept.first().cloned()
    }

    /// Drops all products; the next one is made anew.
    pub fn clear(&self) {
        let products = std::mem::take(&mut lock(self.products.get()).kept);
        drop(products);
    }
}

/// Locks also where a thread panicked: a product that failed is refused or replaced by its own methods.
pub fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same; `None` if another thread holds the lock.
pub fn try_lock<V>(mutex: &Mutex<V>) -> Option<MutexGuard<'_, V>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
