//! The same product on fewer of the machine's identical GPUs: whether all of them pay, and why not.

use std::collections::HashSet;

use serde::Serialize;

use super::data::Plan;
use super::make::make;
use super::request::{DeviceSpec, PlanRequest};
use crate::error::{Counted, Error, Result, Seconds};

/// Predicted times closer than this share are called equally fast.
const EQUAL_WITHIN: f64 = 0.02;
/// A speed-up within this factor of the ratio of the counts is called linear.
const LINEAR_WITHIN: f64 = 1.05;

/// The prediction for a number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DeviceCount {
    /// Number of GPUs.
    pub gpus: u64,
    /// Predicted seconds of a product.
    pub product_s: f64,
    /// Predicted seconds of the set-up.
    pub set_up_s: f64,
    /// Predicted seconds of the set-up and all products.
    pub total_s: f64,
}

impl DeviceCount {
    fn of(gpus: usize, plan: &Plan) -> Self {
        let (product_s, set_up_s) = (plan.predicted_s, plan.set_up.total_s());
        Self { gpus: gpus as u64, product_s, set_up_s, total_s: plan.total_s() }
    }
}

/// Predictions for all GPUs of `plan`, a half, a quarter and so on down to one, and a sentence about each smaller number. Empty where
/// the request has fewer than two GPUs or GPUs of several kinds, for a product without rows, and for a cluster, whose exchange a plan
/// does not predict.
pub fn compare_device_counts(
    request: &PlanRequest<'_>,
    plan: &Plan,
) -> Result<(Vec<DeviceCount>, Vec<String>)> {
    let is_gpu = |device: &&DeviceSpec| device.profile.link.is_some();
    let gpus: Vec<&DeviceSpec> = request.devices.iter().filter(is_gpu).collect();
    let [first, .., last] = &gpus[..] else { return Ok(Default::default()) };
    let is_mixed = gpus.iter().any(|gpu| gpu.profile.name != last.profile.name);
    if is_mixed || plan.predicted_s <= 0.0 || request.cluster.is_some() {
        return Ok(Default::default());
    }
    let all = DeviceCount::of(gpus.len(), plan);
    let (mut counts, mut words) = (vec![all], Vec::new());
    let mut fewer = gpus.len() / 2;
    while fewer > 0 {
        let mut smaller = request.clone();
        let mut kept = 0;
        smaller.devices.retain(|device| {
            kept += usize::from(is_gpu(&device));
            !is_gpu(&device) || kept <= fewer
        });
        let kind = &first.profile.name;
        match make(&smaller) {
            Ok(other) => {
                let count = DeviceCount::of(fewer, &other);
                words.push(sentence(kind, (&all, plan), (&count, &other)));
                counts.push(count);
            }
            Err(Error::DoesNotFit { .. }) => words.push(format!(
                "device count: the memory of {} of kind {kind} is too small for this product",
                Counted(fewer as u64, "GPU")
            )),
            Err(error) => return Err(error),
        }
        fewer /= 2;
    }
    Ok((counts, words))
}

/// How all GPUs compare with fewer, and why.
fn sentence(kind: &str, (all, plan): (&DeviceCount, &Plan), (few, other): (&DeviceCount, &Plan)) -> String {
    let ratio = all.product_s / few.product_s.max(1e-12);
    let speed_up = 1.0 / ratio.max(1e-12);
    let is_faster = ratio < 1.0 - EQUAL_WITHIN;
    let products = Counted(plan.repeat, "product");
    if ratio <= 1.0 + EQUAL_WITHIN && few.total_s < (1.0 - EQUAL_WITHIN) * all.total_s {
        let alone = if is_faster { format!("is {speed_up:.2}× faster") } else { "takes as long".into() };
        return format!(
            "device count: for {products} {} of kind {kind} {} faster: {} in total against {} (opening {} takes {}); each \
             product alone {alone} on {}",
            Counted(few.gpus, "GPU"),
            if few.gpus == 1 { "is" } else { "are" },
            Seconds(few.total_s),
            Seconds(all.total_s),
            Counted(all.gpus - few.gpus, "more GPU"),
            Seconds(plan.set_up.open_s - other.set_up.open_s),
            Counted(all.gpus, "GPU"),
        );
    }
    let verdict = match ratio {
        _ if ratio > 1.0 + EQUAL_WITHIN => format!("{ratio:.2}× slower than"),
        _ if is_faster => format!("{speed_up:.2}× faster than"),
        _ => "as fast as".into(),
    };
    let times = all.gpus / few.gpus.max(1);
    let cause = match because(plan, other) {
        None if speed_up > LINEAR_WITHIN * times as f64 => more_than_linear(plan, other, few.gpus),
        None => "; the speed-up is nearly linear".into(),
        Some(cause) if is_faster => format!(" and not {times}×, because {cause}"),
        Some(cause) => format!(", because {cause}"),
    };
    format!(
        "device count: {} of kind {kind} are {verdict} {} ({} against {} per product){cause}; in total for {products}: {} against {}",
        Counted(all.gpus, "GPU"),
        few.gpus,
        Seconds(all.product_s),
        Seconds(few.product_s),
        Seconds(all.total_s),
        Seconds(few.total_s)
    )
}

