use crate::measure::{Checked, MatrixFacts};
use crate::plots::{Missing, Plot, SeriesStyle, svg};
use crate::results::figures::series::ratio_spread;
use crate::results::figures::*;
use crate::results::record::Measured;
use crate::statistics::Times;
use rowloom::internal::matrix::Dtype;
use rowloom::internal::toml_file::TomlFile;

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
        checked: Some(Checked::weighed(0)),
        flops: Some(1e9),
        bytes: Some(1_000_000_000),
        memory_gb_per_s: Some(10.0),
        ..Record::default()
    }
}

fn config(subject: &str) -> StudyConfig {
    config_of(subject, "gen:a")
}

fn config_of(subject: &str, matrix: &str) -> StudyConfig {
    let text = format!(
        "title = 't'\n[[sweep]]\nname = 'My sweep!'\nsubject = '{subject}'\nmatrices = ['{matrix}']\nagainst = []"
    );
    StudyConfig::parse(&TomlFile::new("t.toml", text)).unwrap()
}

fn missing(name: &str, measured: bool, reason: &str) -> Missing {
    Missing { name: name.into(), measured, reason: reason.into() }
}

fn on_matrix(matrix: &str, record: Record) -> Record {
    Record { matrix: MatrixFacts { name: matrix.into(), ..MatrixFacts::default() }, ..record }
}

fn not_measured(record: Record, reason: &str) -> Record {
    Record { times: Times::default(), reason: Some(reason.into()), ..record }
}

fn series_names(panel: &crate::plots::Panel) -> Vec<&str> {
    let Plot::Lines(lines) = &panel.plot else { panic!("lines") };
    lines.series.iter().map(|series| series.name.as_str()).collect()
}

fn ids(figures: &[Figure]) -> Vec<&str> {
    figures.iter().map(|figure| figure.id.as_str()).collect()
}

#[test]
fn threads_give_speed_up_with_an_ideal_line_and_efficiency() {
    let at = |threads, seconds| Record { threads, ..record("My sweep!", seconds) };
    let figures = figures(&config("run"), &[at(1, 8.0), at(2, 5.0), at(4, 4.0), record("other", 1.0)]);
    assert_eq!(ids(&figures), ["my-sweep-speed-up-threads", "my-sweep-efficiency-threads"]);
    let Plot::Lines(speedup) = &figures[0].panels[0].plot else { panic!("lines") };
    let ys: Vec<f64> = speedup.series[0].points.iter().map(|point| point.y).collect();
    assert_eq!(ys, [1.0, 1.6, 2.0]);
    assert_eq!(speedup.series[1].style, SeriesStyle::Reference);
    let Plot::Lines(efficiency) = &figures[1].panels[0].plot else { panic!("lines") };
    assert_eq!(efficiency.series[0].points[2].y, 50.0);
    assert!(efficiency.y.label.contains('%'));
}

#[test]
fn the_interval_of_a_ratio_has_the_noise_of_both() {
    let exact = (2.0, (2.0, 2.0));
    assert_eq!(ratio_spread(3.0, exact, exact), (3.0, 3.0));
    assert_eq!(ratio_spread(3.0, (2.0, (1.0, 3.0)), exact), (1.5, 4.5));
    assert_eq!(ratio_spread(3.0, exact, (2.0, (1.0, 3.0))), (1.5, 4.5));
    let (low, high) = ratio_spread(1.0, (1.0, (0.7, 1.4)), (1.0, (0.7, 1.4)));
    assert!(low < 0.7 && high > 1.4 && low > 0.4 && high < 1.6, "{low} {high}");
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
    let Plot::Lines(speedup) = &figures[0].panels[0].plot else { panic!("lines") };
    let measured: Vec<&str> = speedup.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(measured, ["sim:h200", "ideal"]);
    assert_eq!(
        figures[0].missing,
        [missing("cpu", true, "measured with one number of devices only")],
        "a series without a scaling is named"
    );
    assert_eq!(speedup.series[0].points[2].y, 4.0);
}

