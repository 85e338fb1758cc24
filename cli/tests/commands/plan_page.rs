//! The page of `rowloom plan`: its first sentence, its tables, and the number of devices to use.

use crate::plan::{EXAMPLE, devices};
use crate::support::Place;
use serde_json::Value;

/// The seconds of every time in a text, such as `1.50 ms`.
pub fn times(text: &str) -> Vec<f64> {
    let words: Vec<&str> = text.split([' ', ',', ';', ':', '(', ')']).collect();
    let pairs = words.windows(2).filter_map(|pair| {
        let scale = match pair[1] {
            "s" => 1.0,
            "ms" => 1e-3,
            "µs" => 1e-6,
            _ => return None,
        };
        pair[0].parse::<f64>().ok().map(|number| number * scale)
    });
    pairs.collect()
}

#[test]
fn a_cpu_beside_simulated_gpus_is_called_that_of_the_simulated_host() {
    let place = Place::new();
    let words = "of the simulated host, not of this machine";
    let page = |devices: &str| {
        place.succeed(&format!("plan gen:stencil27,n=30 -k 8 --devices {devices} --repeat 100")).stdout
    };
    let simulated = page("cpu,sim:h200");
    assert!(simulated.contains(&format!(" cpu           16 cores {words}")), "{simulated}");
    assert!(!page("cpu").contains(words) && !page("sim:h200").contains(words));
}

#[test]
fn predicted_times_and_their_reasons_add_up() {
    let place = Place::new();
    let close = |a: f64, b: f64| (a - b).abs() <= 0.01 * b.abs() + 1e-12;
    for flags in [
        EXAMPLE,
        "gen:stencil27,n=30 -k 8 --devices cpu",
        "gen:stencil27,n=30 -k 8 --devices cpu,sim:h200 --repeat 100",
        "gen:rmat,scale=14,degree=8 -k 8 --devices sim:h200x4 --mode resident",
        "gen:rmat,scale=14,degree=8 -k 8 --devices sim:node8 --mode oneshot --transfer staged",
        "gen:stencil5,n=50 -k 4 --devices emu:0",
    ] {
        let plan = place.json(&format!("plan {flags} --json"));
        let number = |value: &Value| value.as_f64().unwrap();
        let set_up = &plan["set_up"];
        let parts = ["open_s", "load_kernels_s", "register_s", "bring_a_s"].map(|key| number(&set_up[key]));
        assert!(close(parts.iter().sum(), number(&set_up["total_s"])), "{flags}: {set_up}");
        let said = times(set_up["reason"].as_str().unwrap());
        assert!(close(said.iter().sum(), number(&set_up["total_s"])), "{flags}: {set_up}");
        let total = number(&set_up["total_s"]) + number(&plan["repeat"]) * number(&plan["predicted_s"]);
        assert!(close(number(&plan["total_s"]), total), "{flags}");

        let reason = plan["predicted_reason"].as_str().unwrap();
        let finish = |device: &&Value| number(&device["predicted_s"]);
        let last = devices(&plan).iter().map(finish).fold(0.0, f64::max);
        if reason.contains("host's memory") {
            assert!(last < number(&plan["predicted_s"]), "{flags}: {reason}");
        } else {
            assert_eq!(last, number(&plan["predicted_s"]), "{flags}");
            let said: f64 = times(reason).iter().sum();
            assert!(said == 0.0 || close(said, last), "{flags}: {said} of {last}: {reason}");
        }
        // The reason of the transfer has the times of this plan, or those with X in one piece, which the reason of its blocks repeats.
        let reasons = || plan["reasons"].as_array().unwrap().iter().filter_map(Value::as_str);
        let blocks = reasons().find(|reason| reason.starts_with("X: in ") && reason.contains("instead of"));
        let one_piece_s =
            blocks.map_or(number(&plan["predicted_s"]), |blocks| *times(blocks).last().unwrap());
        for reason in reasons() {
            let Some(words) = reason.strip_prefix("transfer: ") else { continue };
            let at = if words.starts_with("registered") { 0 } else { 1 };
            assert!(close(times(words)[at], one_piece_s), "{flags}: {words}");
        }
    }
}

