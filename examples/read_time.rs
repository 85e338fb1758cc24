//! Measures the time to read a matrix file: `read_time FILE [THREADS [f32]]` prints a JSON object with the shortest of five
//! times.

use std::path::Path;
use std::time::Instant;

use rowloom::internal::matrix::Scalar;
use rowloom::internal::matrix::io::{ReadOptions, read};

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("usage: read_time FILE [THREADS [f32]]")?;
    let threads = arguments.get(1).map_or(Ok(0), |text| text.parse())?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    match arguments.get(2).map(String::as_str) {
        Some("f32") => pool.install(|| time::<f32>(Path::new(path))),
        _ => pool.install(|| time::<f64>(Path::new(path))),
    }
}

fn time<T: Scalar>(path: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut best = f64::INFINITY;
    let (mut bytes, mut nnz) = (0, 0);
    for _ in 0..5 {
        let start = Instant::now();
        let loaded = read::<T>(path, &ReadOptions::default()).map_err(|error| error.to_string())?;
        best = best.min(start.elapsed().as_secs_f64());
        (bytes, nnz) = (loaded.matrix.bytes(), loaded.matrix.nnz());
    }
    let peak = peak_resident_bytes()?;
    println!(
        "{{\"seconds\": {best:.4}, \"nnz\": {nnz}, \"csr_bytes\": {bytes}, \"peak_rss_bytes\": {peak}, \
         \"peak_over_csr\": {:.2}}}",
        peak as f64 / bytes as f64
    );
    Ok(())
}

fn peak_resident_bytes() -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
