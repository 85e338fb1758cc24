//! The share of the work of each device of a candidate, and its reason in words.

use super::balance::{Line, balance};
use super::draft::Draft;
use super::explain::list;
use super::memory::budget;
use super::request::DeviceSpec;
use crate::error::{Advice, Bytes, Error, Result};

/// The reason of the shares in words.
pub(super) struct Balance {
    pub words: String,
    /// Why finish times may differ all the same.
    pub cause: &'static str,
}

/// The names of named devices that would hardly make the job faster.
#[derive(Default)]
struct Low<'a> {
    /// Those that get the minimum share.
    raised: Vec<&'a str>,
    /// Those that get nothing.
    left_out: Vec<&'a str>,
}

impl Draft<'_> {
    /// The memory of the smallest device, and what an equal part of the product needs there.
    fn part_does_not_fit(&self, devices: &[Option<DeviceSpec>], lines: &[Line]) -> Error {
        let work = &self.request.work;
        let count = lines.len().max(1) as u64;
        let smallest = devices.iter().flatten().zip(lines).min_by_key(|(device, _)| budget(device));
        let part_bytes = match smallest {
            // In the layout of the kernels: its memory for A and Y is enough for a share of `most`.
            Some((device, line)) if line.most > 0.0 => {
                let free = budget(device).saturating_sub(work.x_bytes());
                (free as f64 / line.most / count as f64).ceil() as u64
            }
            _ => work.a_bytes().saturating_add(work.y_bytes()).div_ceil(count),
        };
        let smallest = smallest.map(|(device, _)| device);
        Error::DoesNotFit {
            what: format!(
                "{}: X ({}) and 1/{count} of A and Y ({})",
                smallest.map_or("each device", |device| &device.name),
                Bytes(work.x_bytes()),
                Bytes(part_bytes)
            ),
            needed_bytes: work.x_bytes().saturating_add(part_bytes),
            limit_bytes: smallest.map_or(0, budget),
            advice: self.resident_advice(),
        }
    }

    /// The share of the work of each device, and the reason where there are several. The time of a device is taken as `slower` times what
    /// samples of all rows tell.
    pub(super) fn shares(
        &self,
        devices: &[Option<DeviceSpec>],
        slower: &[f64],
    ) -> Result<(Vec<f64>, Option<Balance>)> {
        let work = &self.request.work;
        let computing: Vec<usize> = (0..devices.len()).filter(|&index| devices[index].is_some()).collect();
        let mut shares = vec![0.0; devices.len()];
        if let [only] = computing[..] {
            shares[only] = 1.0;
            return Ok((shares, None));
        }
        let mut lines = self.lines(devices)?;
        for (line, &index) in lines.iter_mut().zip(&computing) {
            line.whole_s *= slower.get(index).copied().unwrap_or(1.0);
        }
        let Some((balanced, _)) = balance(&lines) else {
            return Err(self.part_does_not_fit(devices, &lines));
        };
        let (balanced, Low { raised, left_out }) = match self.request.cpu_share {
            Some(share) => (self.with_cpu_share(balanced, share)?, Low::default()),
            None => self.raised(balanced, &lines),
        };
        let is_limited = |(line, share): (&Line, &f64)| line.most < 1.0 && *share >= 0.999 * line.most;
        let memory_limited = lines.iter().zip(&balanced).any(is_limited);
        for (&index, share) in computing.iter().zip(balanced) {
            shares[index] = share;
        }
        if let Some(limit) = self.request.chunks {
            keep_largest(&mut shares, limit);
        }
        let mut words: Vec<(String, Vec<&str>)> = Vec::new();
        for &index in &computing {
            let Some(device) = devices[index].as_ref().filter(|device| !left_out.contains(&&*device.name))
            else {
                continue;
            };
            let share = format!("{:.1} %", shares[index] * 100.0);
            match words.last_mut().filter(|(known, _)| *known == share) {
                Some((_, names)) => names.push(&device.name),
                None => words.push((share, vec![&device.name])),
            }
        }
        let words: Vec<String> = words
            .iter()
            .map(|(share, names)| match names.len() {
                1 => format!("{} gets {share} of the work", names[0]),
                _ => format!("{} get {share} each", list(names)),
            })
            .collect();
        let is_even = words.len() == 1;
        let words = words.join(", ");
        let (words, cause) = match self.request.cpu_share {
            Some(_) => (format!("shares: the CPU's as requested: {words}"), "as requested"),
            None if !left_out.is_empty() => (
                format!(
                    "shares: {words}; nothing for {}: a share below {:.1} % costs more time than it saves",
                    list(&left_out),
                    100.0 * work.helpful_share()
                ),
                "a device at its minimum share does not finish with the others",
            ),
            None if !raised.is_empty() => {
                let verbs = if raised.len() == 1 {
                    "is too slow to help and gets"
                } else {
                    "are too slow to help and get"
                };
                (
                    format!(
                        "shares: {} {verbs} the minimum share of a named device; otherwise balanced finish times: {words}",
                        list(&raised)
                    ),
                    "a device at its minimum share does not finish with the others",
                )
            }
            None if memory_limited => (
                format!("shares: balanced finish times within the memory limits: {words}"),
                "memory limits a share",
            ),
            None if is_even => (
                format!(
                    "shares: {:.1} % of the work each, so that {} finish together",
                    100.0 / computing.len() as f64,
                    if computing.len() == 2 { "both".into() } else { format!("all {}", computing.len()) }
                ),
                "the balance leaves out pipeline fill and drain, and chunks are whole rows",
            ),
            None => (
                format!("shares: balanced finish times: {words}"),
                "the balance leaves out pipeline fill and drain, and chunks are whole rows",
            ),
        };
        Ok((shares, Some(Balance { words, cause })))
    }

    /// The requested share for the CPU, and the rest in the proportions of the balance.
    fn with_cpu_share(&self, balanced: Vec<f64>, cpu_share: f64) -> Result<Vec<f64>> {
        let is_cpu: Vec<bool> = self.in_order().map(|device| device.profile.link.is_none()).collect();
        if !(0.0..=1.0).contains(&cpu_share) {
            return Err(Error::usage(format!(
                "the share of the CPU is {cpu_share}, but must be from 0 to 1"
            )));
        }
        if !is_cpu.contains(&true) {
            let reason = "the CPU has a share, but is not among the devices";
            return Err(Error::usage(reason).advise([Advice::AddCpu, Advice::AutomaticCpuShare]));
        }
        let others: f64 =
            balanced.iter().zip(&is_cpu).filter(|(_, cpu)| !**cpu).map(|(share, _)| share).sum();
        let even = 1.0 / is_cpu.iter().filter(|cpu| !**cpu).count().max(1) as f64;
        let share = |(balanced, cpu): (f64, &bool)| match (*cpu, others > 0.0) {
            (true, _) => cpu_share,
            (false, true) => (1.0 - cpu_share) * balanced / others,
            (false, false) => (1.0 - cpu_share) * even,
        };
        Ok(balanced.into_iter().zip(&is_cpu).map(share).collect())
    }

    /// The shares, with the minimum for named devices that would hardly help, and the names of these devices.
    fn raised(&self, mut shares: Vec<f64>, lines: &[Line]) -> (Vec<f64>, Low<'_>) {
        let of_chunk = self.request.chunks.map(|chunks| 1.0 / chunks.max(1) as f64);
        let helpful = of_chunk.unwrap_or(self.request.work.helpful_share());
        let devices: Vec<&DeviceSpec> = self.in_order().collect();
        let minimum = |index: usize| {
            of_chunk.unwrap_or(self.request.work.smallest_share(devices[index].profile.processor))
        };
        let low: Vec<usize> = (0..shares.len())
            .filter(|&index| devices[index].required && shares[index] < helpful.min(lines[index].most))
            .collect();
        if low.is_empty() || self.few_chunks() {
            return (shares, Low::default());
        }
        // Memory may limit the others, so that they cannot do without it.
        let room: f64 =
            (0..lines.len()).filter(|index| !low.contains(index)).map(|index| lines[index].most).sum();
        for &index in &low {
            let balanced = if room < 1.0 { shares[index] } else { 0.0 };
            shares[index] = minimum(index).max(balanced).min(lines[index].most);
        }
        let (mut raised, mut left_out) = (Vec::new(), Vec::new());
        for &index in &low {
            let names = if shares[index] > 0.0 { &mut raised } else { &mut left_out };
            names.push(devices[index].name.as_str());
        }
        let taken: f64 = low.iter().map(|&index| shares[index]).sum();
        let others: f64 = shares.iter().sum::<f64>() - taken;
        let factor = if taken < 1.0 && others > 0.0 { (1.0 - taken) / others } else { 1.0 };
        for (index, share) in shares.iter_mut().enumerate() {
            *share *= if low.contains(&index) { 1.0 } else { factor };
        }
        let sum: f64 = shares.iter().sum();
        (shares.iter().map(|share| share / sum).collect(), Low { raised, left_out })
    }

    /// Whether there are too few chunks for every device to get one.
    pub(super) fn few_chunks(&self) -> bool {
        self.request.chunks.is_some_and(|chunks| chunks < self.devices.len())
    }
}