/// The clause of a speed-up above the ratio of the counts, with the decision that differs.
fn more_than_linear(plan: &Plan, fewer: &Plan, gpus: u64) -> String {
    let registers = |plan: &Plan| plan.set_up.register_s > 0.0;
    let kernels = |plan: &Plan| -> HashSet<_> { plan.chunks.iter().map(|chunk| chunk.gpu_kernel).collect() };
    let gpus = Counted(gpus, "GPU");
    let cause = if plan.mode != fewer.mode {
        format!(", because {gpus} would use mode {}", fewer.mode.name())
    } else if registers(plan) && !registers(fewer) {
        format!(", because the plan for {gpus} does not register memory")
    } else if kernels(plan) != kernels(fewer) {
        format!(", because the plan for {gpus} uses other kernels")
    } else {
        String::new()
    };
    format!("; the speed-up is more than linear{cause}")
}

/// The part of a product that is furthest from shrinking with the number of GPUs; `None` where the speed-up is nearly linear.
fn because(plan: &Plan, fewer: &Plan) -> Option<String> {
    let used = |plan: &Plan| {
        let gpus = plan.devices.iter().filter(|device| device.profile.link.is_some() && device.chunks > 0);
        gpus.count().max(1) as f64
    };
    let ideal_s = fewer.predicted_s * used(fewer) / used(plan);
    if plan.predicted_s < LINEAR_WITHIN * ideal_s {
        return None;
    }
    let (last, other) = (plan.last_to_finish()?, fewer.last_to_finish()?);
    if plan.predicted_s > plan.devices[last].predicted_s * (1.0 + 1e-9) {
        return Some(format!("the host's memory is the limit ({:.0} GB/s)", plan.host.memory_gb_per_s));
    }
    if plan.devices[last].profile.link.is_none() {
        return Some("the CPU finishes last".into());
    }
    let (now, before) = (plan.finish(last), fewer.finish(other));
    let excess = |now_s: f64, before_s: f64| now_s - before_s * used(fewer) / used(plan);
    let step = now.longest;
    let parts = [
        (excess(now.x_s, before.x_s), format!("X still takes {} to reach each of them", Seconds(now.x_s))),
        (
            excess(now.chunks_s, before.chunks_s),
            format!("the longest step, {step}, still takes {} on each of them", Seconds(now.chunks_s)),
        ),
        (
            excess(now.ends_s, before.ends_s),
            format!("filling and draining the pipeline still takes {}", Seconds(now.ends_s)),
        ),
    ];
    parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, cause)| cause)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{matrix, request};
    use super::*;
    use crate::work::Work;

    /// Plans of the same product for 2 GPUs and 1 GPU, with these predicted seconds of a product.
    fn plans(two_s: f64, one_s: f64) -> (Plan, Plan) {
        let matrix = matrix("uniform,rows=2000,degree=8");
        let request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["h200x2"]);
        let devices = request.devices[..1].to_vec();
        let smaller = PlanRequest { devices, ..request.clone() };
        let (two, one) = (make(&request).unwrap(), make(&smaller).unwrap());
        let of = |plan: Plan, predicted_s| Plan { predicted_s, ..plan };
        (of(two, two_s), of(one, one_s))
    }

    /// The sentence for these plans, whose set-up takes so many seconds.
    fn said((two, one): &(Plan, Plan), two_set_up_s: f64, one_set_up_s: f64) -> String {
        let count = |gpus, plan: &Plan, set_up_s: f64| {
            let product_s = plan.predicted_s;
            DeviceCount { gpus, product_s, set_up_s, total_s: set_up_s + product_s }
        };
        sentence("h200", (&count(2, two, two_set_up_s), two), (&count(1, one, one_set_up_s), one))
    }

    #[test]
    fn twice_the_speed_of_half_the_gpus_is_linear() {
        assert_eq!(
            said(&plans(0.001, 0.002), 0.1, 0.1),
            "device count: 2 GPUs of kind h200 are 2.00× faster than 1 (1.00 ms against 2.00 ms per product); the speed-up is nearly \
             linear; in total for 1 product: 101 ms against 102 ms"
        );
    }

    #[test]
    fn more_than_twice_the_speed_of_half_the_gpus_is_more_than_linear() {
        let (two, mut one) = plans(0.001, 0.003);
        one.mode = crate::plan::Mode::Stream;
        assert_eq!(
            said(&(two, one), 0.1, 0.1),
            "device count: 2 GPUs of kind h200 are 3.00× faster than 1 (1.00 ms against 3.00 ms per product); the speed-up is more than \
             linear, because 1 GPU would use mode stream; in total for 1 product: 101 ms against 103 ms"
        );
    }

    #[test]
    fn fewer_gpus_that_open_sooner_are_faster_in_total() {
        let (mut two, mut one) = plans(0.001, 0.002);
        (two.set_up.open_s, one.set_up.open_s) = (0.3, 0.1);
        assert_eq!(
            said(&(two, one), 0.3, 0.1),
            "device count: for 1 product 1 GPU of kind h200 is faster: 102 ms in total against 301 ms (opening 1 more GPU takes 200 ms); \
             each product alone is 2.00× faster on 2 GPUs"
        );
    }

    #[test]
    fn a_product_that_takes_a_twentieth_longer_than_its_share_has_a_cause() {
        let cause = |two_s: f64| {
            let (mut two, one) = plans(two_s, 2.0);
            two.devices.iter_mut().for_each(|device| device.predicted_s = 0.5);
            two.host.memory_gb_per_s = 7.0;
            because(&two, &one)
        };
        assert_eq!(cause(1.05), Some("the host's memory is the limit (7 GB/s)".into()));
        assert_eq!(cause(1.0499), None);
    }
}