#[test]
fn ranks_give_speed_up_and_efficiency_and_each_list_of_devices_is_a_series() {
    let over = |ranks, devices: &str, seconds| {
        // Every rank has the devices of the list.
        let (devices, device_count) = (devices.to_string(), ranks * devices.split(',').count());
        Record { devices, device_count, ranks: Some(ranks), ..record("My sweep!", seconds) }
    };
    let records = [
        over(1, "cpu", 8.0),
        over(2, "cpu", 5.0),
        over(4, "cpu", 4.0),
        over(1, "cpu,emu:0", 80.0),
        over(2, "cpu,emu:0", 40.0),
    ];
    let figures = figures(&config("run"), &records);
    assert_eq!(ids(&figures), ["my-sweep-speed-up-ranks", "my-sweep-efficiency-ranks"]);
    assert_eq!(series_names(&figures[0].panels[0]), ["cpu", "cpu,emu:0", "ideal"]);
    let Plot::Lines(efficiency) = &figures[1].panels[0].plot else { panic!("lines") };
    let ys: Vec<f64> = efficiency.series[0].points.iter().map(|point| point.y).collect();
    assert_eq!(ys, [100.0, 80.0, 50.0]);
}

#[test]
fn kernels_alone_give_rates_a_roofline_and_a_map() {
    let of = |kernel: &str, k, seconds| {
        let kernel = kernel.to_string();
        Record { kernel, k: Some(k), ..record("My sweep!", seconds) }
    };
    let records = [of("cpu_csr", 1, 1.0), of("cpu_csr", 8, 0.5), of("cpu_sell", 1, 2.0)];
    let figures = figures(&config("kernel"), &records);
    assert_eq!(ids(&figures), ["my-sweep-rate-by-k", "my-sweep-roofline", "my-sweep-kernels-cpu-1-thread"]);
    let Plot::HeatMap(map) = &figures[2].panels[0].plot else { panic!("a map") };
    assert_eq!(
        (&map.rows[..], &map.columns[..]),
        (&["cpu_csr", "cpu_sell"].map(String::from)[..], &["K = 1", "K = 8"].map(String::from)[..])
    );
    assert_eq!(map.values, [vec![Some(1.0), Some(2.0)], vec![Some(0.5), None]]);
    let Plot::Roofline(roofline) = &figures[1].panels[0].plot else { panic!("a roofline") };
    assert_eq!((roofline.ceilings.len(), roofline.points.len()), (1, 3));
}

#[test]
fn cpu_shares_are_shown_measured_and_predicted() {
    let at = |share, seconds| Record {
        cpu_share: Some(share),
        predicted_s: Some(2.0 * seconds),
        ..record("My sweep!", seconds)
    };
    let figures = figures(&config("run"), &[at(0.5, 2.0), at(0.0, 1.0)]);
    assert_eq!(ids(&figures), ["my-sweep-time-by-share"]);
    let Plot::Lines(lines) = &figures[0].panels[0].plot else { panic!("lines") };
    let xs: Vec<f64> = lines.series[0].points.iter().map(|point| point.x).collect();
    assert_eq!(xs, [0.0, 50.0], "in the order of x");
    assert_eq!((lines.series[1].style, lines.series[1].points[1].y), (SeriesStyle::Predicted, 4000.0));
}

#[test]
fn conversions_are_shown_serial_and_parallel() {
    let of = |kernel: &str, threads, seconds| {
        let kernel = kernel.to_string();
        Record { kernel, threads, measured: Measured::Conversion, ..record("My sweep!", seconds) }
    };
    let records = [of("COO to CSR, serial", 1, 3.0), of("COO to CSR, parallel", 2, 1.0)];
    let figures = figures(&config("conversion"), &records);
    let Plot::Bars(bars) = &figures[0].panels[0].plot else { panic!("bars") };
    assert_eq!(bars.categories, ["COO to CSR"]);
    assert_eq!((bars.series[0].1[0], bars.series[1].1[0]), (Some(3000.0), Some(1000.0)));
}

#[test]
fn a_sweep_without_a_choice_has_no_figure() {
    assert!(figures(&config("run"), &[record("My sweep!", 1.0)]).is_empty());
    assert!(figures(&config("run"), &[]).is_empty());
}