#[test]
fn balanced_devices_finish_together_or_the_reason_says_why_not() {
    let place = Place::new();
    for (matrix, list) in [
        ("gen:stencil27,n=48 -k 32", "sim:h200x2"),
        ("gen:stencil27,n=30 -k 8", "cpu,sim:h200 --mode oneshot"),
        ("gen:rmat,scale=13,degree=16 -k 32", "cpu,sim:h200x4"),
        ("gen:arrow,rows=5000 -k 4", "emu:0,emu:1"),
        ("gen:uniform,rows=30000,degree=9 -k 16", "cpu,sim:a100x2 --mode oneshot --repeat 1"),
    ] {
        let plan = place.json(&format!("plan {matrix} --devices {list} --json"));
        let reasons = plan["reasons"].to_string();
        let balanced = reasons.contains("balanced finish times") || reasons.contains("finish together");
        assert!(balanced, "{list}: {reasons}");
        let finish: Vec<f64> = devices(&plan)
            .iter()
            .filter(|device| device["chunks"].as_u64() > Some(0))
            .map(|device| device["predicted_s"].as_f64().unwrap())
            .collect();
        let (first, last) = (
            finish.iter().copied().fold(f64::INFINITY, f64::min),
            finish.iter().copied().fold(0.0, f64::max),
        );
        let differ = reasons.contains("finish times differ");
        assert_eq!(differ, first < 0.95 * last, "{list}: {finish:?} {reasons}");
    }
}

