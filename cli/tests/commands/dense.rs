//! `rowloom gemm` and `rowloom colmean` on dense inputs of every kind.

use serde_json::Value;

use crate::support::Place;

/// 2 x 3.
const A: &str = "%%MatrixMarket matrix array real general\n2 3\n1\n4\n2\n5\n3\n6\n";
/// A place with A, a 3 x 2 B as text, and a 2 x 2 C.
fn place() -> Place {
    let place = Place::new();
    place.write("a.mtx", A);
    place.write("b.txt", "# B\n1 0.0e0\n-1  2.5E-01\n0 1\n");
    place.write("c.csv", "10,20\n30,40\n");
    place
}

/// The numbers of a Matrix Market array, column by column.
fn array(text: &str) -> Vec<f64> {
    let lines = text.lines().filter(|line| !line.starts_with('%')).skip(1);
    lines.map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_product_of_files_of_three_formats_is_written_and_verified() {
    let place = place();
    // A B = [[-1, 3.5], [-1, 7.25]].
    let output = place.succeed("gemm a.mtx b.txt --devices cpu --output out.mtx --verify --repeat 2");
    assert!(output.stdout.contains("verified") && output.stdout.contains("yes:"), "{}", output.stdout);
    assert_eq!(array(&place.read("out.mtx")), [-1.0, -1.0, 3.5, 7.25]);
    place.succeed(
        "gemm a.mtx b.txt --c c.csv --alpha 2 --beta -1 --devices cpu --output new.npy --verify --repeat 3",
    );
    place
        .succeed("gemm new.npy gen:dense,rows=2,cols=1 --devices cpu --repeat 1 --alpha 0 --output zero.mtx");
    // Every repetition begins with the same old C: 2 A B - C.
    place.write("identity.txt", "1 0\n0 1\n");
    place.succeed("gemm new.npy identity.txt --devices cpu --repeat 1 --output again.mtx");
    assert_eq!(array(&place.read("again.mtx")), [-12.0, -32.0, -13.0, -25.5]);
    assert_eq!(array(&place.read("zero.mtx")), [0.0, 0.0]);
}

#[test]
fn every_device_and_split_gives_one_hash_of_a_reproducible_product() {
    let place = Place::new();
    let operands = "gen:dense,rows=97,cols=33 gen:dense,rows=33,cols=41";
    let hash = |flags: &str| {
        let report =
            place.json(&format!("gemm {operands} --reproducible --verify --repeat 1 --json {flags}"));
        assert_eq!(report["verify"]["passed"], Value::Bool(true), "{flags}");
        report["c_hash"].as_str().unwrap().to_owned()
    };
    let first = hash("--devices cpu");
    for flags in [
        "--devices cpu --chunks 7",
        "--devices emu:0",
        "--devices cpu,emu:0 --mode stream --chunks 5",
        "--devices emu:0 --kernel gemm_naive",
        "--devices emu:0 --kernel gemm_tiled_t16 --mode oneshot",
    ] {
        assert_eq!(hash(flags), first, "{flags}");
    }
}

#[test]
fn a_report_of_a_dense_product_has_its_operands_plan_and_speed() {
    let place = Place::new();
    let words = "gemm gen:dense,rows=60,cols=50 gen:dense,rows=50,cols=40 --devices cpu --repeat 3";
    let report = place.json(&format!("{words} --json --trace trace.json"));
    assert_eq!((&report["command"], &report["a"]["rows"]), (&"gemm".into(), &60.into()));
    assert_eq!((&report["b"]["cols"], &report["beta"]), (&40.into(), &0.0.into()));
    assert!(report["gflops"].as_f64().unwrap() > 0.0);
    assert_eq!(report["timing"]["run_s"]["n"], 3);
    assert!(report["chunks"].as_array().unwrap().iter().all(|chunk| chunk["kernel"] == "cpu_gemm"));
    let entries: u64 =
        report["chunks"].as_array().unwrap().iter().map(|chunk| chunk["entries"].as_u64().unwrap()).sum();
    assert_eq!(entries, 60 * 50);
    assert_eq!(report["config"]["kernel"], "auto");
    assert!(place.succeed("trace trace.json").stdout.contains("cpu"));
}

#[test]
fn a_saved_plan_of_a_dense_product_runs_and_fits_only_its_shape() {
    let place = Place::new();
    let operands = "gen:dense,rows=64,cols=20 gen:dense,rows=20,cols=10";
    place.succeed(&format!("gemm {operands} --devices cpu,emu:0 --chunks 4 --repeat 1 --save plan.json"));
    place.succeed(&format!("gemm {operands} --plan plan.json --repeat 1 --verify"));
    let other = "gemm gen:dense,rows=64,cols=20 gen:dense,rows=20,cols=11 --plan plan.json";
    place.fail(other, 2, "the plan was made for");
    place.fail(&format!("gemm {operands} --plan plan.json --devices cpu"), 2, "cannot be used with");
}

#[test]
fn simulated_devices_predict_dense_work_and_compute_none() {
    let place = Place::new();
    let gemm = "gemm gen:dense,rows=4000,cols=300 gen:dense,rows=300,cols=300 --devices sim:h200x4";
    let report = place.json(&format!("{gemm} --json"));
    assert!(report["simulated"].as_bool().unwrap() && report["c_hash"].is_null());
    place.fail(&format!("{gemm} --verify"), 2, "simulated devices compute nothing");
    let colmean = "colmean gen:dense,rows=5000,cols=300 --devices sim:h200";
    assert!(place.succeed(colmean).stdout.contains("in virtual time"));
    place.fail(&format!("{colmean} --plot a.svg"), 2, "simulated devices compute nothing");
}

#[test]
fn wrong_operands_of_a_dense_product_are_refused_by_name() {
    let place = place();
    place.write("sparse.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n");
    place.write("nan.txt", "1 nan\n2 3\n");
    place.write("ragged.txt", "1 2\n3\n");
    for (words, code, part) in [
        ("gemm a.mtx", 2, "<B>"),
        ("gemm a.mtx c.csv", 3, "c.csv: B has 2 rows but A has 3 columns"),
        ("gemm a.mtx b.txt --c b.txt", 3, "b.txt: C is 3 x 2, but A B is 2 x 2"),
        ("gemm a.mtx b.txt --beta 2", 2, "--beta needs the old C"),
        ("gemm a.mtx b.txt --alpha nan", 2, "finite number"),
        ("gemm a.mtx missing.npy", 3, "missing.npy"),
        ("gemm sparse.mtx c.csv", 3, "sparse.mtx:1: a dense"),
        ("gemm ragged.txt c.csv", 3, "ragged.txt:2: the line has 1 number"),
        ("gemm nan.txt c.csv --finite", 3, "nan.txt:1"),
        ("gemm gen:dens,rows=2,cols=2 c.csv", 2, "did you mean 'dense'?"),
        ("gemm gen:dense,rows=99999999,cols=99999999 c.csv", 3, "99999999 x 99999999"),
        ("gemm suitesparse:HB/bcsstk01 c.csv", 2, "a dense one is needed"),
        ("gemm a.mtx b.txt --kernel gemm_tild_t16", 2, "did you mean 'gemm_tiled_t16'?"),
        ("gemm a.mtx b.txt --kernel cpu_csr", 2, "unknown kernel 'cpu_csr'"),
        ("gemm a.mtx b.txt --output c.txt", 2, "the ending must be .mtx or .npy"),
        ("gemm - -", 2, "'-' is named twice"),
    ] {
        let outcome = place.run(words);
        assert_eq!(outcome.code, code, "{words}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{words}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{words}");
    }
    let output = place.succeed("gemm nan.txt c.csv --devices cpu --repeat 1 --verify");
    assert!(output.stderr.contains("nan.txt: 1 value is not finite"), "{}", output.stderr);
}

#[test]
fn tables_of_spreadsheets_are_read_and_a_column_of_text_is_named() {
    let place = Place::new();
    place.write("quoted.csv", "\"id\";\"val\"\n1;\"2,5\"\n2;\"3,5\"\n");
    let shown = place.succeed("colmean quoted.csv").stdout;
    assert!(shown.contains("mean 3.000000") && shown.contains("val"), "{shown}");
    place.write("ends.csv", "a;b\n1,5;2,5;\n");
    place.fail(
        "colmean ends.csv",
        3,
        "ends.csv:1: this line has 2 names, the first line of numbers 3 fields",
    );
    place.write("text.csv", "id;name\n1;abc\n");
    place.fail(
        "colmean text.csv",
        3,
        "text.csv:2:3: value 'abc' is not a number; column 1 (name) needs a number in every row",
    );
}

#[test]
fn asking_for_cublas_without_it_is_a_usage_error() {
    let place = place();
    place.fail(
        "gemm a.mtx b.txt --devices emu:0 --kernel cublas",
        2,
        "the library cuBLAS, which was not found",
    );
    place.fail("gemm a.mtx b.txt --devices cpu --kernel cublas", 2, "add cuda:0 to --devices");
}

#[test]
fn dense_matrices_come_from_standard_input_and_go_to_standard_output() {
    let place = place();
    let stream = |words: &str, input: &str| {
        let output = place.command(words).write_stdin(input).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (c, table) = stream("gemm - b.txt --devices cpu --repeat 1 --output -", A);
    assert_eq!(array(&c), [-1.0, -1.0, 3.5, 7.25]);
    assert!(table.contains("on standard output"), "{table}");
    let (table, _) = stream("colmean - --devices cpu --repeat 1", "1,2\n3,6\n");
    assert!(table.contains("from 2.000000 (column 0) to 4.000000"), "{table}");
    place.fail("gemm a.mtx b.txt --output - --json", 2, "both write to standard output");
    place.fail("gemm a.mtx b.txt --output a.mtx", 2, "which is an input");
    place.write("foreign.csv", "a,b\n");
    place.fail("colmean c.csv --output foreign.csv", 2, "--force");
    place.succeed("colmean c.csv --devices cpu --repeat 1 --output own.csv");
    place.succeed("colmean c.csv --devices cpu --repeat 1 --output own.csv");
}

#[test]
fn sizes_of_zero_and_one_are_computed() {
    let place = Place::new();
    for (rows, depth, columns) in [(0, 3, 4), (3, 0, 4), (1, 1, 1), (3, 4, 1)] {
        let operands = format!("gen:dense,rows={rows},cols={depth} gen:dense,rows={depth},cols={columns}");
        for devices in ["cpu", "emu:0"] {
            let report =
                place.json(&format!("gemm {operands} --devices {devices} --repeat 1 --verify --json"));
            assert_eq!(report["verify"]["passed"], Value::Bool(true), "{operands} on {devices}");
        }
    }
    for (rows, columns) in [(0, 3), (1, 1), (3, 1)] {
        for devices in ["cpu", "emu:0"] {
            let words =
                format!("colmean gen:dense,rows={rows},cols={columns} --devices {devices} --repeat 1");
            let report = place.json(&format!("{words} --statistics mean,variance --verify --json"));
            assert_eq!(report["verify"]["passed"], Value::Bool(true), "{words}");
        }
    }
}

#[test]
fn means_of_a_recording_are_those_of_its_columns() {
    let place = Place::new();
    // Two channels of three samples; the numbers have exponents of varying precision.
    place.write(
        "eeg.txt",
        "   1.0e+00 2.00E+0 3e0 1.0000000e+001 20 3.0e1\n   3e+00 4 5.0E+00 1.0e1 40 3.00e+01\n",
    );
    let output = place.succeed(
        "colmean eeg.txt --samples 3 --devices cpu --repeat 2 --statistics mean,sum,variance \
         --output all.csv --plot all.svg --verify",
    );
    assert!(output.stdout.contains("yes:"), "{}", output.stdout);
    let csv = place.read("all.csv");
    let lines: Vec<&str> = csv.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "channel,sample,column,mean,sum,variance",
            "0,0,0,2.0,4.0,2.0",
            "0,1,1,3.0,6.0,2.0",
            "0,2,2,4.0,8.0,2.0",
            "1,0,3,10.0,20.0,0.0",
            "1,1,4,30.0,60.0,200.0",
            "1,2,5,30.0,60.0,0.0",
        ]
    );
    let svg = place.read("all.svg");
    assert!(svg.contains("channel 0") && svg.contains("channel 1") && svg.contains("eeg.txt"));
    place.succeed(
        "colmean eeg.txt --samples 3 --channel 1 --window 1: --devices cpu --repeat 1 --output part.mtx",
    );
    assert_eq!(array(&place.read("part.mtx")), [30.0, 30.0]);
    let report = place.json("colmean eeg.txt --devices cpu --repeat 1 --json");
    assert_eq!((&report["command"], &report["columns_reported"]), (&"colmean".into(), &6.into()));
    assert_eq!((&report["means"]["smallest"], &report["means"]["largest"]), (&2.0.into(), &30.0.into()));
}

