//! The numbers of GPUs of one machine that a plan is compared with, and which of the planner's comparisons a page shows.

use super::counts::{Count, Counts, Extent};
use rowloom::internal::plan::DeviceCount;

/// The times of `products` on all GPUs, a half and so on.
pub fn counted(counts: &[DeviceCount], products: u64) -> Counts {
    let count = |of: &DeviceCount| Count {
        extent: Extent::Gpus(of.gpus),
        product_s: of.product_s,
        total_s: of.total_s,
        longest: None,
    };
    Counts { products, counts: counts.iter().map(count).collect(), too_few: None }
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
    fn one_comparison_is_shown_that_with_the_fastest_number() {
        let words = ["4", "2", "1"].map(String::from);
        let of = |times: &[(u64, f64)]| shown(&counts(times), &words).cloned();
        assert_eq!(of(&[(8, 4.0), (4, 2.0), (2, 1.5), (1, 1.0)]).as_deref(), Some("1"));
        assert_eq!(of(&[(8, 4.0), (4, 2.0), (2, 1.0), (1, 1.5)]).as_deref(), Some("2"));
        assert_eq!(of(&[(8, 1.0), (4, 2.0), (2, 3.0), (1, 4.0)]).as_deref(), Some("4"));
        assert_eq!(of(&[]), None);
    }
}
