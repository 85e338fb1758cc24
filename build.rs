//! Compiles `kernels/*.cu` for the emulator with the host's C++ compiler, and lists their compiled code. CUDA is not needed.
//!
//! Every load and store is instrumented (`-fsanitize=thread`), and misaligned addresses are detected
//! (`-fsanitize=alignment`). No sanitizer is linked: the emulator defines the functions that the compiler calls, so it
//! checks each access before it is executed. The kernels' entries are found in the preprocessed source.
//!
//! The script also records the build's provenance: the revision, whether files differ from it, the compiler and the
//! profile. It therefore runs at every change; kernels are compiled only if their inputs have changed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[path = "src/device/emulated/entry_names.rs"]
mod entry_names;
#[path = "src/device/emulated/shared_declarations.rs"]
mod shared_declarations;

const HEADER: &str = "src/device/emulated/cuda_builtins.h";
const TEST_KERNELS: &str = "src/device/emulated/faulty.cu";

fn main() {
    record_provenance();
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed={HEADER}");
    println!("cargo::rerun-if-changed={TEST_KERNELS}");
    let mut kernels: Vec<PathBuf> = fs::read_dir("kernels")
        .expect("the folder kernels is part of the source")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "cu"))
        .collect();
    kernels.sort();
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for kernel in &kernels {
        let name = kernel.file_name().unwrap_or_default();
        fs::write(folder.join(name), whole_text(kernel)).expect("OUT_DIR is writable");
    }
    fs::write(folder.join("built_in_code.rs"), built_in_code(&kernels, &folder))
        .expect("OUT_DIR is writable");
    kernels.push(TEST_KERNELS.into());
    let sources: Vec<PathBuf> = kernels.iter().map(|kernel| prepare(kernel, &folder)).collect();
    let stamp = folder.join("kernels.stamp");
    let inputs = inputs(&kernels);
    if fs::read_to_string(&stamp).is_ok_and(|before| before == inputs) {
        println!("cargo::rustc-link-lib=static=rowloom_kernels");
        println!("cargo::rustc-link-search=native={}", folder.display());
        return;
    }

    let mut build = cc::Build::new();
    build
        .cpp(true)
        .cpp_link_stdlib(None)
        .std("c++17")
        .opt_level(2)
        .warnings(true)
        .flag("-fsanitize=thread")
        .flag("-fsanitize=alignment")
        // Keeps the order and rounding of the source's floating-point operations.
        .flag("-ffp-contract=off")
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        // `#pragma unroll` is for CUDA compilers.
        .flag("-Wno-unknown-pragmas")
        // Loops must not become library calls, whose accesses would not be checked.
        .flag("-fno-builtin")
        .flag_if_supported("-fno-tree-loop-distribute-patterns");
    if build.get_compiler().is_like_clang() {
        build.flag("-mllvm").flag("-tsan-instrument-read-before-write=1");
    }
    build.files(&sources).compile("rowloom_kernels");

    let (tests, kernels): (Vec<_>, Vec<_>) =
        sources.iter().partition(|source| source.ends_with("faulty_emulated.cc"));
    list_entries("entry", &kernels, &folder.join("entries.rs"));
    list_entries("test_entry", &tests, &folder.join("test_entries.rs"));
    fs::write(stamp, inputs).expect("OUT_DIR is writable");
}

/// All inputs of the kernels' compilation, in one text.
fn inputs(kernels: &[PathBuf]) -> String {
    let header = fs::read_to_string(HEADER).expect("the header is part of the source");
    let mut inputs = format!("{:016x}\n", fingerprint(header.as_bytes()));
    for name in ["CXX", "CXXFLAGS", "TARGET", "PROFILE", "OUT_DIR"] {
        println!("cargo::rerun-if-env-changed={name}");
        inputs += &format!("{name} {:?}\n", env::var_os(name));
    }
    for kernel in kernels {
        inputs += &format!("{} {:016x}\n", kernel.display(), fingerprint(whole_text(kernel).as_bytes()));
    }
    let script = fs::read("build.rs").expect("this script is part of the source");
    inputs + &format!("{:016x}\n", fingerprint(&script))
}

