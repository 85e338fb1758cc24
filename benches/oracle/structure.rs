//! Draws sparsity patterns.

use crate::random::Random;
use crate::sparse::Sparse;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structure {
    Uniform,
    PowerLaw,
    Identical,
    Shifted,
    Blocks,
    Band,
    Hubs,
    Arrow,
    EdgeLengths,
    EmptyRows,
    EmptyColumns,
    OneRow,
    OneColumn,
    NoRows,
    NoColumns,
    Tall,
    Wide,
    /// One row, or two, of a length at which GPU kernels change their way, beside a few short ones.
    OneLong,
    /// Consecutive rows with many common columns, of which some lack a few.
    LongGroups,
    /// Long rows over many columns, so that segments are computed in column order.
    LongOverWide,
    /// Y of more than 1 MiB, which is written with non-temporal stores.
    LargeY,
    /// X of more than 32 MiB, whose rows are prefetched.
    LargeX,
}

use Structure as S;

impl Structure {
    pub fn name(self) -> &'static str {
        match self {
            S::Uniform => "uniform",
            S::PowerLaw => "power law",
            S::Identical => "identical rows",
            S::Shifted => "shifted rows",
            S::Blocks => "blocks",
            S::Band => "band",
            S::Hubs => "hubs",
            S::Arrow => "arrow",
            S::EdgeLengths => "edge lengths",
            S::EmptyRows => "empty rows",
            S::EmptyColumns => "empty columns",
            S::OneRow => "one row",
            S::OneColumn => "one column",
            S::NoRows => "no rows",
            S::NoColumns => "no columns",
            S::Tall => "tall",
            S::Wide => "wide",
            S::OneLong => "one long row",
            S::LongGroups => "long groups",
            S::LongOverWide => "long rows over wide X",
            S::LargeY => "large Y",
            S::LargeX => "large X",
        }
    }
}

/// Structures of small matrices, with weights.
pub const SMALL: [(Structure, usize); 17] = [
    (S::Uniform, 12),
    (S::PowerLaw, 8),
    (S::Identical, 12),
    (S::Shifted, 8),
    (S::Blocks, 10),
    (S::Band, 6),
    (S::Hubs, 6),
    (S::Arrow, 4),
    (S::EdgeLengths, 8),
    (S::EmptyRows, 4),
    (S::EmptyColumns, 4),
    (S::OneRow, 3),
    (S::OneColumn, 3),
    (S::NoRows, 2),
    (S::NoColumns, 2),
    (S::Tall, 4),
    (S::Wide, 4),
];

/// Structures that cases of devices draw too. They are not in the list above, so that seeds of other cases keep their structures.
pub const ON_DEVICES: [(Structure, usize); 2] = [(S::OneLong, 16), (S::LongGroups, 12)];
/// Structures that dense products draw more often: more rows, and more columns, than a tile of any kernel.
pub const DENSE: [(Structure, usize); 2] = [(S::Tall, 16), (S::Wide, 8)];

/// Structures with large matrices, for kernels on the CPU only.
pub const LARGE: [(Structure, usize); 3] = [(S::LongOverWide, 4), (S::LargeY, 3), (S::LargeX, 1)];

/// Row lengths at which kernels change their way: segments, rows that are computed together, spans, hub rows.
const EDGES: [usize; 6] = [128, 256, 1024, 2048, 4096, 512];
/// As above, with rows whose parts GPU kernels add in two levels.
const LONG_EDGES: [usize; 8] = [128, 256, 1024, 2048, 4096, 512, 8192, 9216];

/// The size of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Tiny,
    Small,
    Medium,
    Large,
}

impl Size {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }

    fn most_rows(self) -> usize {
        match self {
            Self::Tiny => 9,
            Self::Small => 60,
            Self::Medium => 400,
            Self::Large => 3000,
        }
    }
}

