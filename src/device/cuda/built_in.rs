//! The compiled kernels that are built in: machine code for common architectures, and PTX for all others.
//!
//! `.ci/compile_kernels.py` writes them. An archive has the entry points of one kernel file for one target. It is a deflate
//! stream: one line `ENTRY BYTES` per entry point, an empty line, and the code of the entry points in the same order.
//!
//! The code of an entry point is a module of its own, because the driver loads whole modules. The entry points of a file share a stream
//! because they are similar: separate streams would be 60 % larger. Reading stops after the wanted entry point, which takes
//! a few milliseconds at most.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::DeflateDecoder;

/// The archives of all kernel files.
const BUILT_IN: &[BuiltIn] = include!(concat!(env!("OUT_DIR"), "/built_in_code.rs"));

/// The compute capability of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Architecture {
    /// Major number, 9 of 9.0.
    pub major: u32,
    /// Minor number, 0 of 9.0.
    pub minor: u32,
}

/// What compiled code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// PTX, which the driver compiles for its card.
    Ptx,
    /// Machine code.
    MachineCode(Architecture),
}

/// The compiled code of one kernel file for one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// The file's name in `kernels/`.
    pub file: &'static str,
    /// What the code is for.
    pub target: Target,
    /// The code.
    pub archive: Archive,
}

impl BuiltIn {
    /// The code of a kernel file that a card of `architecture` may run, best first: machine code, then PTX.
    pub fn for_card(file: &str, architecture: Architecture) -> Vec<Self> {
        best_first(BUILT_IN.iter().filter(|built_in| built_in.file == file), architecture)
    }
}

/// Machine code runs on cards of its own major version and the same or a later minor version.
fn best_first<'a>(all: impl Iterator<Item = &'a BuiltIn>, card: Architecture) -> Vec<BuiltIn> {
    let rank = |built_in: &BuiltIn| match built_in.target {
        Target::Ptx => None,
        Target::MachineCode(of) => Some(of.minor),
    };
    let runs = |built_in: &&BuiltIn| match built_in.target {
        Target::Ptx => true,
        Target::MachineCode(of) => of.major == card.major && of.minor <= card.minor,
    };
    let mut usable: Vec<BuiltIn> = all.filter(runs).copied().collect();
    usable.sort_by_key(|built_in| std::cmp::Reverse(rank(built_in)));
    usable
}

/// A compressed archive of entry points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Archive(pub &'static [u8]);

impl Archive {
    /// The code of an entry point; `None` if the archive does not have it.
    pub fn code(&self, entry: &str) -> Option<Vec<u8>> {
        self.read(entry).unwrap_or_else(|error| {
            tracing::warn!(%error, "built-in code cannot be read");
            None
        })
    }

