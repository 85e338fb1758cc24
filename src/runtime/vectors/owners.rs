//! The owners of the rows of a product on vectors, as its plan has them.

use std::sync::Arc;

use super::exchange::{Exchange, OwnedChunk, arrivals, departures, owners_of_ranks};
use super::ranks::{Departure, RankLists, RankRows, Reductions, Span};
use super::row_distribution::{Part, RowDistribution};
use crate::device::completion::{OperationOwner, Timeouts};
use crate::error::{Error, Result};
use crate::plan::{Plan, XPlan};
use crate::runtime::devices::OpenDevice;
use crate::work::ChunkRows;

/// The owners of the rows of X and Y, and the rows that they exchange.
pub struct Owners {
    pub x: Arc<RowDistribution>,
    pub y: Arc<RowDistribution>,
    pub chunks: Vec<OwnedChunk>,
    pub exchange: Exchange,
}

impl Owners {
    /// The owners of Y are those of `y`; `exchange` makes the lists of rows. All ranks of `ranks` call this.
    pub fn new(
        plan: &Plan,
        mut y: RowDistribution,
        ranks: Option<&RankLists>,
        exchange: impl FnOnce(&RowDistribution, &[OwnedChunk]) -> Result<Exchange>,
    ) -> Result<Self> {
        let is_square = ranks.map_or(plan.matrix.rows == plan.matrix.cols, |ranks| ranks.is_square);
        let x_rows = ranks.map_or(plan.matrix.cols, |ranks| ranks.x.rows);
        let mut x = if is_square { y.clone() } else { y.scaled_to(x_rows) };
        let mut sent = Vec::new();
        if let Some(lists) = ranks {
            sent = add_ranks(&mut x, &mut y, lists, plan)?;
        }
        // The rows of Y that the first row of the matrix computes.
        let first_row = if is_square { x.own().start } else { 0 };
        let on_devices = x.on_devices();
        for (part, on_device) in x.parts.iter_mut().zip(on_devices) {
            let columns = match plan.devices.get(part.index).map(|device| device.x) {
                // The host has room for all rows.
                _ if !on_device => 0..plan.matrix.cols,
                Some(XPlan::Columns { first, end }) => first..end,
                Some(XPlan::Nothing) => part.own.clone(),
                Some(XPlan::Whole) => 0..plan.matrix.cols,
                Some(XPlan::Gather { .. }) | None => {
                    return Err(Error::Internal("a plan for vectors gathers rows of X".into()));
                }
            };
            part.held = match part.own.is_empty() {
                true => columns,
                false => part.own.start.min(columns.start)..part.own.end.max(columns.end),
            };
        }
        match is_square {
            true => y = x.clone(),
            false => y.parts.iter_mut().for_each(|part| part.held = part.own.clone()),
        }
        let chunks = owned_chunks(plan, &y, first_row)?;
        let exchange = Exchange { departures: sent, ..exchange(&x, &chunks)? };
        let x = Arc::new(x);
        let y = if is_square { x.clone() } else { Arc::new(y) };
        Ok(Self { x, y, chunks, exchange })
    }
}

/// Numbers the rows of X as the columns of the matrix are numbered, with the rows of other ranks among them. Returns the messages to
/// other ranks.
fn add_ranks(
    x: &mut RowDistribution,
    y: &mut RowDistribution,
    lists: &RankLists,
    plan: &Plan,
) -> Result<Vec<Departure>> {
    let reductions = |distribution: &RowDistribution, span: Span| {
        let rows = distribution.parts.iter().map(|part| part.own.clone());
        let owners = owners_of_ranks(&*lists.communicator, rows, span.first)?;
        Ok(Reductions::new(owners, lists.runtime.clone(), lists.network.clone(), plan))
    };
    let (of_x, of_y) = (reductions(x, lists.x)?, reductions(y, lists.y)?);
    let own = lists.own_columns();
    for part in &mut x.parts {
        part.own = part.own.start + own.start..part.own.end + own.start;
    }
    x.rows = lists.columns();
    let sent = departures(x, lists);
    let arrivals = arrivals(lists, &sent)?;
    let ranks = |own, span, arrivals, reductions| {
        Some(Arc::new(RankRows { communicator: lists.communicator.clone(), own, span, arrivals, reductions }))
    };
    x.ranks = ranks(own, lists.x, arrivals, of_x);
    y.ranks = ranks(0..lists.y.rows, lists.y, Vec::new(), of_y);
    Ok(sent)
}

/// The owners of the chunks. The first row of the matrix computes row `first_row` of Y.
fn owned_chunks(plan: &Plan, y: &RowDistribution, first_row: u64) -> Result<Vec<OwnedChunk>> {
    let owned = |chunk: &crate::plan::Chunk| {
        let owner = y.parts.iter().position(|part| part.index == chunk.home as usize);
        match (owner, chunk.rows) {
            (Some(owner), ChunkRows::Rows { begin, end }) => {
                let rows = begin as u64..end as u64;
                Ok(OwnedChunk { owner, stored: rows.start + first_row..rows.end + first_row, rows })
            }
            _ => Err(Error::Internal("a chunk of a plan for vectors has no owner".into())),
        }
    };
    plan.chunks.iter().map(owned).collect()
}

/// The owners of the rows of Y, whose operations have `timeouts`.
pub fn distribution(
    plan: &Plan,
    timeouts: Timeouts,
    device_of: impl Fn(usize) -> Option<Arc<OpenDevice>>,
) -> Result<RowDistribution> {
    let mut parts: Vec<Part> = Vec::new();
    let mut next = 0;
    for chunk in &plan.chunks {
        let ChunkRows::Rows { begin, end } = chunk.rows else {
            return Err(Error::Internal("a plan for vectors divides a row".into()));
        };
        if begin as u64 != next {
            return Err(Error::Internal("a plan for vectors leaves out rows".into()));
        }
        next = end as u64;
        match parts.last_mut().filter(|part| part.index == chunk.home as usize) {
            Some(part) => part.own.end = next,
            None => {
                let index = chunk.home as usize;
                let device = plan.devices.get(index);
                let device = device.ok_or_else(|| Error::Internal("a chunk has no device".into()))?;
                parts.push(Part {
                    planned: device_of(index),
                    index,
                    own: begin as u64..next,
                    held: 0..0,
                    name: device.name.clone(),
                    stream_gb_per_s: device.profile.stream_gb_per_s,
                    launch_s: device.profile.launch_us * 1e-6,
                    operations: Arc::new(OperationOwner::new(timeouts)),
                });
            }
        }
    }
    Ok(RowDistribution { rows: plan.matrix.rows, parts, ranks: None, machine: None, reading: Arc::default() })
}
