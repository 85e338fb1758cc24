//! Text behind the flags in help: examples, and tables of the kernels and generators.

use rowloom::internal::kernel::{KindOfWork, kernels_for};
use rowloom::internal::matrix::generate::{DENSE_KINDS, KINDS, Kind};

/// Columns of the tables below; clap would wrap longer lines without an indent.
const COLUMNS: usize = 78;

/// Behind `rowloom -h`.
pub const ROOT: &str = "\
Examples:
  rowloom demo                                  a short tour on a small matrix
  rowloom run cant.mtx -k 32 --verify           multiply, check, show the speed
  rowloom run gen:stencil27,n=64 --json         a generated matrix; print JSON
  rowloom run cant.mtx --json=report.json       write JSON to a file
  rowloom inspect cant.mtx --spy cant.svg       shape, row lengths, a picture
  rowloom convert cant.mtx cant.rlm             a cache that opens at once

Exit codes: 0 done, 1 output not written, 2 wrong usage, 3 wrong input,
4 device failed or nothing measured, 5 verification failed, 70 internal
error, 130 interrupted, 141 reader of standard output gone (as in | head).";

/// Behind `rowloom run -h`.
pub const RUN_SHORT: &str = "\
Examples:
  rowloom run cant.mtx -k 32 --verify
  rowloom run gen:rmat,scale=17,degree=16 -k 8 --dtype f32 --repeat 50
  rowloom run cant.mtx --x x.npy --output y.npy --json=report.json

`rowloom run --help` shows all flags and kernels.";

const RUN_EXAMPLES: &str = "\
Examples:
  rowloom run cant.mtx -k 32 --verify
  rowloom run gen:rmat,scale=17,degree=16 -k 8 --dtype f32 --repeat 50
  rowloom run cant.mtx --x x.npy --output y.npy --json=report.json
  rowloom run cant.mtx --devices cpu,cuda:0 --trace trace.json

Ctrl-C stops after the current product and still writes the report; a second
Ctrl-C stops at once.";

/// Behind `rowloom gemm -h`.
pub const GEMM_SHORT: &str = "\
Examples:
  rowloom gemm a.npy b.npy --output c.npy --verify
  rowloom gemm gen:dense,rows=2000,cols=500 gen:dense,rows=500,cols=800

`rowloom gemm --help` shows all flags, kernels and generated matrices.";

const GEMM_EXAMPLES: &str = "\
Examples:
  rowloom gemm a.npy b.npy --output c.npy --verify
  rowloom gemm a.npy b.npy --c c.npy --alpha 2 --beta -1 --output new.npy
  rowloom gemm gen:dense,rows=2000,cols=500 gen:dense,rows=500,cols=800 \\
    --devices cpu,cuda:0 --kernel gemm_tiled_t32 --trace trace.json

--verify compares whole rows of C: all rows of a small matrix, equally spaced
rows of a large one.";

/// Behind `rowloom colmean -h`.
pub const COLMEAN_SHORT: &str = "\
Examples:
  rowloom colmean recording.txt --output means.csv --plot means.svg
  rowloom colmean recording.txt --samples 82 --channel 0-3 --window 20:60

`rowloom colmean --help` shows all flags, kernels and generated matrices.";

const COLMEAN_EXAMPLES: &str = "\
Examples:
  rowloom colmean recording.txt --output means.csv --plot means.svg
  rowloom colmean recording.txt --samples 82 --channel 0-3 --window 20:60 \\
    --statistics mean,variance --output window.npy
  rowloom colmean gen:recording,rows=358 --samples 82 --plot waves.svg

All columns are computed; --channel and --window choose the reported columns.
Channels, samples and columns are counted from 0.";

/// Behind `rowloom plan -h`.
pub const PLAN: &str = "\
Examples:
  rowloom plan cant.mtx -k 32 --devices cpu,emu:0
  rowloom plan gen:rmat,scale=20,degree=16 --devices sim:h200x4 --repeat 1
  rowloom plan cant.mtx --chunks 64 --save cant.plan --json=cant.json
  rowloom plan gemm:rows=10000,depth=10000,columns=10000 --devices sim:h200
  rowloom plan colmean:rows=358,columns=5248 --devices cpu,emu:0