#[test]
fn matrices_are_panels_with_axes_of_their_own() {
    let at = |matrix: &str, threads, seconds| {
        on_matrix(matrix, Record { threads, ..record("My sweep!", seconds) })
    };
    let records = [at("a", 1, 8.0), at("a", 2, 5.0), at("b", 1, 0.008), at("b", 2, 0.004)];
    for figure in figures(&config("run"), &records) {
        let titles: Vec<&str> = figure.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["a", "b"], "{}", figure.id);
        assert_eq!(series_names(&figure.panels[1]), ["measured", "ideal"]);
    }
}

#[test]
fn growing_matrices_are_one_series_of_weak_scaling() {
    let on = |rows: u64, devices: &str, device_count, seconds| {
        let record =
            Record { devices: devices.into(), device_count, simulated: true, ..record("My sweep!", seconds) };
        on_matrix(&format!("uniform,rows={rows}"), record)
    };
    let records = [on(1, "sim:h200", 1, 1.0), on(2, "sim:h200x2", 2, 1.0), on(4, "sim:h200x4", 4, 1.0)];
    let figures = figures(&config_of("run", "gen:uniform,rows={1*devices}"), &records);
    assert_eq!(ids(&figures), ["my-sweep-speed-up-devices", "my-sweep-efficiency-devices"]);
    assert_eq!(series_names(&figures[0].panels[0]), ["simulated", "ideal"]);
    let Plot::Lines(lines) = &figures[0].panels[0].plot else { panic!("lines") };
    assert_eq!(lines.series[0].points.len(), 3);
}

#[test]
fn series_without_times_are_named_with_the_reason() {
    let of = |matrix: &str, kernel: &str, k| {
        on_matrix(matrix, Record { kernel: kernel.into(), k: Some(k), ..record("My sweep!", 1.0) })
    };
    let gpu = "device cuda:0: there is no CUDA driver; install one";
    let mut records = Vec::new();
    for matrix in ["a", "b"] {
        for k in [1, 8] {
            records.push(of(matrix, "cpu_csr", k));
            records.push(not_measured(of(matrix, "csr_vector", k), gpu));
        }
    }
    records.push(of("a", "cpu_ell", 1));
    records.push(not_measured(of("a", "cpu_ell", 8), "does not fit"));
    let figures = figures(&config("kernel"), &records);
    let rates = figures.iter().find(|figure| figure.id.contains("rate-by-k")).unwrap();
    assert_eq!(
        rates.missing,
        [
            missing("csr_vector", false, "device cuda:0: there is no CUDA driver"),
            missing("cpu_ell at K = 8 on a", false, "does not fit"),
        ]
    );
    assert!(svg(rates).contains("not measured: csr_vector (device cuda:0: there is no CUDA driver)"));
    for figure in &figures {
        assert!(figure.missing.iter().any(|one| one.name == "csr_vector"), "{} drops a kernel", figure.id);
    }
}

#[test]
fn unverified_results_are_in_no_figure_and_are_named() {
    let of = |kernel: &str, k, checked| Record {
        kernel: kernel.into(),
        k: Some(k),
        checked,
        ..record("My sweep!", 1.0)
    };
    let right = Some(Checked::weighed(0));
    let mut records = Vec::new();
    for k in [1, 8] {
        records.extend([
            of("right", k, right),
            of("unverified", k, None),
            of("wrong", k, Some(Checked::weighed(1))),
        ]);
    }
    let figures = figures(&config("kernel"), &records);
    assert_eq!(figures.len(), 3, "{:?}", ids(&figures));
    for figure in &figures {
        let picture = svg(figure);
        assert!(picture.contains("not shown: unverified (Y was not verified)"), "{}", figure.id);
        assert!(picture.contains("not shown: wrong (Y is wrong)"), "{}", figure.id);
        for panel in &figure.panels {
            let names: Vec<&str> = match &panel.plot {
                Plot::Lines(_) => series_names(panel),
                Plot::HeatMap(map) => map.rows.iter().map(String::as_str).collect(),
                Plot::Roofline(roofline) => {
                    roofline.points.iter().map(|point| point.group.as_str()).collect()
                }
                Plot::Bars(bars) => bars.series.iter().map(|(name, _)| name.as_str()).collect(),
            };
            assert!(
                !names.iter().any(|name| name.contains("unverified") || name.contains("wrong")),
                "{names:?}"
            );
        }
    }
    let unverified: Vec<Record> = records.into_iter().filter(|record| record.checked.is_none()).collect();
    assert!(super::figures(&config("kernel"), &unverified).is_empty());
}

