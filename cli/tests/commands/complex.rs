//! Complex matrices on the command line: products, their files and reports, and the commands that refuse them.

use xxhash_rust::xxh3::xxh3_64;

use crate::support::Place;

/// `[[1 + 2i, 0, 3i], [0, 0, 0], [0, -1, 2 - i]]`.
const COMPLEX: &str =
    "%%MatrixMarket matrix coordinate complex general\n3 3 4\n1 1 1 2\n1 3 0 3\n3 2 -1 0\n3 3 2 -1\n";

/// A x for [`COMPLEX`] and X all ones, real and imaginary parts in turn.
const ROW_SUMS: [f64; 6] = [1.0, 5.0, 0.0, 0.0, 1.0, -1.0];

fn place() -> Place {
    let place = Place::new();
    place.write("a.mtx", COMPLEX);
    place
}

/// The header and the numbers of a `.npy` file that Rowloom wrote.
fn npy(place: &Place, name: &str) -> (String, Vec<f64>) {
    let bytes = std::fs::read(place.path(name)).unwrap();
    let (header, numbers) = bytes.split_at(256);
    let numbers = numbers.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
    (String::from_utf8_lossy(&header[10..]).into_owned(), numbers)
}

#[test]
fn y_is_the_complex_product_and_its_hash_is_that_of_its_bytes() {
    let place = place();
    let report = place.json("run a.mtx -k 2 --x ones --verify --output y.npy --json");
    let (header, y) = npy(&place, "y.npy");
    assert!(header.contains("'descr': '<c16'") && header.contains("'shape': (3, 2)"), "{header}");
    let expected: Vec<f64> = ROW_SUMS.chunks(2).flat_map(|pair| [pair, pair].concat()).collect();
    assert_eq!(y, expected);
    let bytes: Vec<u8> = y.iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(report["y_hash"], format!("{:016x}", xxh3_64(&bytes)));
    assert_eq!(report["verify"]["passed"], true);
    let matrix = &report["matrix"];
    assert_eq!([&matrix["rows"], &matrix["cols"], &matrix["nnz"]], [3, 3, 4]);
    assert_eq!((&report["k"], &matrix["field"]), (&2.into(), &"complex".into()));
    assert_eq!(report["complex"], true);
    let entries = |key: &str| {
        report[key].as_array().unwrap().iter().map(|one| one["nnz"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((entries("chunks"), entries("devices")), (4, 4));
    assert_eq!((&report["bytes"]["x"], &report["bytes"]["y"]), (&96.into(), &96.into()));
}

#[test]
fn x_is_read_as_complex_or_real_and_y_has_its_shape() {
    let place = place();
    place.succeed("run a.mtx -k 1 --x ones --output x.npy");
    let report = place.json("run a.mtx --x x.npy --verify --output y.npy --json");
    assert_eq!(report["k"], 1);
    // A (A 1): rows 1 and 3 of A times [1 + 5i, 0, 1 - i].
    assert_eq!(npy(&place, "y.npy").1, [-6.0, 10.0, 0.0, 0.0, 1.0, -3.0]);
    place.write("real.mtx", "%%MatrixMarket matrix array real general\n3 1\n1\n1\n1\n");
    place.succeed("run a.mtx --x real.mtx --verify --output z.npy");
    assert_eq!(npy(&place, "z.npy").1, ROW_SUMS);
    let output = place.command("run a.mtx -k 1 --x ones --output - --quiet").output().unwrap();
    assert!(output.stdout.starts_with(b"\x93NUMPY") && output.stdout.len() == 256 + 48);
}

#[test]
fn every_device_and_mode_gives_the_same_y() {
    let place = place();
    let random = "%%MatrixMarket matrix coordinate complex general\n40 50 400\n";
    let entry = |index: u64| {
        let mixed = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        format!("{} {} {} {}\n", index % 40 + 1, (index / 40 * 5 + mixed % 5) % 50 + 1, mixed % 19, mixed % 7)
    };
    place.write("b.mtx", random.to_owned() + &(0..400).map(entry).collect::<String>());
    let hash = |words: &str| {
        let report = place.json(&format!("run b.mtx -k 3 --reproducible --verify --json {words}"));
        report["y_hash"].as_str().unwrap().to_owned()
    };
    let first = hash("--devices cpu --threads 1");
    assert_eq!(hash("--devices cpu --threads 2"), first);
    assert!(place.json("run b.mtx --dtype f32 -k 5 --verify --json")["verify"]["passed"].as_bool().unwrap());
}

#[test]
fn inspect_describes_the_complex_matrix() {
    let place = place();
    let text = place.succeed("inspect a.mtx --spy a.svg").stdout;
    assert!(
        text.contains("3 x 3, 4 complex nonzeros") && text.contains("complex, general, 4 entries"),
        "{text}"
    );
    let report = place.json("inspect a.mtx --json");
    assert_eq!((&report["matrix"]["cols"], &report["matrix"]["nnz"]), (&3.into(), &4.into()));
    assert_eq!((&report["statistics"]["max"], &report["statistics"]["empty_rows"]), (&2.into(), &1.into()));
    assert!(place.read("a.svg").contains("<svg"));
}

#[test]
fn conversions_keep_complex_values() {
    let place = place();
    let y = |name: &str| place.json(&format!("run {name} -k 2 --json"))["y_hash"].clone();
    let first = y("a.mtx");
    for (from, to) in [("a.mtx", "b.rlm"), ("b.rlm", "c.npz"), ("c.npz", "d.mtx.gz")] {
        let report = place.json(&format!("convert {from} {to} --json"));
        assert_eq!((&report["matrix"]["cols"], &report["matrix"]["nnz"]), (&3.into(), &4.into()));
        assert_eq!(y(to), first, "{to}");
    }
}

#[test]
fn what_cannot_be_done_with_complex_values_is_refused_with_what_can() {
    let place = place();
    place.write("x.mtx", "%%MatrixMarket matrix array real general\n2 1\n1\n1\n");
    place.write("dense.mtx", "%%MatrixMarket matrix array complex general\n3 1\n1 0\n1 0\n1 0\n");
    place.succeed("run a.mtx -k 2 --output y.npy");
    place.fail("run a.mtx --output y.mtx", 2, "A is complex, and so is Y; the ending must be .npy");
    place.fail("run a.mtx --x x.mtx", 3, "X has 2 rows but A has 3 columns");
    place.fail("run a.mtx --x y.npy -k 3", 3, "X has 2 columns but -k says 3");
    place.fail("run a.mtx --x dense.mtx", 3, "unsupported: complex arrays in Matrix Market");
    for words in [
        "plan a.mtx -k 2",
        "bench a.mtx -k 2",
        "gemm y.npy y.npy",
        "colmean y.npy",
        "run gen:diagonal,rows=3 --x y.npy",
    ] {
        place.fail(
            words,
            3,
            "unsupported: complex values; real, integer and pattern matrices are read here; `rowloom run`",
        );
    }
    place.write("cut.mtx", COMPLEX.replace("3 3 2 -1", "3 3 2"));
    place.fail("run cut.mtx", 3, "cut.mtx:6: '3 3 2' has no imaginary part");
}