#[test]
fn a_table_of_a_spreadsheet_has_names_semicolons_and_decimal_commas() {
    let place = Place::new();
    place.write("sheet.csv", "\u{feff}time;\"height, m\"\r\n1,5;2\r\n2,5;4,5\r\n");
    let output = place.succeed("colmean sheet.csv --devices cpu --repeat 1 --output means.csv --verify");
    for words in [
        "2 columns, 2 rows each",
        "from 2.000000 (column 0, time)",
        "0 (time): mean 2.000000",
        "1 (height, m): mean 3.250000",
        "yes:",
    ] {
        assert!(output.stdout.contains(words), "{words}: {}", output.stdout);
    }
    for words in ["names of 2 columns", "commas are decimal marks"] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    let csv = place.read("means.csv");
    let lines: Vec<&str> = csv.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines, ["channel,sample,column,mean,name", "0,0,0,2.0,\"time\"", "0,1,1,3.25,\"height, m\""]);
    let report = place.json("colmean sheet.csv --devices cpu --repeat 1 --json");
    assert_eq!(report["column_names"], serde_json::json!(["time", "height, m"]));

    // Without names six columns are listed by number, and many are not listed.
    place.write("plain.txt", "1 2 3 4 5 6\n3 4 5 6 7 8\n");
    let text = place.succeed("colmean plain.txt --samples 3 --devices cpu --repeat 1").stdout;
    assert!(text.contains("5 (channel 1, sample 2): mean 7.000000"), "{text}");
    let text = place.succeed("colmean gen:dense,rows=9,cols=40 --devices cpu --repeat 1").stdout;
    assert!(text.contains("from ") && !text.contains("mean 0."), "{text}");
    place.write("words.csv", "time;height\n1,5;tall\n");
    place.fail("colmean words.csv --devices cpu", 3, "words.csv:2:5: value 'tall' is not a number");
}

