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
