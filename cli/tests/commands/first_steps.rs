//! First uses of the program: hints for words that are almost right, one product for one Y, narrow terminals, failures in scripts.

use crate::support::{Place, SMALL};

#[test]
fn an_x_without_its_flag_names_the_flag() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    for command in ["run", "plan"] {
        place.fail(&format!("{command} small.mtx X.npy"), 2, "tip: X is a flag: write '--x X.npy'");
    }
    assert!(!place.run("run small.mtx other.json").stderr.contains("tip: X is a flag"));
}

#[test]
fn a_command_with_swapped_letters_suggests_the_right_one() {
    let place = Place::new();
    for (typed, meant) in [("rnu", "run"), ("paln", "plan"), ("benhc", "bench"), ("inpsect", "inspect")] {
        place.fail(typed, 2, &format!("'{meant}'"));
    }
    assert!(!place.run("zzzzzzzzzzzz").stderr.contains("similar"));
}

#[test]
fn o_is_short_for_output() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    for command in ["run", "gemm", "colmean", "calibrate", "study", "report"] {
        let help = place.succeed(&format!("{command} --help")).stdout;
        assert!(help.contains("-o, --output <"), "{command}");
    }
    place.succeed("run small.mtx -k 1 -o y.npy --devices cpu");
    assert_eq!(place.names(), ["small.mtx", "y.npy"]);
}

#[test]
fn a_y_that_is_written_is_computed_once_unless_repetitions_are_typed() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    for (flags, repeat, warmup) in
        [("-o y.npy", 1, 0), ("", 20, 3), ("-o y.npy --repeat 4", 4, 3), ("-o y.npy --warmup 2", 20, 2)]
    {
        let report = place.json(&format!("run small.mtx -k 2 --devices cpu --json {flags}"));
        assert_eq!(report["config"]["repeat"], repeat, "{flags}");
        assert_eq!(report["config"]["warmup"], warmup, "{flags}");
        assert_eq!(report["timing"]["run_s"]["n"], repeat, "{flags}");
    }
    let text = place.succeed("run small.mtx -k 1 --devices cpu -o y.npy").stdout;
    assert!(text.contains(" for the first product, ") && text.contains(" 1 column, f64"), "{text}");
}

#[test]
fn a_failure_with_json_is_one_object_with_the_message_and_the_exit_code() {
    let place = Place::new();
    for (words, command, code) in [
        ("run none.mtx --json", "run", 3),
        ("inspect none.mtx --json", "inspect", 3),
        ("study quik --json", "study", 3),
        ("bench gen:nothing --json", "bench", 2),
    ] {
        let outcome = place.run(words);
        assert_eq!(outcome.code, code, "{words}");
        let object: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(object["command"], command);
        assert_eq!(object["rowloom"], env!("CARGO_PKG_VERSION"));
        let error = &object["error"];
        assert_eq!(error["exit_code"], code);
        assert_eq!(outcome.stderr, format!("error: {}\n", error["message"].as_str().unwrap()));
    }
    // A command that has printed its object prints no second one.
    let wrong = "bench gen:stencil5,n=9 -k 4 --devices emu:0?flip_bit_in_copy=1 --kernels csr_scalar_v1 \
                 --repeat 2 --warmup 1 --json";
    let outcome = place.run(wrong);
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    let object: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert!(object["error"].is_null() && object["cases"].is_array());
}

/// Text with one blank between words.
fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_kernel_of_a_machine_that_is_not_calibrated_has_a_reason() {
    let place = Place::new();
    let reason =
        "the default CPU kernel; this device is not calibrated, so cpu_sell is predicted to take as long";
    for words in ["plan --wide", "plan", "run --repeat 1"] {
        let (command, flags) = words.split_once(' ').unwrap_or((words, ""));
        let shown =
            flowing(&place.succeed(&format!("{command} gen:stencil27,n=9 --devices cpu {flags}")).stdout);
        assert!(shown.contains(reason), "{words}: {shown}");
        // The name of the kernel, and its only chunk, are not repeated.
        assert!(!shown.contains("cpu_csr cpu_csr:") && !shown.contains("for example"), "{words}: {shown}");
    }
    for command in ["plan", "run"] {
        let report = place.json(&format!("{command} gen:stencil27,n=9 --devices cpu --json"));
        let of_chunk = report["chunks"][0]["reason"].as_str().unwrap();
        assert!(
            of_chunk.contains(reason) && of_chunk.starts_with("cpu is the only device; cpu_csr: "),
            "{of_chunk}"
        );
        let requested =
            place.json(&format!("{command} gen:stencil27,n=9 --devices cpu --kernel cpu_sell --json"));
        let of_chunk = requested["chunks"][0]["reason"].as_str().unwrap();
        assert!(of_chunk.contains("; as requested") && !of_chunk.contains("calibrated"), "{of_chunk}");
    }
}

#[test]
fn wrong_numbers_name_what_a_flag_expects() {
    let place = Place::new();
    let matrix = "gen:stencil5,n=9";
    let k = "K is the number of columns of X, a whole number of at least 1";
    let threads = "the number of threads must be a whole number from 1 to 4096";
    let size = "the size must be above 0, in bytes or with a unit: KiB, MiB, GiB, TiB";
    for (flags, said) in [
        ("-k -3", k),
        ("-k=-3", k),
        ("-k 0", k),
        ("-k abc", k),
        ("-k 1.5", k),
        ("-k 1,8", "K is one number; `rowloom bench` and studies take several"),
        ("--threads -2", threads),
        ("--threads 0", threads),
        ("--seed -1", "the seed must be a whole number from 0 to"),
        ("--mem-limit -1", size),
        ("--mem-limit 8G", size),
        ("--chunk-bytes 0", size),
        ("--repeat -1", "-1 is not in 1"),
        ("--cpu-share -0.5", "the share must be a number from 0 to 1"),
    ] {
        for command in ["run", "plan"] {
            let outcome = place.run(&format!("{command} {matrix} {flags}"));
            assert_eq!(outcome.code, 2, "{command} {flags}");
            let stderr = flowing(&outcome.stderr);
            assert!(stderr.contains(said) && !stderr.contains("unexpected"), "{command} {flags}: {stderr}");
        }
    }
    for size in ["1KB", "1kb", "1kB", "1KiB", "8gib", "1.5MB"] {
        place.succeed(&format!("plan {matrix} --devices sim:h200 --chunk-bytes {size}"));
    }
}