/// Records the build's provenance in environment variables of the compiler. Outside a checkout there is no revision.
fn record_provenance() {
    for path in ["src", "build.rs", "Cargo.toml", "Cargo.lock", "configs/machines"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let same = |top: &String| fs::canonicalize(top).ok() == fs::canonicalize(&folder).ok();
    let mut revision = output_of("git", &["rev-parse", "--show-toplevel"]).filter(same);
    let mut dirty = String::new();
    if revision.is_some() {
        revision = output_of("git", &["rev-parse", "HEAD"]);
        let changed = output_of("git", &["status", "--porcelain", "--untracked-files=no"]);
        dirty = changed.map_or_else(String::new, |changed| (!changed.is_empty()).to_string());
        let log = output_of("git", &["rev-parse", "--git-path", "logs/HEAD"]);
        if let Some(log) = log.filter(|log| Path::new(log).exists()) {
            println!("cargo::rerun-if-changed={log}");
        }
    }
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo::rustc-env=ROWLOOM_REVISION={}", revision.unwrap_or_default());
    println!("cargo::rustc-env=ROWLOOM_DIRTY={dirty}");
    println!("cargo::rustc-env=ROWLOOM_COMPILER={}", output_of(&rustc, &["--version"]).unwrap_or_default());
    for (name, of) in [("ROWLOOM_TARGET", "TARGET"), ("ROWLOOM_PROFILE", "PROFILE")] {
        println!("cargo::rustc-env={name}={}", env::var(of).unwrap_or_default());
    }
}

/// The standard output of a command, if it succeeds.
fn output_of(command: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(command).args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Writes the macro call with the entries of `sources` to `file`.
fn list_entries(function: &str, sources: &[&PathBuf], file: &Path) {
    let mut list = format!("entries! {{ {function}:\n");
    for source in sources {
        let text = cc::Build::new().cpp(true).std("c++17").warnings(false).file(source).expand();
        for (name, parameters) in entry_names::entries(&String::from_utf8_lossy(&text)) {
            list.push_str(&format!("    {name}({parameters})\n"));
        }
    }
    list.push_str("}\n");
    fs::write(file, list).expect("OUT_DIR is writable");
}

/// The kernel's source with its includes expanded, as every compiler gets it.
fn whole_text(kernel: &Path) -> String {
    let text = fs::read_to_string(kernel).expect("kernels are readable");
    let lines = text.lines().map(|line| match line.strip_prefix("#include \"") {
        Some(name) => fs::read_to_string(Path::new("kernels").join(name.trim_end_matches('"')))
            .expect("kernels include files of their own folder"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// Writes the kernel's source, prepared for the C++ compiler, into `folder`.
fn prepare(kernel: &Path, folder: &Path) -> PathBuf {
    let text = whole_text(kernel);
    let text = match shared_declarations::rewrite(&text) {
        Ok(text) => text,
        Err(reason) => panic!("{}: {reason}", kernel.display()),
    };
    let header = fs::canonicalize(HEADER).expect("the header is part of the source");
    let name = kernel.file_stem().unwrap_or_default().to_string_lossy();
    let source = folder.join(format!("{name}_emulated.cc"));
    let text = format!("#include \"{}\"\n#line 1 \"{}\"\n{text}", header.display(), kernel.display());
    fs::write(&source, text).expect("OUT_DIR is writable");
    source
}

/// The archives of compiled kernels in `kernels/compiled` as rows of a Rust table; each is written to a file in `folder`.
/// Code of an older source and damaged code are left out.
fn built_in_code(kernels: &[PathBuf], folder: &Path) -> String {
    let compiled = Path::new("kernels/compiled");
    let manifest = fs::read_to_string(compiled.join("manifest.txt")).unwrap_or_default();
    let rows: Vec<Vec<&str>> = manifest
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').collect())
        .collect();
    let mut list = String::from("&[\n");
    for kernel in kernels {
        let name = kernel.file_name().unwrap_or_default().to_string_lossy();
        let text = format!("{:016x}", fingerprint(whole_text(kernel).as_bytes()));
        let content = fs::read(compiled.join(&*name).with_extension("bin")).unwrap_or_default();
        let (mut begin, mut is_current) = (0, false);
        for row in rows.iter().filter(|row| row[0] == name) {
            let [_, of, target, bytes, hash] = row[..] else {
                panic!("{}/manifest.txt: {row:?} has not five columns", compiled.display())
            };
            let end = begin + bytes.parse::<usize>().unwrap_or(usize::MAX - begin);
            let archive = content.get(begin..end).unwrap_or_default();
            begin = end;
            is_current = of == text && hash == format!("{:016x}", fingerprint(archive));
            if !is_current {
                break;
            }
            let target_expression =
                match target.strip_prefix("sm_").map(|number| number.split_at(number.len() - 1)) {
                    Some((major, minor)) => {
                        format!("Target::MachineCode(Architecture {{ major: {major}, minor: {minor} }})")
                    }
                    None => "Target::Ptx".into(),
                };
            let path = folder.join(format!("{name}.{target}"));
            fs::write(&path, archive).expect("OUT_DIR is writable");
            list.push_str(&format!(
                "BuiltIn {{ file: {name:?}, target: {target_expression}, archive: Archive(include_bytes!({path:?})) }},\n"
            ));
        }
        if !is_current {
            println!(
                "cargo::warning={} has no current code of {name}: run .ci/compile_kernels.py --write",
                compiled.display()
            );
        }
    }
    list + "]"
}

/// FNV-1a, as `.ci/compile_kernels.py` computes it.
fn fingerprint(text: &[u8]) -> u64 {
    text.iter()
        .fold(0xcbf2_9ce4_8422_2325, |value, &byte| (value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
