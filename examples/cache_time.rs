//! Compares the time to open a matrix cache with the time to read the same bytes, both from the page cache.
//!
//! `cargo run --release --example cache_time [MEGABYTES]` (default 500). Prints the median times of opening the cache, of
//! `std::fs::read`, and of reading into memory that is already mapped, which is the fastest way to read; and the ratios. The
//! goal is a ratio of at most 1. The file is in the system's temporary folder and is removed at the end.

use std::io::Read;
use std::time::Instant;

use rowloom::internal::matrix::io::{ReadOptions, cache};
use rowloom::internal::matrix::{Csr, Field, MatrixInfo, Symmetry};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let megabytes: usize = std::env::args().nth(1).map_or(Ok(500), |word| word.parse())?;
    // Rows of 27 nonzeros, as of a stencil: 8 + 27 * 12 bytes each.
    let rows = megabytes * 1_000_000 / 332;
    let columns: Vec<u32> =
        (0..rows).flat_map(|row| (0..27).map(move |entry| (row + entry) as u32)).collect();
    let values: Vec<f64> = columns.iter().map(|&column| f64::from(column) / 3.0).collect();
    let pointers: Vec<u64> = (0..=rows as u64).map(|row| row * 27).collect();
    let matrix = Csr::try_new(rows, rows + 27, pointers, columns, values)?;
    let info = MatrixInfo {
        name: "band".into(),
        field: Field::Real,
        symmetry: Symmetry::General,
        stored_entries: matrix.nnz() as u64,
        synthetic: true,
        features: None,
    };
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("band.rlm");
    let start = Instant::now();
    cache::write_cache(&path, &matrix.view(), &info, None)?;
    println!("write  {:.3} s", start.elapsed().as_secs_f64());
    drop(matrix);

    let bytes = std::fs::metadata(&path)?.len();
    let (mut read, mut reread, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let mut buffer = vec![1; bytes as usize];
    for _ in 0..9 {
        let start = Instant::now();
        let content = std::fs::read(&path)?;
        read.push(start.elapsed().as_secs_f64());
        drop(content);
        let start = Instant::now();
        std::fs::File::open(&path)?.read_exact(&mut buffer)?;
        reread.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let loaded = cache::read_cache::<f64>(&path, &ReadOptions::default())?;
        open.push(start.elapsed().as_secs_f64());
        drop(loaded);
    }
    let median = |mut seconds: Vec<f64>, name: &str| {
        seconds.sort_by(f64::total_cmp);
        println!("{name}  {:.4} s  {:.1} GB/s", seconds[4], bytes as f64 / seconds[4] / 1e9);
        seconds[4]
    };
    let open = median(open, "open the cache             ");
    let read = median(read, "read                       ");
    let reread = median(reread, "read into mapped memory    ");
    println!(
        "ratio  {:.2} (open / read), {:.2} (open / read into mapped memory)",
        open / read,
        open / reread
    );
    Ok(())
}