/// Sets all but the `count` largest shares to zero and rescales the rest.
fn keep_largest(shares: &mut [f64], count: usize) {
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(a.cmp(&b)));
    for &index in order.iter().skip(count) {
        shares[index] = 0.0;
    }
    let sum: f64 = shares.iter().sum();
    if sum > 0.0 {
        shares.iter_mut().for_each(|share| *share /= sum);
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::Mode;
    use super::super::fixture::with_draft;
    use super::super::make::make;
    use super::super::request::PlanRequest;
    use super::super::tests::{matrix, request};
    use super::*;
    use crate::work::Work;

    fn are_close(shares: &[f64], expected: &[f64]) {
        let is_close = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-12;
        assert!(shares.len() == expected.len() && shares.iter().zip(expected).all(is_close), "{shares:?}");
    }

    #[test]
    fn gpus_share_what_the_cpu_leaves_in_the_proportions_of_the_balance() {
        let matrix = matrix("diagonal,rows=40");
        let request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["cpu", "emu", "emu"]);
        with_draft(&request, Mode::Oneshot, |draft| {
            are_close(&draft.with_cpu_share(vec![0.5, 0.3, 0.2], 0.4).unwrap(), &[0.4, 0.36, 0.24]);
            are_close(&draft.with_cpu_share(vec![1.0, 0.0, 0.0], 0.4).unwrap(), &[0.4, 0.3, 0.3]);
        });
    }

    #[test]
    fn with_ten_chunks_a_slow_named_device_gets_a_tenth() {
        let matrix = matrix("diagonal,rows=40");
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        let request = PlanRequest { chunks: Some(10), ..request(work, &["cpu", "emu"]) };
        let lines = [Line { fixed_s: 0.0, whole_s: 1.0, most: 1.0 }; 2];
        with_draft(&request, Mode::Oneshot, |draft| {
            let (shares, low) = draft.raised(vec![0.99, 0.01], &lines);
            are_close(&shares, &[0.9, 0.1]);
            assert_eq!((low.raised, low.left_out), (vec!["emu:1/0"], vec![]));
            let (shares, low) = draft.raised(vec![0.8, 0.2], &lines);
            are_close(&shares, &[0.8, 0.2]);
            assert!(low.raised.is_empty() && low.left_out.is_empty());
        });
    }

    #[test]
    fn a_plan_says_which_named_device_is_too_slow_to_help() {
        let matrix = matrix("stencil5,n=40");
        let mut request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["cpu", "emu"]);
        request.devices[1].profile.link.as_mut().unwrap().latency_us = 1e6;
        let plan = make(&request).unwrap();
        let words = "shares: emu:1/0 is too slow to help and gets the minimum share of a named device; otherwise balanced finish times: \
                     cpu gets 98.4 % of the work, emu:1/0 gets 1.6 % of the work; ";
        assert!(plan.reasons.iter().any(|reason| reason.starts_with(words)), "{:#?}", plan.reasons);
    }
}
