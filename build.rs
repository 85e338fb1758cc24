//! Lists the compiled code of the kernels in `kernels` and `kernels/sources` and, with the feature `emulator`, compiles them for the emulator. CUDA is not needed.

use std::path::{Path, PathBuf};
use std::{env, fs};

#[cfg(feature = "emulator")]
#[path = "src/device/emulated/build.rs"]
mod emulator;
#[cfg(feature = "emulator")]
#[path = "src/device/emulated/entry_names.rs"]
mod entry_names;
#[cfg(feature = "emulator")]
#[path = "src/device/emulated/shared_declarations.rs"]
mod shared_declarations;

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    let files = |folder| fs::read_dir(folder).expect("the folders of kernels are part of the source");
    let mut kernels: Vec<PathBuf> = ["kernels", "kernels/sources"]
        .into_iter()
        .flat_map(files)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "cu"))
        .collect();
    kernels.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for kernel in &kernels {
        let name = kernel.file_name().unwrap_or_default();
        fs::write(folder.join(name), whole_text(kernel)).expect("OUT_DIR is writable");
    }
    fs::write(folder.join("built_in_code.rs"), built_in_code(&kernels, &folder))
        .expect("OUT_DIR is writable");
    #[cfg(feature = "emulator")]
    emulator::compile(kernels, &folder);
}

/// The kernel's source with its includes expanded, as every compiler gets it.
fn whole_text(kernel: &Path) -> String {
    let text = fs::read_to_string(kernel).expect("kernels are readable");
    let lines = text.lines().map(|line| match line.strip_prefix("#include \"") {
        Some(name) => fs::read_to_string(Path::new("kernels").join(name.trim_end_matches('"')))
            .expect("kernels include files of the folder kernels"),
        None => format!("{line}\n"),
    });
    lines.collect()
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
