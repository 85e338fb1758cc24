//! The sentences that compare a plan with others have the numbers of these plans.

use super::tests::{matrix, request};
use super::*;
use crate::cost::preset;
use crate::work::Work;

#[test]
fn the_speed_up_over_fewer_gpus_is_the_ratio_of_the_predicted_times() {
    let matrix = matrix("uniform,rows=200000,degree=16");
    let work = Work::spmm(&matrix.view(), 32).unwrap();
    let machine = preset("h200x4").unwrap();
    let of =
        |repeat| PlanRequest { repeat, host: machine.host.clone(), ..request(work.clone(), &["h200x4"]) };
    let many = of(100_000);
    let plan = make(&many).unwrap();
    let (counts, words) = compare_device_counts(&many, &plan).unwrap();
    assert_eq!(counts.iter().map(|count| count.gpus).collect::<Vec<_>>(), [4, 2, 1]);
    assert_eq!(words.len(), 2);
    for (count, sentence) in counts[1..].iter().zip(&words) {
        let speed_up = count.product_s / counts[0].product_s;
        assert!(speed_up > 1.05, "{sentence}");
        let expected = format!("are {speed_up:.2}× faster than {} (", count.gpus);
        assert!(sentence.contains(&expected) && sentence.contains("speed-up is nearly linear"), "{sentence}");
    }
    // Opening more GPUs takes longer than one product.
    let once = of(1);
    let (_, words) = compare_device_counts(&once, &make(&once).unwrap()).unwrap();
    assert!(words.iter().all(|sentence| sentence.contains("for 1 product ")), "{words:?}");
    assert!(words[1].contains("1 GPU of kind") && words[1].contains("is faster"), "{words:?}");
    assert!(words[1].contains("opening 3 more GPUs takes"), "{words:?}");
}

#[test]
fn what_sharing_is_worth_is_said_where_both_kinds_of_processors_are_named() {
    let mut found = [0, 0, 0];
    for (spec, repeat) in [("stencil27,n=40", 1), ("stencil27,n=40", 1000), ("diagonal,rows=50", 1)] {
        let matrix = matrix(spec);
        for words in [&["cpu"][..], &["h200"], &["cpu", "h200"], &["cpu", "emu"]] {
            let request = PlanRequest { repeat, ..request(Work::spmm(&matrix.view(), 16).unwrap(), words) };
            let plan = make(&request).unwrap();
            let uses = |gpu: bool| {
                plan.devices.iter().any(|device| device.chunks > 0 && device.profile.link.is_some() == gpu)
            };
            let said = plan.reasons.iter().find(|reason| reason.starts_with("sharing:"));
            let said = said.map_or("", String::as_str);
            match (words.len(), uses(false) && uses(true)) {
                (1, _) => assert_eq!(said, ""),
                (_, true) => assert!(said.starts_with("sharing: predicted"), "{said}"),
                (_, false) => assert!(said.starts_with("sharing: none"), "{said}"),
            }
            let kind = if words.len() == 1 { 0 } else { 1 + usize::from(uses(false) && uses(true)) };
            found[kind] += 1;
        }
    }
    assert!(found.iter().all(|&count| count > 0), "{found:?}");
}

#[test]
fn a_requested_share_of_the_cpu_leaves_equal_parts_for_equal_gpus() {
    let matrix = matrix("uniform,rows=60000,degree=16");
    let work = Work::spmm(&matrix.view(), 8).unwrap();
    let request = PlanRequest { cpu_share: Some(0.3), ..request(work, &["cpu", "emu", "emu"]) };
    let plan = make(&request).unwrap();
    let share = |device: &DevicePlan| device.size.entries as f64 / plan.matrix.entries as f64;
    let shares: Vec<f64> = plan.devices.iter().map(share).collect();
    for (got, wanted) in shares.iter().zip([0.3, 0.35, 0.35]) {
        assert!((got - wanted).abs() < 0.03, "{shares:?}");
    }
}
