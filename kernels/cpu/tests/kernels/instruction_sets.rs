//! The instruction sets of the processor.

use rowloom_cpu::Isa;

#[test]
fn names_are_those_of_reports_and_options() {
    assert_eq!([Isa::Portable, Isa::Avx2, Isa::Avx512].map(Isa::name), ["portable", "avx2", "avx512"]);
}

#[test]
fn the_detected_instruction_set_is_the_widest_available() {
    assert_eq!(Some(&Isa::detect()), Isa::available().iter().max());
    assert!(Isa::available().is_sorted());
}

/// Linux states what the processor has in a file.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn available_instruction_sets_are_those_that_the_system_lists() {
    let text = std::fs::read_to_string("/proc/cpuinfo").expect("Linux has this file");
    let flags: Vec<&str> =
        text.lines().find(|line| line.starts_with("flags")).expect("flags").split_whitespace().collect();
    let has = |names: &[&str]| names.iter().all(|name| flags.contains(name));
    let mut expected = vec![Isa::Portable];
    if has(&["avx2", "fma"]) {
        expected.push(Isa::Avx2);
        if has(&["avx512f", "avx512vl"]) {
            expected.push(Isa::Avx512);
        }
    }
    assert_eq!(Isa::available(), expected);
}
