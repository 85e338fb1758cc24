//! The number of GPUs of one machine to use, and which of the planner's comparisons a page shows.

use rowloom::internal::error::{Counted, Seconds};
use rowloom::internal::plan::DeviceCount;

/// Fewer GPUs are advised where all products take at most this multiple of the shortest time.
const FAST_ENOUGH: f64 = 1.1;

/// The number of GPUs to use for `products`, and why; none without a smaller number to compare with.
pub fn advice(counts: &[DeviceCount], products: u64) -> Option<String> {
    let fastest = counts.iter().min_by(|a, b| a.total_s.total_cmp(&b.total_s))?;
    let fast = |count: &&DeviceCount| count.total_s <= FAST_ENOUGH * fastest.total_s;
    let advised = counts.iter().rev().find(fast)?;
    let most = counts.first().filter(|most| most.gpus > advised.gpus);
    let other = most.or_else(|| counts.iter().find(|count| count.gpus < advised.gpus))?;
    let (gpus, products) = (Counted(advised.gpus, "GPU"), Counted(products, "product"));
    let verb = if products.0 == 1 { "takes" } else { "take" };
    let (there, others) = (Seconds(advised.total_s), Seconds(other.total_s));
    let among = match fastest.gpus > advised.gpus {
        true => format!("at best {} on more ({})", Seconds(fastest.total_s), fastest.gpus),
        false => format!("{others} on {}", other.gpus),
    };
    Some(format!("use {gpus}, because {products} {verb} {there} there with the set-up, and {among}"))
}

/// The comparison with the number of GPUs on which all products are fastest, or with the next smaller number; `words` has a sentence for each
/// half, quarter and so on.
pub fn shown<'a>(counts: &[DeviceCount], words: &'a [String]) -> Option<&'a String> {
    let all = counts.first()?;
    let fastest = counts.iter().min_by(|a, b| a.total_s.total_cmp(&b.total_s))?;
    let halvings = (all.gpus / fastest.gpus.max(1)).max(2).ilog2() as usize;
    words.get(halvings - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(times: &[(u64, f64)]) -> Vec<DeviceCount> {
        let of = |&(gpus, total_s): &(u64, f64)| DeviceCount { gpus, product_s: 0.1, set_up_s: 0.1, total_s };
        times.iter().map(of).collect()
    }

    #[test]
    fn the_fewest_gpus_that_are_nearly_as_fast_as_the_best_are_advised() {
        for (times, advice_of_it) in [
            (
                &[(8, 4.0), (4, 2.0), (2, 1.5), (1, 1.0)][..],
                "use 1 GPU, because 20 products take 1.00 s there with the set-up, and 4.00 s on 8",
            ),
            (
                &[(4, 1.0), (2, 1.05), (1, 2.0)],
                "use 2 GPUs, because 20 products take 1.05 s there with the set-up, and at best 1.00 s on more (4)",
            ),
            (
                &[(2, 1.0), (1, 2.0)],
                "use 2 GPUs, because 20 products take 1.00 s there with the set-up, and 2.00 s on 1",
            ),
        ] {
            assert_eq!(advice(&counts(times), 20).as_deref(), Some(advice_of_it));
        }
        assert_eq!(advice(&[], 20), None);
        assert_eq!(advice(&counts(&[(2, 1.0)]), 20), None, "the memory of one is too small");
    }

    #[test]
    fn one_comparison_is_shown_that_with_the_fastest_number() {
        let words = ["4", "2", "1"].map(String::from);
        let of = |times: &[(u64, f64)]| shown(&counts(times), &words).cloned();
        assert_eq!(of(&[(8, 4.0), (4, 2.0), (2, 1.5), (1, 1.0)]).as_deref(), Some("1"));
        assert_eq!(of(&[(8, 4.0), (4, 2.0), (2, 1.0), (1, 1.5)]).as_deref(), Some("2"));
        assert_eq!(of(&[(8, 1.0), (4, 2.0), (2, 3.0), (1, 4.0)]).as_deref(), Some("4"));
        assert_eq!(of(&[]), None);
    }
}