/// The columns of each row and the number of columns. Columns ascend in every row.
pub fn pattern(random: &mut Random, structure: Structure, size: Size) -> (usize, Vec<Vec<u32>>) {
    let most = size.most_rows();
    let rows = random.within(1, most);
    let cols = if random.one_in(2) { rows } else { random.within(1, most) };
    match structure {
        S::Uniform => {
            let degree = random.within(1, 20);
            (cols, (0..rows).map(|_| columns(random, degree, cols)).collect())
        }
        S::PowerLaw => {
            let longest = cols as f64 * random.unit();
            let row = |random: &mut Random| {
                let length = (longest * random.unit().powi(4)) as usize;
                let near_zero = |random: &mut Random| (cols as f64 * random.unit().powi(2)) as u32;
                sorted((0..length).map(|_| near_zero(random)).collect())
            };
            (cols, (0..rows).map(|_| row(random)).collect())
        }
        S::Identical => {
            let (most_rows, degree) = (random.one(&[2, 3, 4, 7, 9, 63, 64, 65, 130]), random.within(1, 12));
            let mut all: Vec<Vec<u32>> = Vec::new();
            while all.len() < rows.max(2) {
                let own = columns(random, degree, cols);
                let count = if random.one_in(3) { 1 } else { random.within(2, most_rows) };
                all.extend(std::iter::repeat_n(own, count));
            }
            (cols, all)
        }
        S::Shifted => {
            let degree = random.within(1, 10);
            let cols = cols + 16;
            let mut all: Vec<Vec<u32>> = Vec::new();
            while all.len() < rows {
                let (own, step) = (columns(random, degree, cols - 15), random.within(0, 3) as u32);
                for row in 0..random.within(1, 6) as u32 {
                    all.push(own.iter().map(|column| column + row * step).collect());
                }
            }
            (cols, all)
        }
        S::Blocks => {
            let block = random.within(2, 6);
            let blocks = (cols / block).max(1);
            let degree = random.within(1, 6);
            let mut all = Vec::new();
            while all.len() < rows {
                let own = columns(random, degree, blocks);
                let in_block = |&at: &u32| (0..block as u32).map(move |i| at * block as u32 + i);
                let own: Vec<u32> = own.iter().flat_map(in_block).collect();
                all.extend(std::iter::repeat_n(own, block));
            }
            (blocks * block, all)
        }
        S::Band => {
            let width = random.within(1, 9);
            let row = |row: usize| {
                (row.saturating_sub(width / 2)..(row + width.div_ceil(2)).min(rows))
                    .map(|c| c as u32)
                    .collect()
            };
            (rows, (0..rows).map(row).collect())
        }
        S::Hubs => {
            let hubs = random.within(1, 3);
            let cols = if size == Size::Large { cols + 4200 } else { cols };
            let mut all: Vec<Vec<u32>> = (0..rows).map(|_| columns(random, 3, cols)).collect();
            for _ in 0..hubs {
                let row = random.below(rows);
                let length = random.within(cols - cols / 4, cols);
                all[row] = columns(random, length, cols);
            }
            (cols, all)
        }
        S::Arrow => {
            let row = |row: usize| if row == 0 { (0..rows as u32).collect() } else { vec![0, row as u32] };
            (rows, (0..rows).map(row).collect())
        }
        S::EdgeLengths => {
            let (longest, edges) = match size {
                Size::Tiny => (260, &EDGES[..]),
                Size::Small => (1100, &EDGES[..]),
                _ => (9300, &LONG_EDGES[..]),
            };
            let cols = random.within(longest, longest + 100);
            let length = |random: &mut Random| {
                let edge = random.one(edges);
                (edge + random.below(3) - 1).min(longest)
            };
            let rows = random.within(1, if size == Size::Large { 40 } else { 8 });
            let mut all: Vec<Vec<u32>> = Vec::new();
            for _ in 0..rows {
                match random.below(4) {
                    0 if !all.is_empty() => all.push(all[all.len() - 1].clone()),
                    1 => all.push(columns(random, 3, cols)),
                    _ => {
                        let length = length(random);
                        all.push(columns(random, length, cols));
                    }
                }
            }
            (cols, all)
        }
        S::OneLong => {
            let edge = random.one(&LONG_EDGES[3..]) + random.below(4) - 1;
            let cols = edge + random.below(30);
            let mut all = vec![columns(random, edge, cols); if random.one_in(3) { 2 } else { 1 }];
            for _ in 0..random.below(4) {
                let at = random.below(all.len() + 1);
                let degree = random.within(1, 40);
                all.insert(at, columns(random, degree, cols));
            }
            (cols, all)
        }
        S::LongGroups => {
            let cols = random.within(20, 200);
            let mut all = Vec::new();
            for _ in 0..random.within(1, 3) {
                let degree = random.within(12, 90);
                let own = columns(random, degree, cols);
                for _ in 0..random.within(2, 9) {
                    let lacks = random.one_in(3);
                    let kept = own.iter().copied().filter(|_| !(lacks && random.one_in(8)));
                    all.push(kept.collect());
                }
            }
            (cols, all)
        }
        S::EmptyRows => {
            let row = |random: &mut Random| match random.one_in(4) {
                true => columns(random, 4, cols),
                false => Vec::new(),
            };
            (cols, (0..rows).map(|_| row(random)).collect())
        }
        S::EmptyColumns => {
            let few = random.within(1, 3);
            let step = (cols / few).max(1) as u32;
            let row = |random: &mut Random| {
                let own = columns(random, 3, few.min(cols));
                own.iter().map(|at| (at * step).min(cols as u32 - 1)).collect()
            };
            (cols, (0..rows).map(|_| sorted(row(random))).collect())
        }
        S::OneRow => {
            let length = random.within(0, cols);
            (cols, vec![columns(random, length, cols)])
        }
        S::OneColumn => (1, (0..rows).map(|_| if random.one_in(4) { Vec::new() } else { vec![0] }).collect()),
        S::NoRows => (random.below(9), Vec::new()),
        S::NoColumns => (0, vec![Vec::new(); rows]),
        S::Tall => {
            let cols = random.within(1, 5);
            (cols, (0..rows * 4).map(|_| columns(random, 2, cols)).collect())
        }
        S::Wide => {
            let (rows, cols) = (random.within(1, 5), most * 10);
            (cols, (0..rows).map(|_| columns(random, 12, cols)).collect())
        }
        S::LongOverWide => {
            let length = random.within(1024, 1300);
            (70_000, (0..random.within(2, 6)).map(|_| columns(random, length, 70_000)).collect())
        }
        S::LargeY => {
            let (rows, cols) = (random.within(1030, 2100), random.within(1, 300));
            let repeats = random.within(1, 3);
            let rows = (0..rows.div_ceil(repeats)).flat_map(|_| vec![columns(random, 3, cols); repeats]);
            (cols, rows.collect())
        }
        S::LargeX => {
            let cols = 65_536 + random.below(100);
            (cols, (0..random.within(100, 400)).map(|_| columns(random, 6, cols)).collect())
        }
    }
}

