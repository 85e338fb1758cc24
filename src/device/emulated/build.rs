//! Part of the build script: compiles the CUDA kernels for the emulator with the host's C++ compiler.
//!
//! Every load and store is instrumented (`-fsanitize=thread`), and misaligned addresses are detected
//! (`-fsanitize=alignment`). No sanitizer is linked: the emulator defines the functions that the compiler calls, so it
//! checks each access before it is executed. The kernels' entries are found in the preprocessed source.

use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::{env, fs, thread};

use super::{entry_names, fingerprint, shared_declarations, whole_text};

const HEADER: &str = "src/device/emulated/cuda_builtins.h";
const TEST_KERNELS: &str = "src/device/emulated/faulty.cu";

/// Compiles the kernels into a library in `folder` and lists their entries there, unless nothing has changed.
pub fn compile(mut kernels: Vec<PathBuf>, folder: &Path) {
    println!("cargo::rerun-if-changed={HEADER}");
    println!("cargo::rerun-if-changed={TEST_KERNELS}");
    kernels.push(TEST_KERNELS.into());
    let sources: Vec<PathBuf> = kernels.iter().map(|kernel| prepare(kernel, folder)).collect();
    let stamp = folder.join("kernels.stamp");
    let inputs = inputs(&kernels);
    if fs::read_to_string(&stamp).is_ok_and(|before| before == inputs) {
        println!("cargo::rustc-link-lib=static=rowloom_kernels");
        println!("cargo::rustc-link-search=native={}", folder.display());
        return;
    }

    check_compiler();
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .cpp_link_stdlib(None)
        // A sanitizer of the program does not apply to kernels, whose accesses are checked here.
        .inherit_rustflags(false)
        .flag("-fno-sanitize=address")
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
    let compiler = build.get_compiler();
    let assemblies: Result<Vec<PathBuf>, String> = thread::scope(|scope| {
        let compiler = &compiler;
        let started: Vec<_> =
            sources.iter().map(|source| scope.spawn(move || assembly(compiler, source))).collect();
        started.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    let assemblies = assemblies.unwrap_or_else(|reason| refuse(&reason));
    if let Err(error) = cc::Build::new().files(&assemblies).try_compile("rowloom_kernels") {
        refuse(&format!("its compiled code cannot be assembled ({error})"));
    }

    let (tests, kernels): (Vec<_>, Vec<_>) =
        sources.iter().partition(|source| source.ends_with("faulty_emulated.cc"));
    list_entries("entry", &kernels, &folder.join("entries.rs"));
    list_entries("test_entry", &tests, &folder.join("test_entries.rs"));
    fs::write(stamp, inputs).expect("OUT_DIR is writable");
}

/// Ends the build if the C++ compiler cannot be run.
fn check_compiler() {
    let compiler = match cc::Build::new().cpp(true).try_get_compiler() {
        Ok(compiler) => compiler,
        Err(error) => refuse(&format!("there is none ({error})")),
    };
    let mut version = compiler.to_command();
    let runs = version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !runs.is_ok_and(|status| status.success()) {
        refuse(&format!("`{}` does not run", compiler.path().display()));
    }
}

/// Ends the build with an error that says how to build without the emulator.
fn refuse(reason: &str) -> ! {
    println!(
        "cargo::error=rowloom's feature `emulator` (emulated GPUs, `emu:0`) needs a C++ compiler: {reason}. Install g++ or clang++, or \
         build without the feature: a crate that depends on rowloom with `default-features = false`, the program with \
         `--no-default-features`"
    );
    process::exit(1)
}

/// Compiles a source to assembly language, in which the functions of sanitizers have names of our own: a program with the emulator can
/// be linked with a real sanitizer.
fn assembly(compiler: &cc::Tool, source: &Path) -> Result<PathBuf, String> {
    let path = source.with_extension("s");
    let status = compiler.to_command().arg("-S").arg(source).arg("-o").arg(&path).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err(format!("`{}` does not compile {}", compiler.path().display(), source.display()));
    }
    let text = fs::read_to_string(&path).expect("the compiler has written it");
    let text = text.replace("__tsan_", "rowloom_tsan_").replace("__ubsan_", "rowloom_ubsan_");
    fs::write(&path, text).expect("OUT_DIR is writable");
    Ok(path)
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
    let script = fs::read("src/device/emulated/build.rs").expect("this script is part of the source");
    inputs + &format!("{:016x}\n", fingerprint(&script))
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
