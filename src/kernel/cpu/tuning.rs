//! What the row kernels may do one way or the other without changing a bit of the result.

/// Preferences of a product on the CPU.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// Columns computed in one pass over the rows.
    pub slab_width: usize,
    /// Rows are grouped within windows of this many.
    pub window: usize,
    /// Rows are taken longest first.
    pub sort: bool,
    /// Rows whose columns move along are taken four at a time.
    pub shifted: bool,
    /// Y is written past the caches.
    pub stream: bool,
    /// Long rows are computed segment by segment in the order of their columns.
    pub wave: bool,
    /// How many nonzeros ahead rows of X are fetched; zero for not at all.
    pub prefetch: usize,
    pub fetch_a: bool,
    /// Pieces made for each thread.
    pub pieces_per_thread: usize,
}
