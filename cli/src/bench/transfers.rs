//! `rowloom bench transfers`: measures copies between the host's memory and each GPU's.

use std::path::Path;

use serde_json::json;

use crate::args::options::{DeviceWord, Devices};
use crate::args::{BenchArguments, ExecutionArguments};
use crate::console::report::{Report, machine_report};
use crate::console::table::{Table, seconds};
use crate::console::{Console, check_target, write_file};
use crate::measure::{
    Direction, LARGEST_BYTES, RegisterTime, SMALLEST_BYTES, TransferBench, TransferKind, TransferTime, sizes,
};
use crate::operands::session::Session;
use crate::plots::{Axis, Figure, Lines, Panel, Plot, Point, Scale, Series, SeriesStyle, svg};
use crate::request::planning::runtime;
use rowloom::internal::error::{Bytes, Error, Result};
use rowloom::internal::machine::pcie_gb_per_s;
use rowloom::internal::runtime::ProductOptions;
use rowloom::internal::trace::Clock;

/// The word that takes the place of matrices.
pub const WORD: &str = "transfers";

/// Flags of `bench` that `bench transfers` has too; the others are about kernels.
const FLAGS: [&str; 11] =
    ["matrices", "devices", "csv", "svg", "largest", "threads", "seed", "json", "quiet", "force", "color"];

/// The measured copies of one device.
#[derive(Debug, serde::Serialize)]
struct Measured {
    device: String,
    /// Whether the device is emulated, so that its times say nothing about a GPU.
    emulated: bool,
    /// Bandwidth of the link in one direction.
    link_gb_per_s: Option<f64>,
    registering: Option<RegisterTime>,
    copies: Vec<TransferTime>,
}

/// Whether the arguments ask for transfers instead of kernels.
pub fn is_asked(arguments: &BenchArguments) -> bool {
    arguments.matrices.len() == 1 && arguments.matrices[0] == WORD
}

/// Measures and reports.
pub fn run(arguments: &BenchArguments, console: &Console) -> Result<()> {
    // Names with capitals are those of groups of flags.
    let is_other = |flag: &&String| flag.starts_with(char::is_lowercase) && !FLAGS.contains(&flag.as_str());
    if let Some(flag) = arguments.common.typed.iter().find(is_other) {
        let flag = if flag.len() == 1 { format!("-{flag}") } else { format!("--{}", flag.replace('_', "-")) };
        return Err(Error::usage(format!(
            "{flag} is about kernels; `rowloom bench transfers` measures copies"
        )));
    }
    check_devices(&arguments.devices)?;
    for file in [&arguments.csv, &arguments.svg].into_iter().flatten() {
        check_target(file)?;
    }
    let session = Session::with(arguments.threads, arguments.seed)?;
    let planning =
        ExecutionArguments { model: "none".into(), ..ExecutionArguments::of(arguments.devices.clone()) };
    let runtime = runtime(&planning, &session, Clock::start())?;
    let devices = runtime.resolve(&ProductOptions::default())?.devices;
    let gpus: Vec<String> =
        devices.into_iter().map(|device| device.name).filter(|name| name != "cpu").collect();
    if gpus.is_empty() {
        let reason = "no GPU can be used, and nothing is copied to the CPU (`rowloom devices` says why)";
        return Err(Error::Device { device: "auto".into(), reason: reason.into() });
    }
    let measuring = session.interrupt.measure(console, "copy");
    let mut all = Vec::new();
    for name in gpus {
        let mut bench = TransferBench::open(&runtime, &name)?;
        // Two copies are in flight, and the host and the device hold both ends.
        let fits = (bench.memory_bytes() / 4).min(session.memory_limit_bytes() / 8);
        let largest = arguments.largest.unwrap_or_else(|| LARGEST_BYTES.min(fits).max(SMALLEST_BYTES));
        let mut measured = Measured {
            emulated: name.starts_with("emu:"),
            link_gb_per_s: card_number(&name).and_then(|card| pcie_gb_per_s(Path::new("/"), card)),
            device: name,
            registering: None,
            copies: Vec::new(),
        };
        let sizes = sizes(largest);
        let bar =
            console.bar((sizes.len() * TransferKind::ALL.len() * Direction::ALL.len()) as u64, "copies");
        for kind in TransferKind::ALL {
            let copies = &mut measured.copies;
            let registering = bench.measure(kind, &sizes, |time| {
                copies.push(time);
                bar.advance(1);
                !session.interrupt.asked()
            })?;
            measured.registering = measured.registering.or(registering);
            if session.interrupt.asked() {
                break;
            }
        }
        drop(bar);
        show(&measured, console)?;
        all.push(measured);
        if session.interrupt.asked() {
            break;
        }
    }
    drop(measuring);
    if let Some(file) = &arguments.csv {
        write_file(file, csv(&all, &session.provenance.lines()).as_bytes())?;
    }
    if let Some(file) = &arguments.svg {
        write_file(file, svg(&figure(&all)).as_bytes())?;
    }
    let report = Report::new("bench")
        .with("provenance", &session.provenance)
        .with("machine", machine_report(&session.machine))
        .with("config", json!({"subject": WORD, "largest": arguments.largest}))
        .with("transfers", &all);
    console.json(&report)?;
    session.interrupt.check()
}

