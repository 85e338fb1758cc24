//! The statistics of samples equal NumPy's, if NumPy is installed.

#[path = "../../tests/skip/mod.rs"]
mod skip;

use std::io::Write;
use std::process::{Command, Stdio};

use rowloom_cli::statistics::Times;

const SCRIPT: &str = "
import json, sys
import numpy as np
out = []
for samples in json.load(sys.stdin):
    x = np.array(samples)
    median = np.median(x)
    out.append([x.mean(), x.var(ddof=1), x.std(ddof=1), median, x.min(), x.max(), np.percentile(x, 95),
                np.median(np.abs(x - median))])
json.dump(out, sys.stdout)
";

/// Samples like measured times: a minimum, noise, and occasional outliers.
fn samples(seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let floor = 10f64.powf(-6.0 * next());
    (0..10 + 700 * seed as usize).map(|_| floor * (1.0 + 0.1 * next() + 5.0 * next().powi(40))).collect()
}

#[test]
fn statistics_equal_those_of_numpy() {
    let python = std::env::var("ROWLOOM_PYTHON").unwrap_or_else(|_| "python3".into());
    let has_numpy = Command::new(&python).args(["-c", "import numpy"]).stderr(Stdio::null()).status();
    if !has_numpy.is_ok_and(|status| status.success()) {
        crate::skip::skip(
            "python",
            format!("{python} has no NumPy; set ROWLOOM_PYTHON to a Python that has it"),
        );
        return;
    }
    let sets: Vec<Vec<f64>> = (0..6).map(samples).collect();
    let mut child = Command::new(&python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(&sets).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    let numpy: Vec<[f64; 8]> = serde_json::from_slice(&output.stdout).unwrap();
    for (samples, expected) in sets.iter().zip(&numpy) {
        let times = Times::new(samples);
        let Times { mean, variance, stddev, median, min, max, p95, mad, .. } = times;
        let found = [mean, variance, stddev, median, min, max, p95, mad].map(Option::unwrap);
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (found - expected).abs() / expected.abs();
            assert!(
                error <= 1e-12,
                "statistic {index} of {} samples: {found}, NumPy {expected}",
                samples.len()
            );
        }
    }
}