#[test]
fn libraries_that_were_asked_for_and_are_absent_are_named() {
    let text = "title = 't'\n[[sweep]]\nname = 'My sweep!'\nsubject = 'kernel'\nmatrices = ['gen:a']\nagainst = ['mkl']";
    let config = StudyConfig::parse(&TomlFile::new("t.toml", text)).unwrap();
    let at = |k| Record { k: Some(k), ..record("My sweep!", 1.0) };
    for figure in figures(&config, &[at(1), at(8)]) {
        assert_eq!(figure.missing.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["mkl"]);
    }
}

#[test]
fn thirty_kernels_are_all_shown() {
    let of = |index: usize, k| {
        let kernel = format!("kernel_{index}");
        Record { kernel, k: Some(k), ..record("My sweep!", 1.0 + index as f64) }
    };
    let records: Vec<Record> = (0..30).flat_map(|index| [of(index, 1), of(index, 8)]).collect();
    let figures = figures(&config("kernel"), &records);
    let rates = figures.iter().find(|figure| figure.id.contains("rate-by-k")).unwrap();
    let mut shown: Vec<&str> = rates.panels.iter().flat_map(series_names).collect();
    shown.sort_unstable();
    shown.dedup();
    assert_eq!((shown.len(), rates.panels.len(), rates.missing.len()), (30, 3, 0));
    assert_eq!(rates.panels[2].title, "(part 3 of 3)");
    let map = figures.iter().find(|figure| figure.id.contains("kernels-cpu")).unwrap();
    let Plot::HeatMap(map) = &map.panels[0].plot else { panic!("a map") };
    assert_eq!(map.rows.len(), 30);
}

#[test]
fn simulated_figures_do_not_mention_medians_or_error_bars() {
    let on = |devices: &str, device_count, mode: &str, chunk_bytes, k, seconds| Record {
        devices: devices.into(),
        device_count,
        mode: Some(mode.into()),
        chunk_bytes: Some(chunk_bytes),
        k: Some(k),
        hidden_fraction: Some(0.5),
        simulated: true,
        times: Times::new(&[seconds; 9]),
        ..record("My sweep!", seconds)
    };
    let records = [
        on("sim:h200", 1, "resident", 1 << 16, 8, 4.0),
        on("sim:h200x2", 2, "resident", 1 << 16, 8, 2.0),
        on("sim:h200", 1, "oneshot", 1 << 16, 8, 5.0),
        on("sim:h200", 1, "oneshot", 1 << 18, 8, 3.0),
        on("sim:h200", 1, "oneshot", 1 << 18, 32, 3.0),
    ];
    let figures = figures(&config("run"), &records);
    assert_eq!(figures.len(), 6, "{:?}", ids(&figures));
    for figure in &figures {
        let text = svg(figure).to_lowercase();
        assert!(
            !text.contains("median") && !text.contains("error bars"),
            "{}: {}",
            figure.id,
            figure.caption
        );
        assert!(!text.contains("class=\"error\""), "{} has error bars", figure.id);
    }
    let measured: Vec<Record> =
        records.into_iter().map(|record| Record { simulated: false, ..record }).collect();
    let captions: String =
        super::figures(&config("run"), &measured).into_iter().map(|figure| figure.caption).collect();
    assert!(captions.contains("median"), "{captions}");
}

#[test]
fn slow_and_fast_series_share_a_logarithmic_axis() {
    let of = |kernel: &str, k, seconds| Record {
        kernel: kernel.into(),
        k: Some(k),
        ..record("My sweep!", seconds)
    };
    let scale = |slow: f64| {
        let records = [of("fast", 1, 1.0), of("fast", 8, 1.0), of("slow", 1, slow), of("slow", 8, slow)];
        let figures = figures(&config("kernel"), &records);
        let Plot::Lines(lines) = &figures[0].panels[0].plot else { panic!("lines") };
        lines.y.scale
    };
    assert_eq!((scale(2.0), scale(100.0)), (crate::plots::Scale::Linear, crate::plots::Scale::Log10));
}