Dense work has a shape instead of a matrix: gemm:rows=M,depth=K,columns=N, with
,update if the old C is added, and colmean:rows=M,columns=N, with ,variance.";

/// Behind `rowloom bench -h`.
pub const BENCH: &str = "\
Examples:
  rowloom bench cant.mtx -k 1,8,32 --devices cuda:0 --against cusparse
  rowloom bench a.mtx gen:stencil27,n=128 --dtype f64,f32 --json=bench.json
  rowloom bench a.mtx gen:stencil27,n=128 --best --baseline bench.json
  rowloom bench gen:stencil5,n=30 --kernels csr_scalar_v3,csr_vector \\
    --devices emu:0
  rowloom bench transfers --devices cuda:0 --csv copies.csv --svg copies.svg";

/// What `rowloom bench` measures and how its spread is defined.
const BENCH_METHOD: &str = "\
transfers instead of matrices measures copies between the memories of the host
and of each GPU: pageable, staged through page-locked slots, registered
(page-locked in place) and write-combined memory; up, down and both at once.

A is copied to the device and converted to every format before timing begins.
Times are of the kernel alone. Every Y is compared with the CPU's product,
which is compared with the serial reference: same bits, or every error is in
the rounding bound.

All kernels and peers of a case are listed, the fastest first. (chosen) marks
the kernel that the planner would choose. 1.18 ± 0.03 × slower: the ratio of
two medians, and half the width of its 95 % interval; within noise: the
interval contains 1. The interval of a median comes from order statistics of
at most 20 blocks of consecutive runs; with fewer than 6 runs it is the range
of the times. The relative widths of the intervals of both medians are added
in quadrature.

--baseline calls a difference faster or slower if it exceeds both this spread
and 2 %, and within noise otherwise.";

/// Behind `rowloom calibrate -h`.
pub const CALIBRATE: &str = "\
Kernels are timed on generated matrices for less than a minute. No other
program should run meanwhile.

Examples:
  rowloom calibrate
  rowloom calibrate --devices cpu --output cpu.toml
  rowloom run cant.mtx --model cpu.toml";

/// Behind `rowloom study -h`.
pub const STUDY: &str = "\
The folder gets report.html (opens in any browser), one .svg for each figure,
results.csv, results.json, results.md (tables) and cases.jsonl, which keeps
every finished case: the same command continues after Ctrl-C or a crash. The
exit code is 4 if no case could be measured.

Examples:
  rowloom study --list                  the built-in studies
  rowloom study quick
  rowloom study scaling-threads --output scaling
  rowloom study --save quick            writes quick.toml, to be changed
  rowloom study quick.toml";

/// The keys of a study.
const STUDY_KEYS: &str = "\
Keys of a study file; configs/README.md in the sources, which is
share/rowloom/configs/README.md of an installed archive, describes them, and
`rowloom study --save quick` writes an example:
  title       required
              optional: question, seed, baseline (speed-ups are relative to
              it: one_thread, serial_csr or scipy)
  [measure]   optional: warmup, repeat, time_cap_s, verify
  [[sweep]]   required: name, matrices
              optional: subject, k, dtype, devices, ranks, threads, kernels,
              mode, schedule, transfer, chunk_bytes, cpu_share, against
subject is run (a whole product, the default), kernel (every kernel alone),
conversion, power_iteration, subspace_iteration, vectors, gemm, colmean or
transfers (copies, which have no matrices).
Each key of a [[sweep]] except name and subject is a list, and every
combination is a case. A key takes the values of the flag of `rowloom run`
with the same name.";

/// Behind `rowloom report -h`.
pub const REPORT: &str = "\
The page opens in any browser without a network: a plot of the speed-ups with
filters, the times, the planner's reason and the command of each point, and a
table. A time without a verified Y has no speed; the page names such results.

Examples:
  rowloom bench a.mtx b.mtx --against mkl,scipy --json=bench.json
  rowloom report bench.json --output explorer.html
  rowloom report *.json rowloom-quick/results.json --output explorer.html";

/// Behind `rowloom convert -h`.
pub const CONVERT: &str = "\
Examples:
  rowloom convert cant.mtx cant.rlm     a cache: mapped, checked, not parsed
  rowloom convert cant.mtx cant.npz     for scipy.sparse.load_npz
  zcat cant.mtx.gz | rowloom convert - cant.rlm
  rowloom convert cant.mtx --check      compare conversions, write nothing";

