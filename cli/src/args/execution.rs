//! Flags of all commands that compute: devices, transfer, repetition.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use serde_json::{Map, Value, json};

use super::names;
use super::options::{Devices, parse_bytes};
use super::parse::{TRANSFERS, parse_share};
use rowloom::internal::runtime::Check;

/// Flags of repeated computations.
#[derive(Debug, Args)]
pub struct RepeatArguments {
    /// Compare the result with a serial reference
    ///
    /// The result is that of the last repetition. The reference accumulates in twice the precision. The exit code is 5 if an element
    /// exceeds the rounding bound.
    #[arg(long)]
    pub verify: bool,

    /// Measured repetitions [with --output: 1, without warm-up]
    ///
    /// With --output and neither --repeat nor --warmup, the result is computed once.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Repetitions before the measured ones
    ///
    /// Times of these repetitions are not reported, but --devices auto uses them to choose the devices.
    #[arg(long, value_name = "N", default_value_t = 3, hide_short_help = true)]
    pub warmup: u32,

    /// Write a timeline of the run to FILE
    ///
    /// The file opens in Perfetto (ui.perfetto.dev), chrome://tracing and speedscope; `rowloom trace` summarizes it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
}

/// Flags that decide where and how any kind of work is computed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Execution")]
pub struct ExecutionArguments {
    /// Devices: auto, cpu, cuda, cuda:0, emu:0, sim:h200x4, or a list with commas
    ///
    /// auto: the CPU computes the first products. CUDA cards are opened in the background if the remaining products save more time
    /// than opening takes; then the fastest of CPU, GPUs and both computes. Measured times are kept for the next run with the same
    /// matrix. cuda: all CUDA GPUs; cuda:0: the first. emu:0: an emulated GPU. sim:h200x4: a simulated machine with four H200
    /// GPUs; sim:node8 has eight H100, sim:h200node8 eight H200. Commas combine devices, as in cpu,cuda:0; every named device is used. A card
    /// may be named twice, as in cuda:0,cuda:0; a fault of the card then ends both devices.
    #[arg(long, value_name = "LIST", default_value = "auto", hide_possible_values = true, value_parser = names::devices())]
    pub devices: Devices,

    /// How GPUs get A: auto, resident, oneshot or stream
    ///
    /// resident: A is copied once and stays on the device. oneshot: A is copied with every product, while chunks that
    /// have arrived are computed. stream: the same through a ring of buffers, for a matrix larger than the device's
    /// memory.
    #[arg(long, value_name = "MODE", default_value = "auto", hide_possible_values = true, hide_short_help = true,
          value_parser = PossibleValuesParser::new(["auto", "resident", "oneshot", "stream"]))]
    pub mode: String,

    /// Number of chunks of A [default: chosen by the planner]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20), conflicts_with = "chunk_bytes",
          hide_short_help = true)]
    pub chunks: Option<u32>,

    /// Bytes of A in a chunk, such as 16MiB [default: chosen by the planner]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    pub chunk_bytes: Option<u64>,

    /// Share of the product that the CPU computes, from 0 to 1 [default: the share predicted to be fastest]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, hide_short_help = true)]
    pub cpu_share: Option<f64>,

    /// How A, X and Y are copied to GPUs: auto, staged or registered
    ///
    /// staged: through page-locked buffers. registered: the arrays themselves are page-locked once, then copied directly.
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true, hide_short_help = true,
          value_parser = PossibleValuesParser::new(TRANSFERS))]
    pub transfer: String,

    /// Which products are checked: first, always or never
    ///
    /// A check compares the rows of Y with A X in one pass over A, X and Y. Wrong rows are computed again, and the device and the
    /// kernel are named. first: the first product of every plan. Simulated devices, and means of columns, have no check.
    #[arg(long, value_name = "WHICH", default_value = "first", hide_possible_values = true, hide_short_help = true,
          value_parser = PossibleValuesParser::new(Check::NAMES))]
    pub check: String,

    /// Most memory to use on each GPU, such as 8GiB or 8GB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    pub mem_limit: Option<u64>,

    /// Use only kernels that add in one fixed order
    ///
    /// Y then has the same bytes for any devices, chunks, threads and repeats.
    #[arg(long, hide_short_help = true)]
    pub reproducible: bool,

    /// Cost model of this machine: auto (written by `rowloom calibrate`), none, or FILE
    #[arg(long, value_name = "FILE", default_value = "auto", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub model: String,

    /// Neither use nor store measured times
    ///
    /// Predictions are then not corrected by earlier runs, and --devices auto does not know the times of earlier products with the same
    /// matrix.
    #[arg(long, hide_short_help = true)]
    pub no_refine: bool,
}

impl ExecutionArguments {
    /// Limits, transfer and model as every report has them.
    pub fn limits(&self) -> Map<String, Value> {
        let limits = [
            ("chunk_bytes", json!(self.chunk_bytes)),
            ("cpu_share", json!(self.cpu_share)),
            ("transfer", json!(self.transfer)),
            ("mem_limit", json!(self.mem_limit)),
            ("reproducible", json!(self.reproducible)),
            ("model", json!(self.model)),
            ("no_refine", json!(self.no_refine)),
        ];
        limits.into_iter().map(|(key, value)| (key.into(), value)).collect()
    }

    /// These devices, with the default of every other flag.
    pub fn of(devices: Devices) -> Self {
        let auto = || String::from("auto");
        Self {
            devices,
            mode: auto(),
            chunks: None,
            chunk_bytes: None,
            cpu_share: None,
            transfer: auto(),
            check: Check::First.name().into(),
            mem_limit: None,
            reproducible: false,
            model: auto(),
            no_refine: false,
        }
    }
}
