//! Reduces a failing problem: fewer rows, nonzeros and columns, simpler values and options, as long as it still fails.

use std::time::{Duration, Instant};

use crate::lab::Lab;
use crate::problem::{Problem, window};

/// Reduces until nothing smaller fails or the time is over. Returns what is wrong with the smallest problem.
pub fn shrunk(mut problem: Problem, mut what: String, lab: &mut Lab, limit: Duration) -> (Problem, String) {
    let start = Instant::now();
    loop {
        let mut progress = false;
        for step in [options, columns_of_x, rows, columns, entries, values] {
            // Each step proposes candidates again after a success, until none of them fails.
            while start.elapsed() < limit {
                let fails = |candidate: &Problem, lab: &mut Lab| {
                    if start.elapsed() < limit { candidate.failure(lab) } else { None }
                };
                let found = step(&problem)
                    .into_iter()
                    .find_map(|candidate| fails(&candidate, lab).map(|what| (candidate, what)));
                let Some((smaller, now_wrong)) = found else { break };
                (problem, what) = (smaller, now_wrong);
                progress = true;
            }
        }
        if !progress || start.elapsed() >= limit {
            return (problem, what);
        }
    }
}

fn options(problem: &Problem) -> Vec<Problem> {
    let simpler = problem.request.simpler();
    simpler.into_iter().map(|request| Problem { request, ..problem.clone() }).collect()
}

fn columns_of_x(problem: &Problem) -> Vec<Problem> {
    let &Problem { all, k, .. } = problem;
    let smaller =
        |count: usize| [1, count / 2, count - count / 4, count - count / 8, count.saturating_sub(1)];
    let of_columns = |first: usize, all_columns: usize, k: usize| Problem {
        x: window(&problem.x, all, first, all_columns),
        old: window(&problem.old, all, first, all_columns),
        all: all_columns,
        k,
        ..problem.clone()
    };
    let mut candidates = Vec::new();
    // Fewer columns of other products first, then of each.
    let with_k = smaller(all).into_iter().chain([k]).filter(|&new| new >= k && new < all);
    candidates.extend(with_k.map(|new| of_columns(0, new, k)));
    for new in smaller(k).into_iter().filter(|&new| new > 0 && new < k) {
        for first in [0, k - new] {
            candidates.extend([of_columns(first, new, new), of_columns(first, all, new)]);
        }
    }
    candidates
}

/// Ranges of `count` things to leave out: halves, then smaller parts, then single ones, but not arbitrarily many.
fn parts(count: usize) -> Vec<std::ops::Range<usize>> {
    let mut parts = Vec::new();
    let mut size = count;
    while size > 0 && parts.len() < 400 {
        parts.extend((0..count).step_by(size).map(|first| first..(first + size).min(count)));
        size /= 2;
    }
    parts
}

fn rows(problem: &Problem) -> Vec<Problem> {
    let without = |range: std::ops::Range<usize>| {
        let all = problem.all;
        let kept = (0..problem.a.rows).filter(|row| !range.contains(row));
        let old = kept.flat_map(|row| problem.old[row * all..][..all].iter().copied()).collect();
        Problem { a: problem.a.with_rows(|row| !range.contains(&row)), old, ..problem.clone() }
    };
    parts(problem.a.rows).into_iter().map(without).collect()
}

fn columns(problem: &Problem) -> Vec<Problem> {
    let without = |range: std::ops::Range<usize>| {
        let all = problem.all;
        let kept = (0..problem.a.cols).filter(|column| !range.contains(column));
        let x = kept.flat_map(|column| problem.x[column * all..][..all].iter().copied()).collect();
        Problem { a: problem.a.with_columns(|column| !range.contains(&column)), x, ..problem.clone() }
    };
    parts(problem.a.cols).into_iter().map(without).collect()
}

fn entries(problem: &Problem) -> Vec<Problem> {
    let without = |range: std::ops::Range<usize>| Problem {
        a: problem.a.with_entries(|entry| !range.contains(&entry)),
        ..problem.clone()
    };
    parts(problem.a.nnz()).into_iter().map(without).collect()
}

fn values(problem: &Problem) -> Vec<Problem> {
    let mut candidates = Vec::new();
    let is_one = |value: &f64| *value == 1.0;
    if !problem.x.iter().all(is_one) {
        candidates.push(Problem { x: vec![1.0; problem.x.len()], ..problem.clone() });
    }
    if !problem.old.iter().all(is_one) {
        candidates.push(Problem { old: vec![1.0; problem.old.len()], ..problem.clone() });
    }
    if !problem.a.values.iter().all(is_one) {
        let mut simpler = problem.clone();
        simpler.a.values.fill(1.0);
        candidates.push(simpler);
        let mut integers = problem.clone();
        integers.a.values.iter_mut().enumerate().for_each(|(at, value)| *value = (at % 7 + 1) as f64);
        if integers.a.values != problem.a.values {
            candidates.push(integers);
        }
    }
    candidates
}