/// At most `degree` different columns, ascending.
fn columns(random: &mut Random, degree: usize, cols: usize) -> Vec<u32> {
    if cols == 0 {
        return Vec::new();
    }
    if degree * 3 < cols {
        return sorted((0..degree).map(|_| random.below(cols) as u32).collect());
    }
    // A random selection of `degree` of the columns.
    let mut left = degree.min(cols);
    let mut chosen = Vec::with_capacity(left);
    for column in 0..cols {
        if random.below(cols - column) < left {
            chosen.push(column as u32);
            left -= 1;
        }
    }
    chosen
}

fn sorted(mut columns: Vec<u32>) -> Vec<u32> {
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The order of the entries of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryOrder {
    Ascending,
    Descending,
    Shuffled,
    Repeated,
}

pub const ENTRY_ORDERS: [(EntryOrder, usize); 4] = [
    (EntryOrder::Ascending, 12),
    (EntryOrder::Descending, 1),
    (EntryOrder::Shuffled, 2),
    (EntryOrder::Repeated, 1),
];

impl EntryOrder {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Descending => "descending",
            Self::Shuffled => "shuffled",
            Self::Repeated => "repeated columns",
        }
    }

    /// A matrix with this order of the entries of each row, which ascend before.
    pub fn arranged(self, random: &mut Random, cols: usize, mut rows: Vec<Vec<u32>>) -> Sparse {
        for row in &mut rows {
            match self {
                Self::Ascending => {}
                Self::Descending => row.reverse(),
                Self::Shuffled => {
                    for at in (1..row.len()).rev() {
                        row.swap(at, random.below(at + 1));
                    }
                }
                Self::Repeated => {
                    if let Some(&column) = row.first() {
                        row.insert(random.below(row.len()), column);
                        row.sort_unstable();
                    }
                }
            }
        }
        Sparse::from_rows(cols, &rows)
    }
}
