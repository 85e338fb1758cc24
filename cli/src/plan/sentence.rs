//! The sentence that a plan begins with: which devices, how long for all products, what limits them, what would help.

use super::counts::Counts;
use super::table::kind;
use crate::console::device_names::named;
use crate::request::cluster::{parts_of_time, size};
use crate::run::workload::with_own_names;
use rowloom::internal::error::{Counted, Seconds};
use rowloom::internal::plan::{DeviceCount, Plan};
use rowloom::internal::runtime::TimeParts;

/// Fewer devices are mentioned where they take at most this share of the total.
const CLEARLY_FASTER: f64 = 0.98;

/// The slowest device takes more than this multiple of the time of the others, which wait for it.
const WAITING: f64 = 2.0;
/// A set-up above this share of the total is called nearly all of it.
const NEARLY_ALL: f64 = 0.99;

/// The sentence of a plan, with the times on fewer GPUs.
pub fn of_plan(plan: &Plan, counts: &[DeviceCount]) -> String {
    let busy: Vec<&str> =
        plan.devices.iter().filter(|device| device.chunks > 0).map(|device| device.name.as_str()).collect();
    let Some(limit) = plan.limit().filter(|_| !busy.is_empty()) else {
        return "Nothing is to be computed: there are no rows.".into();
    };
    let verb = if busy.len() == 1 { "computes" } else { "compute" };
    let mut words = vec![with_total(plan, &format!("{} {verb}", named(&busy)))];
    let set_up = is_mostly_set_up(plan);
    if !set_up {
        words.push(format!("a product is limited by {}", limit.what));
    }
    let mut finish: Vec<f64> =
        plan.devices.iter().filter(|device| device.chunks > 0).map(|device| device.predicted_s).collect();
    finish.sort_by(f64::total_cmp);
    let slowest_s = finish.last().copied().unwrap_or(0.0);
    let others_s = finish.iter().rev().nth(1).copied().unwrap_or(slowest_s);
    let fewer = counts.iter().min_by(|a, b| a.total_s.total_cmp(&b.total_s));
    match fewer.filter(|count| count.total_s < CLEARLY_FASTER * plan.total_s()) {
        Some(fewer) => {
            let gpus = Counted(fewer.gpus, "GPU");
            let has_cpu =
                plan.devices.iter().any(|device| device.chunks > 0 && device.profile.link.is_none());
            let cpu = if has_cpu { "the CPU and " } else { "" };
            words.push(format!("{cpu}{gpus} would take {} in total", Seconds(fewer.total_s)));
        }
        None if set_up => words.push(further(plan)),
        None if slowest_s > WAITING * others_s => {
            words.push(format!("the other devices finish after {}", Seconds(others_s)));
        }
        None => words.push(format!("{} would help", limit.help)),
    }
    with_own_names(kind(plan), &format!("{}.", words.join("; ")))
}

/// The sentence of a plan for a cluster, whose product has these parts, with the times on fewer nodes.
pub fn of_cluster(plan: &Plan, parts: &TimeParts, nodes: &Counts) -> String {
    let Some(cluster) = &plan.cluster else { return of_plan(plan, &[]) };
    let times = parts_of_time(cluster, parts);
    let Some((longest, longest_s)) = times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return "Nothing is to be computed: there are no rows.".into();
    };
    let verb = if cluster.nodes == 1 { "computes" } else { "compute" };
    let mut words = vec![with_total(plan, &format!("{} {verb}", size(cluster)))];
    words.push(format!(
        "the longest part of a product is {longest} ({} of {})",
        Seconds(longest_s),
        Seconds(parts.product_s)
    ));
    match nodes.advised() {
        Some((advised, _)) if nodes.counts.first() != Some(advised) => {
            words.push(format!("{} would take {} in total", advised.extent, Seconds(advised.total_s)));
        }
        _ if is_mostly_set_up(plan) => words.push(further(plan)),
        _ => {}
    }
    format!("{}.", words.join("; "))
}

/// Whether more than half of the total is set-up.
fn is_mostly_set_up(plan: &Plan) -> bool {
    plan.set_up.total_s() > plan.total_s() / 2.0
}

/// The devices and the time of all products, with the set-up where that takes most of it.
fn with_total(plan: &Plan, subject: &str) -> String {
    let products = Counted(plan.repeat, "product");
    let total = format!("{subject} {products} in {}", Seconds(plan.total_s()));
    if is_mostly_set_up(plan) {
        let set_up = &plan.set_up;
        let parts = [
            (set_up.open_s, "opening devices"),
            (set_up.load_kernels_s, "loading kernels"),
            (set_up.register_s, "registering memory"),
            (set_up.bring_a_s, "copying A to the devices"),
        ];
        let longest = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or("", |(_, what)| what);
        let share = match set_up.total_s() > NEARLY_ALL * plan.total_s() {
            true => "nearly all".into(),
            false => Seconds(set_up.total_s()).to_string(),
        };
        return format!("{total}, {share} of it set-up (mostly {longest})");
    }
    match plan.repeat {
        1 => total,
        _ => format!("{total}, {} each", Seconds(plan.predicted_s)),
    }
}

/// What products cost after the set-up.
fn further(plan: &Plan) -> String {
    format!("after it a product takes {}", Seconds(plan.predicted_s))
}
