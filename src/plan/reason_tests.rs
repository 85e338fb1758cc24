//! Prints every reason that a plan can give, with numbers and names replaced, for a person to read:
//! `cargo test --lib plan::reason_tests -- --nocapture`.

use std::collections::BTreeSet;

use super::*;
use crate::cost::{cpu_profile, emulated_profile, host_rates, preset};
use crate::matrix::generate;
use crate::work::Work;

/// Expressions of an earlier register, which point or compare without naming.
const BANNED: [&str; 12] = [
    "lies",
    "floats",
    "beside",
    "alike",
    "hoped",
    "inf×",
    "asked for",
    "a product ",
    "done together",
    "pinned",
    "one that",
    "nobody",
];

fn specs(words: &[&str], required: bool) -> Vec<DeviceSpec> {
    let mut specs = Vec::new();
    for word in words {
        let profiles = match *word {
            "cpu" => vec![cpu_profile(2, 1 << 34).unwrap()],
            "emu" => vec![emulated_profile().unwrap()],
            name => preset(name).unwrap().gpus,
        };
        for profile in profiles {
            let name = if *word == "cpu" { "cpu".into() } else { format!("sim:{}", specs.len()) };
            specs.push(DeviceSpec { required, ..DeviceSpec::new(name, profile) });
        }
    }
    specs
}

/// The text with every number replaced by `N`.
fn template(text: &str) -> String {
    let mut words = String::new();
    let mut in_number = false;
    for character in text.chars() {
        let is_digit = character.is_ascii_digit() || (in_number && matches!(character, '.' | ','));
        if is_digit && !in_number {
            words.push('N');
        } else if !is_digit {
            words.push(character);
        }
        in_number = is_digit;
    }
    words
}

#[test]
fn every_reason_is_printed_and_free_of_banned_expressions() {
    let mut found: BTreeSet<String> = BTreeSet::new();
    let matrices = [
        "stencil27,n=20",
        "mixed,n=16",
        "arrow,rows=6000",
        "diagonal,rows=3",
        "uniform,rows=9000,degree=3",
        "empty,rows=0",
    ];
    for spec in matrices {
        let matrix = generate::<f64>(spec, 1, 1 << 32).unwrap().matrix;
        for words in [
            &["cpu"][..],
            &["h200"],
            &["h200x2"],
            &["cpu", "h200"],
            &["cpu", "h200x4"],
            &["cpu", "emu", "emu"],
        ] {
            for (mode, repeat, k, limit, required, cpu_share, chunks) in [
                (None, 1, 8, None, true, None, None),
                (None, 20, 33, None, true, None, None),
                (None, 1000, 8, None, false, None, Some(2)),
                (Some(Mode::Oneshot), 5, 16, None, true, Some(0.5), None),
                (Some(Mode::Resident), 5, 8, None, false, None, Some(40)),
                (None, 3, 8, Some(400_000), true, None, None),
            ] {
                let work = Work::spmm(&matrix.view(), k).unwrap();
                let mut request = PlanRequest::new(work, specs(words, required), host_rates(2).unwrap());
                (request.mode, request.repeat, request.chunks) = (mode, repeat, chunks);
                request.cpu_share = cpu_share.filter(|_| words.contains(&"cpu"));
                request.devices.iter_mut().for_each(|device| device.memory_limit_bytes = limit);
                let plan = match make(&request) {
                    Ok(plan) => plan,
                    Err(error) => {
                        found.insert(template(&format!("error: {error}")));
                        continue;
                    }
                };
                let (_, counts) = compare_device_counts(&request, &plan).unwrap_or_default();
                let of_devices = plan.devices.iter().flat_map(|device| {
                    [format!("device: {}", device.reason), format!("X: {}", device.x_reason)]
                });
                let of_chunks = plan.chunks.iter().map(|chunk| format!("chunk: {}", chunk.full_reason()));
                let times = [
                    format!("set-up: {}", plan.set_up_reason()),
                    format!("product: {}", plan.product_reason()),
                ];
                let reasons = plan.reasons.iter().cloned().chain(counts).chain(of_devices).chain(of_chunks);
                for reason in reasons.chain(times) {
                    let plural =
                        reason.split_once(" 1 ").is_some_and(|(_, rest)| rest.starts_with("products"));
                    assert!(!plural, "{reason}");
                    found.insert(template(&reason));
                }
            }
        }
    }
    found.iter().for_each(|reason| println!("{reason}"));
    assert!(found.len() > 60, "{}", found.len());
    for reason in &found {
        let banned = BANNED.iter().find(|banned| reason.contains(*banned));
        assert_eq!(banned, None, "{reason}");
    }
}
