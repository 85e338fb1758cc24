use super::*;
use crate::matrix::Dtype;
use crate::report::{Plot, SeriesStyle};
use crate::study::{MatrixFacts, Times};

fn record(sweep: &str, seconds: f64) -> Record {
    Record {
        sweep: sweep.into(),
        measured: Measured::Kernel,
        matrix: MatrixFacts { name: "a".into(), ..MatrixFacts::default() },
        dtype: Some(Dtype::F64),
        k: Some(8),
        devices: "cpu".into(),
        device_count: 1,
        threads: 1,
        kernel: "cpu_csr".into(),
        times: Times::new(&[seconds]),
        flops: Some(1e9),
        bytes: Some(1_000_000_000),
        memory_gb_per_s: Some(10.0),
        ..Record::default()
    }
}

fn config(subject: &str) -> StudyConfig {
    let text =
        format!("title = 't'\n[[sweep]]\nname = 'My sweep!'\nsubject = '{subject}'\nmatrices = ['gen:a']");
    StudyConfig::parse(&text, "t.toml").unwrap()
}

fn ids(figures: &[Figure]) -> Vec<&str> {
    figures.iter().map(|figure| figure.id.as_str()).collect()
}

#[test]
fn threads_give_speed_up_with_an_ideal_line_and_efficiency() {
    let at = |threads, seconds| Record { threads, ..record("My sweep!", seconds) };
    let figures = figures(&config("run"), &[at(1, 8.0), at(2, 5.0), at(4, 4.0), record("other", 1.0)]);
    assert_eq!(ids(&figures), ["my-sweep-speed-up-threads", "my-sweep-efficiency-threads"]);
    let Plot::Lines(speedup) = &figures[0].plot else { panic!("lines") };
    let ys: Vec<f64> = speedup.series[0].points.iter().map(|point| point.y).collect();
    assert_eq!(ys, [1.0, 1.6, 2.0]);
    assert_eq!(speedup.series[1].style, SeriesStyle::Reference);
    let Plot::Lines(efficiency) = &figures[1].plot else { panic!("lines") };
    assert_eq!(efficiency.series[0].points[2].y, 50.0);
    assert!(efficiency.y.label.contains('%'));
}

#[test]
fn devices_of_one_kind_are_one_series() {
    let on = |devices: &str, device_count, seconds| {
        let devices = devices.to_string();
        Record { devices, device_count, ..record("My sweep!", seconds) }
    };
    let records =
        [on("sim:h200", 1, 8.0), on("sim:h200x2", 2, 4.0), on("sim:h200x4", 4, 2.0), on("cpu", 1, 50.0)];
    let figures = figures(&config("run"), &records);
    let Plot::Lines(speedup) = &figures[0].plot else { panic!("lines") };
    let measured: Vec<&str> = speedup.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(measured, ["sim:h200", "ideal"]);
    assert_eq!(speedup.series[0].points[2].y, 4.0);
}

#[test]
fn kernels_alone_give_rates_a_roofline_and_a_map() {
    let of = |kernel: &str, k, seconds| {
        let kernel = kernel.to_string();
        Record { kernel, k: Some(k), ..record("My sweep!", seconds) }
    };
    let records = [of("cpu_csr", 1, 1.0), of("cpu_csr", 8, 0.5), of("cpu_sell", 1, 2.0)];
    let figures = figures(&config("kernel"), &records);
    assert_eq!(ids(&figures), ["my-sweep-rate-by-k", "my-sweep-roofline", "my-sweep-kernels-cpu-1-threads"]);
    let Plot::HeatMap(map) = &figures[2].plot else { panic!("a map") };
    assert_eq!(map.values, [vec![Some(1.0), Some(0.5)], vec![Some(2.0), None]]);
    let Plot::Roofline(roofline) = &figures[1].plot else { panic!("a roofline") };
    assert_eq!((roofline.ceilings.len(), roofline.points.len()), (1, 3));
}

#[test]
fn shares_are_measured_beside_predicted() {
    let at = |share, seconds| Record {
        cpu_share: Some(share),
        predicted_s: Some(2.0 * seconds),
        ..record("My sweep!", seconds)
    };
    let figures = figures(&config("run"), &[at(0.5, 2.0), at(0.0, 1.0)]);
    assert_eq!(ids(&figures), ["my-sweep-time-by-share"]);
    let Plot::Lines(lines) = &figures[0].plot else { panic!("lines") };
    let xs: Vec<f64> = lines.series[0].points.iter().map(|point| point.x).collect();
    assert_eq!(xs, [0.0, 50.0], "in the order of x");
    assert_eq!((lines.series[1].style, lines.series[1].points[1].y), (SeriesStyle::Predicted, 4000.0));
}

#[test]
fn conversions_stand_beside_their_serial_twins() {
    let of = |kernel: &str, threads, seconds| {
        let kernel = kernel.to_string();
        Record { kernel, threads, measured: Measured::Conversion, ..record("My sweep!", seconds) }
    };
    let records = [of("COO to CSR, serial", 1, 3.0), of("COO to CSR, parallel", 2, 1.0)];
    let figures = figures(&config("conversion"), &records);
    let Plot::Bars(bars) = &figures[0].plot else { panic!("bars") };
    assert_eq!(bars.categories, ["COO to CSR"]);
    assert_eq!((bars.series[0].1[0], bars.series[1].1[0]), (Some(3000.0), Some(1000.0)));
}

#[test]
fn what_was_not_swept_is_not_asked() {
    assert!(figures(&config("run"), &[record("My sweep!", 1.0)]).is_empty());
    assert!(figures(&config("run"), &[]).is_empty());
}