/// A usage error for devices that nothing can be copied to.
fn check_devices(devices: &Devices) -> Result<()> {
    let Devices::List(words) = devices else { return Ok(()) };
    if words.iter().any(|word| matches!(word, DeviceWord::Simulated { .. })) {
        return Err(Error::usage("a simulated device copies nothing; name cuda:0 or emu:0"));
    }
    if words.iter().all(|word| *word == DeviceWord::Cpu) {
        let reason = "the CPU uses the host's memory, so nothing is copied to it; name a GPU with --devices";
        return Err(Error::usage(reason));
    }
    Ok(())
}

/// The number of `cuda:NUMBER`.
fn card_number(name: &str) -> Option<usize> {
    name.strip_prefix("cuda:")?.split(',').next()?.parse().ok()
}

/// One line per direction and size, with the rate of each kind of memory.
fn show(measured: &Measured, console: &Console) -> Result<()> {
    let link = measured
        .link_gb_per_s
        .map_or(String::new(), |limit| format!(", PCIe link {limit:.1} GB/s in each direction"));
    console.prose(&format!("\n{}: GB/s between the memories of host and device{link}\n", measured.device))?;
    if measured.emulated {
        console.note("an emulated device copies within the host's memory; the figures do not describe a GPU");
    }
    let headings = ["direction", "bytes", "pageable", "staged", "registered", "write-combined", "time"];
    let mut table = Table::columns(headings, &[1, 2, 3, 4, 5, 6]);
    for direction in Direction::ALL {
        let rows = measured.copies.iter().filter(|time| time.direction == direction);
        let mut sizes: Vec<u64> = rows.clone().map(|time| time.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for bytes in sizes {
            let of = |kind: TransferKind| rows.clone().find(|time| time.bytes == bytes && time.kind == kind);
            let rate = |kind| of(kind).map_or(String::new(), |time| format!("{:.2}", time.gb_per_s));
            let times = TransferKind::ALL.iter().filter_map(|&kind| of(kind)).map(|time| time.median_s);
            let [pageable, staged, registered, write_combined] = TransferKind::ALL.map(rate);
            let shortest = seconds(times.fold(f64::INFINITY, f64::min));
            let name = direction.name().to_string();
            table.row([
                name,
                Bytes(bytes).to_string(),
                pageable,
                staged,
                registered,
                write_combined,
                shortest,
            ]);
        }
    }
    console.table(&table)?;
    if let Some(RegisterTime { bytes, seconds: took }) = measured.registering.filter(|_| !measured.emulated) {
        let per_gb = took / (bytes as f64 * 1e-9);
        console.prose(&format!(
            "registering {} took {} ({per_gb:.3} s per GB)\n",
            Bytes(bytes),
            seconds(took)
        ))?;
    }
    Ok(())
}

fn csv(all: &[Measured], provenance: &[String]) -> String {
    let mut text: String = provenance.iter().map(|line| format!("# {line}\n")).collect();
    text += "device,memory,direction,bytes,repeats,median_s,shortest_s,gb_per_s,link_gb_per_s\n";
    for measured in all {
        let link = measured.link_gb_per_s.map_or(String::new(), |limit| limit.to_string());
        for TransferTime { kind, direction, bytes, repeats, median_s, shortest_s, gb_per_s } in
            &measured.copies
        {
            text += &format!(
                "\"{}\",{},{},{bytes},{repeats},{median_s:e},{shortest_s:e},{gb_per_s},{link}\n",
                measured.device,
                kind.name(),
                direction.name()
            );
        }
    }
    text
}

/// A panel for each device and direction, a line for each kind of memory, and the limit of the link.
fn figure(all: &[Measured]) -> Figure {
    let point = |x: f64, y: f64| Point { x, y, low: None, high: None, label: None };
    let panel = |measured: &Measured, direction: Direction| {
        let copies = || measured.copies.iter().filter(move |time| time.direction == direction);
        let mut series: Vec<Series> = TransferKind::ALL
            .iter()
            .map(|kind| Series {
                name: kind.name().into(),
                points: copies()
                    .filter(|time| time.kind == *kind)
                    .map(|time| point(time.bytes as f64, time.gb_per_s))
                    .collect(),
                style: SeriesStyle::Measured,
            })
            .collect();
        if let Some(limit) = measured.link_gb_per_s {
            let limit = limit * if direction == Direction::Both { 2.0 } else { 1.0 };
            let ends = copies().map(|time| time.bytes as f64);
            let (low, high) = ends.fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
            let points = vec![point(low, limit), point(high, limit)];
            series.push(Series {
                name: "limit of the PCIe link".into(),
                points,
                style: SeriesStyle::Reference,
            });
        }
        let axis = |label: &str, scale| Axis { label: label.into(), scale, from_zero: false };
        let title = match direction {
            Direction::Up => "to the device",
            Direction::Down => "from the device",
            Direction::Both => "both directions at once",
        };
        Panel {
            title: format!("{}, {title}", measured.device),
            plot: Plot::Lines(Lines {
                x: axis("bytes of a copy", Scale::Log2),
                y: axis("GB/s", Scale::Log10),
                series,
            }),
        }
    };
    let emulated = all.iter().any(|measured| measured.emulated);
    let not_a_gpu = "An emulated device copies within the host's memory: its figures do not describe a GPU. ";
    Figure {
        id: WORD.into(),
        title: "How fast are copies between host and device?".into(),
        caption: format!("{}Median times, staging included.", if emulated { not_a_gpu } else { "" }),
        panels: all
            .iter()
            .flat_map(|measured| Direction::ALL.map(|direction| panel(measured, direction)))
            .collect(),
        ..Figure::default()
    }
}