/// Behind `rowloom fetch --help`.
pub const FETCH: &str = "\
Archives are stored unchanged, with a checksum that is compared at every use.
The next `rowloom fetch` continues an interrupted download. Every command
takes suitesparse:GROUP/NAME as a matrix and downloads a missing archive.

Examples:
  rowloom fetch Williams/cant
  rowloom run suitesparse:Williams/cant -k 32
  rowloom fetch HB/bcsstk01 --folder matrices";

const GENERATE_EXAMPLES: &str = "\
Examples:
  rowloom generate stencil27,n=64 stencil.mtx
  rowloom generate like,name=cant cant.rlm

The same KIND and seed give the same matrix on every machine.";

/// Behind `rowloom trace -h`.
pub const TRACE: &str = "\
If the trace has several products, the product with the median time is
described. The file opens as a timeline in https://ui.perfetto.dev,
chrome://tracing and speedscope.";

/// Behind `rowloom completions -h`.
pub const COMPLETIONS: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  rowloom completions bash > \\
    ~/.local/share/bash-completion/completions/rowloom
  rowloom completions zsh > \"${fpath[1]}/_rowloom\"
  mkdir -p ~/.config/fish/completions
  rowloom completions fish > ~/.config/fish/completions/rowloom.fish";

/// Behind `rowloom man -h`.
pub const MAN: &str = "\
Examples:
  rowloom man | man -l -
  rowloom man ~/.local/share/man/man1";

/// Behind `rowloom run --help`: the kernels and examples.
pub fn run() -> String {
    format!("{}\n{RUN_EXAMPLES}", kernels(KindOfWork::Spmm))
}

/// Behind `rowloom gemm --help`: the kernels, generated matrices and examples.
pub fn gemm() -> String {
    format!("{}\n{}\n{GEMM_EXAMPLES}", kernels(KindOfWork::Gemm), generators(DENSE_KINDS))
}

/// Behind `rowloom colmean --help`: the same.
pub fn colmean() -> String {
    format!("{}\n{}\n{COLMEAN_EXAMPLES}", kernels(KindOfWork::Colmean), generators(DENSE_KINDS))
}

/// The kernels of a kind of work.
fn kernels(work: KindOfWork) -> String {
    let mut text = String::from("Kernels:\n");
    for kernel in kernels_for(work) {
        text += &entry(kernel.name, kernel.summary);
    }
    text
}

/// Kinds of generated matrices with their keys.
fn generators(kinds: &[Kind]) -> String {
    let mut text = String::from("Kinds; keys in [brackets] are optional:\n");
    for kind in kinds {
        text += &entry(&kind.usage(), kind.about);
    }
    text
}

/// Behind `rowloom study --help`: the keys of a study, the names of the kernels, and examples.
pub fn study() -> String {
    let names: Vec<&str> = kernels_for(KindOfWork::Spmm).map(|kernel| kernel.name).collect();
    let names = wrapped(&names.join(", "), 2);
    format!(
        "{STUDY_KEYS}\n\nKernels (`rowloom run --help` describes them; kernels of dense work are in\n\
         `rowloom gemm --help` and `rowloom colmean --help`):\n{names}\n\n{STUDY}"
    )
}

/// Behind `rowloom bench --help`: the method and examples.
pub fn bench() -> String {
    format!("{BENCH_METHOD}\n\n{BENCH}")
}

/// Behind `rowloom generate -h`: the names of the kinds.
pub fn generate_short() -> String {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let names = wrapped(&names.join(", "), 2);
    format!(
        "Kinds (`rowloom generate --help` describes them and their keys):\n{names}\n\n{GENERATE_EXAMPLES}"
    )
}

/// Behind `rowloom generate --help`: the kinds with their keys.
pub fn generate() -> String {
    format!("{}\n{GENERATE_EXAMPLES}", generators(KINDS))
}

/// A name and, on the next lines, what it is.
fn entry(name: &str, about: &str) -> String {
    format!("  {name}\n{}\n", wrapped(about, 6))
}

/// `text` in lines of at most [`COLUMNS`] characters, each behind `indent` blanks.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![" ".repeat(indent)];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() == indent => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{}{word}", " ".repeat(indent))),
        }
    }
    lines.join("\n")
}