#[test]
fn a_missing_matrix_is_a_file_or_a_generated_one() {
    let place = Place::new();
    for command in ["run", "plan", "inspect", "bench"] {
        place.fail(command, 2, "tip: a matrix is a file, or a generated one such as 'gen:stencil27,n=64'");
    }
}

#[test]
fn an_x_without_columns_is_named() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    let rows = place.json("inspect small.mtx --json")["matrix"]["cols"].as_u64().unwrap();
    place.write("x.mtx", format!("%%MatrixMarket matrix array real general\n{rows} 0\n"));
    place.write("blank.csv", "\n\n");
    for flags in ["", "-k 4"] {
        place.fail(
            &format!("run small.mtx --x x.mtx {flags}"),
            3,
            "x.mtx: X has no columns; a product needs",
        );
    }
    place.fail("run small.mtx --x blank.csv", 3, "blank.csv: the file has no numbers");
}

#[test]
fn a_table_whose_first_line_mixes_names_and_numbers_is_explained() {
    let place = Place::new();
    place.write("years.csv", "date,2020,2021\n1,2,3\n4,5,6\n");
    let said = "years.csv:1: this line has a name, 'date', and a number, '2020': put quotation marks around names that are numbers";
    place.fail("colmean years.csv", 3, said);
    place.write("years.csv", "date,\"2020\",\"2021\"\n1,2,3\n4,5,6\n");
    let shown = place.succeed("colmean years.csv").stdout;
    assert!(shown.contains("2 (2021): mean 4.5"), "{shown}");
    // Errors count columns as results do.
    place.write("gap.csv", "a,b\n1,2\n3,\n");
    let said = "gap.csv:3:3: a number is missing: no digit is before or after a comma; column 1 (b) needs a number in every row";
    place.fail("colmean gap.csv", 3, said);
    place.write("gap.csv", "a,b\n1,2\n3,nan\n");
    assert!(place.succeed("colmean gap.csv").stdout.contains("1 (b): mean NaN"));
    place.write("notes.csv", "hello world\n");
    place.fail("colmean notes.csv", 3, "notes.csv:1:1: value 'hello' is not a number");
}

#[test]
fn more_threads_than_processors_are_noted_once() {
    let place = Place::new();
    let surplus = 2 * std::thread::available_parallelism().unwrap().get() + 1;
    for command in ["run", "plan", "bench --kernels cpu_csr"] {
        let words = format!("{command} gen:stencil5,n=9 -k 1 --devices cpu --threads");
        let words =
            if command == "plan" { words } else { words.replace("--threads", "--repeat 3 --threads") };
        let stderr = flowing(&place.succeed(&format!("{words} {surplus}")).stderr);
        let note = format!("--threads {surplus}: this process may use ");
        assert_eq!(stderr.matches(&note).count(), 1, "{command}: {stderr}");
        assert!(!place.succeed(&format!("{words} 1")).stderr.contains("--threads"), "{command}");
    }
}

#[test]
fn manual_pages_keep_the_lines_of_examples_and_tables() {
    let place = Place::new();
    place.succeed("man pages");
    for (command, first) in
        [("study", "Keys of a study file"), ("gemm", "Kernels:"), ("bench", "transfers instead of")]
    {
        let page =
            place.read(&format!("pages/rowloom-{command}.1")).replace("\\-", "-").replace("\\*(Aq", "'");
        let notes = page.split_once(".SH NOTES\n.nf\n").unwrap().1;
        let notes: Vec<&str> =
            notes.split_once("\n.fi\n").map_or(notes, |(notes, _)| notes).lines().collect();
        let help = place.succeed(&format!("{command} --help")).stdout;
        let help = &help[help.find(&format!("\n{first}")).unwrap() + 1..];
        for line in help.lines().map(str::trim_end).filter(|line| !line.contains('\\')) {
            assert!(notes.contains(&line), "{command}: {line:?} is not a line of {notes:#?}");
        }
        assert!(!page.contains("EXTRA"), "{command}");
    }
}

#[test]
fn lines_break_between_words_on_a_narrow_terminal() {
    let place = Place::new();
    for words in ["inspect gen:stencil27,n=12", "study --list"] {
        let wide = place.succeed(words).stdout;
        let narrow = place.command(words).env("COLUMNS", "50").output().unwrap();
        let narrow = String::from_utf8(narrow.stdout).unwrap();
        let narrow_words: std::collections::HashSet<&str> = narrow.split_whitespace().collect();
        // Times and their units vary.
        let is_steady = |word: &&str| word.len() > 4 && !word.chars().any(|letter| letter.is_ascii_digit());
        for word in wide.split_whitespace().filter(is_steady) {
            assert!(narrow_words.contains(word), "{words}: {word} is split in\n{narrow}");
        }
    }
    let list = place.command("study --list").env("COLUMNS", "50").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.lines().all(|line| line.chars().count() <= 50), "{list}");
}