#[test]
fn every_device_and_split_gives_one_hash_of_sums() {
    let place = Place::new();
    let words =
        "colmean gen:recording,rows=358,channels=4,samples=20 --statistics variance --repeat 1 --json";
    let hash = |flags: &str| {
        let report = place.json(&format!("{words} {flags} --verify"));
        assert_eq!(report["verify"]["passed"], Value::Bool(true), "{flags}");
        report["sums_hash"].as_str().unwrap().to_owned()
    };
    let first = hash("--devices cpu");
    for flags in [
        "--devices cpu --chunks 3",
        "--devices emu:0 --kernel colmean_loop",
        "--devices emu:0 --kernel colmean_reduce",
        "--devices cpu,emu:0 --mode stream",
    ] {
        assert_eq!(hash(flags), first, "{flags}");
    }
}

#[test]
fn wrong_flags_of_column_means_are_refused() {
    let place = Place::new();
    let table = "gen:recording,rows=9,channels=3,samples=4";
    for (flags, code, part) in [
        ("--samples 5", 2, "--samples 5 does not divide the 12 columns"),
        ("--samples 0", 2, "--samples"),
        ("--samples 4 --channel 3", 2, "--channel 3: the table has 3 channels"),
        ("--channel 1", 2, "--samples N divides a row"),
        ("--samples 4 --channel a", 2, "'a' is no list"),
        ("--samples 4 --window 2:9", 2, "--window 2:9: a channel has 4 samples"),
        ("--samples 4 --window 3", 2, "'3' is no window"),
        ("--statistics median", 2, "median"),
        ("--output means.txt", 2, "the ending must be .csv, .npy or .mtx"),
        ("--plot means.png", 2, "must end in .svg"),
        ("--kernel gemm_naive", 2, "unknown kernel 'gemm_naive'"),
        ("--output a.csv --plot a.csv", 2, "a.csv"),
    ] {
        let outcome = place.run(&format!("colmean {table} {flags}"));
        assert_eq!(outcome.code, code, "{flags}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{flags}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{flags}");
    }
}