    fn read(&self, entry: &str) -> io::Result<Option<Vec<u8>>> {
        let mut reader = BufReader::new(DeflateDecoder::new(self.0));
        let mut wanted = None;
        let mut end = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, bytes)) = line.trim_end().split_once(' ') else { break };
            let bytes: u64 = bytes.parse().map_err(io::Error::other)?;
            if name == entry {
                wanted = Some((end, bytes));
            }
            end += bytes;
        }
        let Some((begin, bytes)) = wanted else { return Ok(None) };
        io::copy(&mut reader.by_ref().take(begin), &mut io::sink())?;
        let mut code = Vec::with_capacity(bytes as usize);
        reader.take(bytes).read_to_end(&mut code)?;
        if (code.len() as u64) < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(code))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;
    use crate::kernel::colmean::COLMEAN_KERNELS;
    use crate::kernel::cuda::CUDA_KERNELS;
    use crate::kernel::gemm::GEMM_KERNELS;
    use crate::kernel::vectors::VECTOR_KERNELS;
    use crate::matrix::Dtype;

    /// An archive of these entry points.
    pub fn archive(entries: &[(&str, &str)]) -> Archive {
        let index: String = entries.iter().map(|(entry, code)| format!("{entry} {}\n", code.len())).collect();
        let code: String = entries.iter().map(|(_, code)| *code).collect();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(format!("{index}\n{code}").as_bytes()).unwrap();
        Archive(encoder.finish().unwrap().leak())
    }

    type Version = (u32, u32);

    /// Compute capabilities of cards, and of the machine code that they run.
    const CARDS: [(Version, Option<Version>); 10] = [
        ((7, 5), None),
        ((8, 0), Some((8, 0))),
        ((8, 6), Some((8, 0))),
        ((8, 9), Some((8, 0))),
        ((9, 0), Some((9, 0))),
        ((10, 0), Some((10, 0))),
        ((10, 3), Some((10, 0))),
        ((11, 0), None),
        ((12, 0), Some((12, 0))),
        ((12, 1), Some((12, 0))),
    ];

    #[test]
    fn every_entry_of_every_kernel_has_ptx_and_machine_code_for_common_cards() {
        for (file, entries) in entries_by_file() {
            for ((major, minor), code_of) in CARDS {
                let built_in = BuiltIn::for_card(file, Architecture { major, minor });
                let mut targets: Vec<Target> = built_in.iter().map(|built_in| built_in.target).collect();
                assert_eq!(targets.pop(), Some(Target::Ptx), "{file}: run .ci/compile_kernels.py --write");
                let expected =
                    code_of.map(|(major, minor)| Target::MachineCode(Architecture { major, minor }));
                assert_eq!(targets, Vec::from_iter(expected), "{file} on {major}.{minor}");
            }
            for built_in in BUILT_IN.iter().filter(|built_in| built_in.file == file) {
                for entry in &entries {
                    let code =
                        built_in.archive.code(entry).unwrap_or_else(|| panic!("{file} has no {entry}"));
                    check_code(entry, built_in.target, &code);
                }
            }
        }
    }

    /// The files in `kernels/` with the entry points that may be launched.
    fn entries_by_file() -> BTreeMap<&'static str, Vec<String>> {
        let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for dtype in [Dtype::F64, Dtype::F32] {
            for kernel in CUDA_KERNELS {
                let entries = kernel.variants_of(dtype).map(|variant| kernel.entry(dtype, variant));
                files.entry(kernel.file).or_default().extend(entries);
            }
            let vectors = VECTOR_KERNELS.iter().map(|info| info.kernel.entry_point());
            let dense = GEMM_KERNELS.iter().chain(COLMEAN_KERNELS).copied();
            for kernel in vectors.chain(dense) {
                files.entry(kernel.file).or_default().push(kernel.entry(dtype));
            }
        }
        files
    }

    fn check_code(entry: &str, target: Target, code: &[u8]) {
        match target {
            Target::Ptx => {
                let ptx = std::str::from_utf8(code).unwrap();
                assert_eq!(ptx.matches(".visible .entry").count(), 1, "{entry}");
                assert!(ptx.contains(&format!(".visible .entry {entry}(")));
                let old_enough = ptx.starts_with(".version 8.0\n.target sm_75\n");
                assert!(old_enough, "for older drivers and cards");
                assert_eq!(ptx.matches('{').count(), ptx.matches('}').count());
            }
            Target::MachineCode(_) => {
                let section = format!(".text.{entry}\0").into_bytes();
                assert!(code.starts_with(b"\x7fELF"), "{entry}");
                assert!(code.windows(section.len()).any(|bytes| bytes == section), "{entry}");
                // Two string tables name each section.
                let sections = code.windows(7).filter(|bytes| *bytes == b"\0.text.").count();
                assert!(sections <= 2, "{entry}: more than one entry point");
            }
        }
    }

    /// Whether every load of other blocks' sums is ordered after the counter was read, for all lanes: lane 0 reads the counter
    /// (`atom`), its fence acquires the sums (`membar`), and a barrier, of the lanes or of the whole block of threads, orders the loads
    /// of all lanes (`ld.global.cg`) after the fence.
    fn lanes_acquire(ptx: &str) -> bool {
        const ORDER: [&[&str]; 4] =
            [&["atom.release.gpu."], &["membar.gl"], &["bar.warp.sync", "bar.sync"], &["ld.global.cg."]];
        let mut steps = 0;
        for line in ptx.lines() {
            match ORDER.iter().position(|step| step.iter().any(|instruction| line.contains(instruction))) {
                Some(0) => steps = 1,
                Some(3) if steps < 3 => return false,
                Some(step) if step == steps => steps += 1,
                _ => {}
            }
        }
        true
    }

    #[test]
    fn every_lane_acquires_the_sums_of_other_blocks_before_it_reads_them() {
        let mut counting = 0;
        for (file, entries) in entries_by_file() {
            let ptx =
                BUILT_IN.iter().find(|built_in| built_in.file == file && built_in.target == Target::Ptx);
            for entry in entries {
                let code = ptx.unwrap().archive.code(&entry).unwrap();
                let code = std::str::from_utf8(&code).unwrap();
                // No kernel reads what another block has written without counting the blocks.
                counting += usize::from(code.contains("ld.global.cg."));
                assert_eq!(code.contains("atom."), code.contains("ld.global.cg."), "{entry}");
                assert!(lanes_acquire(code), "{entry}");
            }
        }
        assert!(counting > 50, "only {counting} entries count blocks");
        // A shuffle orders nothing: here only lane 0 acquires, since it alone has read the counter.
        assert!(!lanes_acquire(
            "atom.release.gpu.global.add.u32\nshfl.sync.idx.b32\nmembar.gl\nld.global.cg.f64"
        ));
    }

    #[test]
    fn an_entry_is_read_completely_and_alone() {
        let long = "x".repeat(100_000);
        let archive = archive(&[("one", "first"), ("empty", ""), ("one_more", &long), ("last", "end")]);
        assert_eq!(archive.code("one").unwrap(), b"first");
        assert_eq!(archive.code("empty").unwrap(), b"");
        assert_eq!(archive.code("one_more").unwrap(), long.as_bytes());
        assert_eq!(archive.code("last").unwrap(), b"end");
        assert_eq!(archive.code("more"), None);
    }

    #[test]
    fn a_damaged_archive_has_no_code() {
        let whole = archive(&[("one", "first"), ("two", "second, which is last")]).0;
        assert_eq!(Archive(&whole[..whole.len() - 8]).code("two"), None);
        assert_eq!(Archive(b"").code("one"), None);
        assert_eq!(Archive(b"\xff\xff\xff").code("one"), None);
    }
}
