//! The kernels and peers of a case, from the fastest to the slowest.

use super::record::Record;
use crate::statistics::TimeRatio;

/// Where a kernel or a peer stands among all of its case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// 1 is the fastest.
    pub rank: usize,
    /// Its time over that of the fastest.
    pub against_fastest: Option<TimeRatio>,
}

/// The standing of each record of one case, in the order of `records`; none where it did not run, is wrong or was not verified.
pub fn standings(records: &[Record]) -> Vec<Option<Standing>> {
    let timed = |(index, record): (usize, &Record)| Some((index, record.verified_s()?));
    let mut order: Vec<(usize, f64)> = records.iter().enumerate().filter_map(timed).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let fastest = order.first().and_then(|&(index, _)| records.get(index));
    let mut standings = vec![None; records.len()];
    for (position, &(index, _)) in order.iter().enumerate() {
        let ratio =
            |fastest: &Record| TimeRatio::of(&records.get(index)?.times.samples, &fastest.times.samples);
        if let Some(standing) = standings.get_mut(index) {
            *standing = Some(Standing { rank: position + 1, against_fastest: fastest.and_then(ratio) });
        }
    }
    standings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Checked;
    use crate::statistics::Times;

    fn record(samples: &[f64], passed: bool) -> Record {
        let checked = Some(Checked::weighed(usize::from(!passed)));
        Record { times: Times::new(samples), checked, ..Record::default() }
    }

    #[test]
    fn the_fastest_verified_result_is_first_and_all_others_are_compared_with_it() {
        let records = [
            record(&[3.0, 3.0, 3.0], true),
            record(&[1.0, 1.0, 1.0], false),
            record(&[], true),
            record(&[2.0, 2.0, 2.0], true),
            Record { checked: None, ..record(&[0.5, 0.5, 0.5], true) },
        ];
        let standings = standings(&records);
        let ranks: Vec<Option<usize>> = standings.iter().map(|standing| standing.map(|s| s.rank)).collect();
        assert_eq!(
            ranks,
            [Some(2), None, None, Some(1), None],
            "neither wrong nor unverified results have a rank"
        );
        let ratio = |index: usize| standings[index].unwrap().against_fastest.unwrap().ratio;
        assert_eq!((ratio(0), ratio(3)), (1.5, 1.0));
    }

    #[test]
    fn nothing_measured_gives_no_standing() {
        assert_eq!(standings(&[]), []);
        assert_eq!(standings(&[record(&[], true)]), [None]);
    }
}