#[test]
fn the_plan_of_a_shape_runs_with_matrices_of_this_shape() {
    let place = Place::new();
    place.succeed("plan gemm:rows=64,depth=20,columns=12 --devices cpu,emu:0 --repeat 1 --save gemm.plan");
    let operands = "gen:dense,rows=64,cols=20 gen:dense,rows=20,cols=12";
    place.succeed(&format!("gemm {operands} --plan gemm.plan --repeat 1 --verify"));
    place
        .succeed("plan colmean:columns=30,rows=200,variance --devices cpu,emu:0 --repeat 1 --save sums.plan");
    let table = "gen:dense,rows=200,cols=30 --statistics mean,variance";
    place.succeed(&format!("colmean {table} --plan sums.plan --repeat 1 --verify"));
    place.fail("colmean gen:dense,rows=200,cols=31 --plan sums.plan", 2, "the plan was made for");
}

#[test]
fn the_plan_of_a_shape_says_what_sharing_is_worth() {
    let place = Place::new();
    let shape = "gemm:rows=4096,depth=4096,columns=4096";
    for (devices, sharing) in [
        ("cpu,sim:h200", "sharing: none, since it would gain too little"),
        ("cpu,emu:0", "sharing: predicted "),
    ] {
        let report = place.json(&format!("plan {shape} --devices {devices} --repeat 1 --json"));
        let reasons: Vec<&str> =
            report["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect();
        assert!(reasons.iter().any(|reason| reason.starts_with(sharing)), "{reasons:?}");
        assert!(reasons.iter().all(|reason| !reason.contains(" X ")), "{reasons:?}");
        assert!(report["chunks"][0]["entries"].as_u64().unwrap() > 0);
    }
    let alone = place.json(&format!("plan {shape} --devices sim:h200 --kernel gemm_naive --json"));
    assert_eq!(alone["chunks"][0]["kernel"], "gemm_naive");
    let output = place.succeed(&format!("plan {shape} --devices sim:h200 -k 3"));
    assert!(output.stderr.contains("note: -k has no effect"), "{}", output.stderr);
}

#[test]
fn a_shape_that_is_wrong_or_too_large_is_refused() {
    let place = Place::new();
    place.fail("plan gemm:rows=3", 2, "depth is missing");
    place.fail("plan colmean:rows=3,columns=0", 2, "columns must be from 1");
    let large = "plan gemm:rows=3000,depth=3000,columns=3000 --devices emu:0 --mode stream --mem-limit 1MiB";
    place.fail(large, 3, "fewer columns of B");
}
