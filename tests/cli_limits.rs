//! Nothing is allocated because a header says so: the program works in a small address space and refuses the rest.

mod support;

use std::process::Command;

use support::Place;

/// Runs with at most this much address space, which threads and the program itself use too.
const ADDRESS_SPACE_KIB: u64 = 1 << 20;

fn run_limited(place: &Place, words: &str) -> (Option<i32>, String) {
    let script = format!("ulimit -v {ADDRESS_SPACE_KIB} && exec \"$0\" {words}");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_rowloom")])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn declared_sizes_allocate_nothing() {
    let place = Place::new();
    let coordinate = "%%MatrixMarket matrix coordinate real general\n";
    place.write("entries.mtx", format!("{coordinate}9 9 1000000000000000\n1 1 1\n"));
    place.write("rows.mtx", format!("{coordinate}1099511627776 9 1\n1 1 1\n"));
    place.write("wide.mtx", format!("{coordinate}4 4000000000 1\n1 1 1\n"));
    place.write("x.mtx", "%%MatrixMarket matrix array real general\n1000000 1000000\n1\n");
    for words in [
        "inspect entries.mtx",
        "inspect rows.mtx",
        "run wide.mtx -k 32",
        "run gen:diagonal,rows=9 --x x.mtx",
        "run gen:diagonal,rows=9 -k 100000000000",
        "generate uniform,rows=1000000000,degree=100 a.mtx",
    ] {
        let (code, said) = run_limited(&place, words);
        assert_eq!(code, Some(3), "{words}: {said}");
        assert!(said.starts_with("error: ") && said.lines().count() == 1, "{words}: {said}");
    }
}

#[test]
fn small_products_need_little_memory() {
    let place = Place::new();
    let (code, said) = run_limited(&place, "run gen:stencil5,n=100 -k 8 --verify");
    assert_eq!(code, Some(0), "{said}");
}