#[test]
fn a_plan_compares_device_counts_in_words_and_numbers() {
    let place = Place::new();
    let plan = place.json(&format!("plan {EXAMPLE} --json"));
    let counts = plan["device_counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|count| count["gpus"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(counts[0]["product_s"], plan["predicted_s"]);
    let said = plan["reasons"].as_array().unwrap().iter().filter_map(Value::as_str);
    let said: Vec<&str> = said.filter(|reason| reason.starts_with("device count: ")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(counts[1]["total_s"].as_f64() < counts[0]["total_s"].as_f64(), "{counts:?}");
    assert!(said[0].starts_with("device count: for 1 product 1 GPU of kind "), "{said:?}");
    assert!(
        said[0].contains("opening 1 more GPU takes ") && said[0].contains("each product alone "),
        "{said:?}"
    );
    let many = place.json(&format!("plan {EXAMPLE}0000 --json"))["reasons"].to_string();
    assert!(many.contains("faster than 1 (") && many.contains("in total for 10000 products"), "{many}");
    let small = place.json("plan gen:hub,rows=600,degree=3,hubs=2 -k 8 --devices sim:h200x2 --json");
    assert!(small["reasons"].to_string().contains("slower than 1 ("), "{}", small["reasons"]);
    let tight = "plan gen:stencil27,n=40 -k 32 --devices sim:h200x2 --mode stream --mem-limit 11MiB --json";
    assert!(place.json(tight)["reasons"].to_string().contains("the memory of 1 GPU"));
    assert_eq!(
        place.json("plan gen:diagonal,rows=9 --devices sim:h200 --json")["device_counts"],
        Value::Array(vec![])
    );
}

#[test]
fn tables_of_plan_and_run_fit_80_columns_and_hold_the_reasons_of_kernels() {
    let place = Place::new();
    for flags in [
        EXAMPLE,
        "gen:mixed,n=20 -k 32 --devices sim:h200x4 --mode resident",
        "gen:rmat,scale=13,degree=16 -k 32 --devices cpu,sim:node8",
        "gen:arrow,rows=5000 -k 4 --devices emu:0,emu:1 --chunks 200 --repeat 1",
        "gen:stencil5,n=30 -k 8",
    ] {
        for command in ["plan", "run"] {
            let table = place.succeed(&format!("{command} {flags}")).stdout;
            for line in table.lines() {
                assert!(
                    line.chars().count() <= 80,
                    "{command} {flags}: {} columns\n{line}",
                    line.chars().count()
                );
            }
            if command == "plan" {
                let kernel = place.json(&format!("plan {flags} --json"))["chunks"][0]["kernel"].clone();
                // Its reason is a fact with the kernel's name.
                assert!(table.contains(&format!("\n {}  ", kernel.as_str().unwrap())), "{table}");
            }
        }
        assert!(place.succeed(&format!("plan {flags} --wide")).stdout.lines().any(|line| line.len() > 100));
    }
}

#[test]
fn a_plan_begins_with_a_sentence_of_devices_time_limit_and_help() {
    let place = Place::new();
    for (flags, words) in [
        (
            "gen:stencil27,n=20 -k 8 --devices cpu",
            ["cpu computes 20 products in ", "limited by ", " would help."],
        ),
        (
            "gen:stencil27,n=20 -k 8 --devices sim:h200x4",
            ["4 devices (sim:h200x4/0 to sim:h200x4/3) compute 20", "opening devices", "1 GPU would take "],
        ),
        (
            "gen:stencil27,n=20 -k 8 --devices sim:h200",
            ["sim:h200/0 computes 20", "set-up", "after it a product takes"],
        ),
        (
            "gemm:rows=2000,depth=2000,columns=2000 --devices cpu",
            ["cpu computes 20", "limited by", "would help."],
        ),
        (
            "colmean:rows=99,columns=999 --devices cpu",
            ["cpu computes 20 runs in ", "limited by", "would help."],
        ),
        ("gen:empty,rows=0 --devices cpu", ["Nothing is to be computed", "no rows", "."]),
    ] {
        let page = place.succeed(&format!("plan {flags}")).stdout;
        let first = page.split("\n\n").next().unwrap();
        let first: Vec<&str> = first.split_whitespace().collect();
        let first = first.join(" ");
        for words in words {
            assert!(first.contains(words), "{flags}: {words}: {page}");
        }
        assert_eq!(place.json(&format!("plan {flags} --json"))["summary"], first, "{flags}");
    }
}

#[test]
fn a_machine_with_eight_gpus_has_one_screen_that_ends_with_the_number_to_use() {
    let place = Place::new();
    let words = "plan gen:stencil27,n=32 -k 32 --devices sim:node8";
    let page = |words: &str| {
        let output = place.command(words).env("COLUMNS", "80").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = page(words);
    assert!(text.lines().count() <= 54, "{} lines: {text}", text.lines().count());
    assert!(text.contains("\n sim:node8/0 to 1 "), "{text}");
    assert_eq!(text.matches("device count").count(), 1, "{text}");
    let last =
        text.trim_end().rsplit("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(last.starts_with("use 1 GPU, because 20 products take ") && last.ends_with(" on 8"), "{last}");
    assert!(text.contains(" GPUs  per product  20 products\n"), "{text}");
    let wide = page(&format!("{words} --wide"));
    assert!(wide.contains(" that may be used)"), "{wide}");
    let short = wide.split_whitespace().collect::<Vec<_>>().join(" ");
    for gpus in ["4 GPUs", "2 GPUs", "1 GPU"] {
        assert!(short.contains(&format!("for 20 products {gpus} of kind h100")), "{gpus}: {wide}");
    }
    let reasons = place.json(&format!("{words} --json"))["reasons"].clone();
    let counts = reasons
        .as_array()
        .unwrap()
        .iter()
        .filter(|reason| reason.as_str().unwrap().starts_with("device count"));
    assert_eq!(counts.count(), 3, "the object has all of them");
    assert!(!page("plan gen:stencil27,n=32 -k 32 --devices sim:h200").contains("use 1 GPU"));
}

#[test]
fn too_little_memory_for_a_part_of_the_product_compares_the_need_and_the_limit_of_one_device() {
    let place = Place::new();
    for (devices, first, parts) in [("sim:node8x2", "sim:node8x2/0.0", 16), ("sim:node8", "sim:node8/0", 8)] {
        let words = format!("plan gen:stencil27,n=48 -k 32 --devices {devices} --mem-limit 2MiB");
        let part = format!("error: {first}: X (27.0 MiB) and 1/{parts} of A and Y (");
        place.fail(&words, 3, &part);
        place.fail(&words, 3, " but the limit is 2.0 MiB; use ");
    }
}
