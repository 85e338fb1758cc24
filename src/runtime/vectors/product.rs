//! A product on multivectors that stay on its devices: one chunk per device, A resident, and an exchange of rows before it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::exchange::Exchange;
use super::layout::{Layout, Part};
use super::{Vectors, view_rows_mut};
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::cpu::Kernels;
use crate::plan::{Plan, XPlan};
use crate::runtime::Runtime;
use crate::runtime::operation_queue::COMPUTE;
use crate::runtime::spmm::{Prepared, VectorOperands};
use crate::work::{ChunkRows, Work, pitch_bytes};

/// A product on [`Vectors`].
pub(in crate::runtime) struct VectorProduct<'a, T: Kernels> {
    prepared: Prepared<'a, T>,
    runtime: Runtime,
    k: usize,
    /// The owners of the rows of X, and of the rows of Y. A square matrix has the same owners of both.
    x: Arc<Layout>,
    y: Arc<Layout>,
    exchange: Exchange,
}

impl<'a, T: Kernels> VectorProduct<'a, T> {
    /// The product of a prepared resident plan without split rows.
    pub fn new(runtime: &Runtime, prepared: Prepared<'a, T>) -> Result<Self> {
        let plan = prepared.plan();
        let k = plan.k as usize;
        let mut y = layout(plan, &prepared)?;
        let is_square = plan.matrix.rows == plan.matrix.cols;
        let mut x = if is_square { y.clone() } else { y.scaled_to(plan.matrix.cols) };
        for part in x.parts.iter_mut() {
            // The host has room for all rows.
            let columns = match plan.devices.get(part.index).map(|device| device.x) {
                _ if part.device.is_none() => 0..plan.matrix.cols,
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
        let owned: Vec<_> = y.parts.iter().map(|part| part.own.clone()).collect();
        let exchange = {
            let view = prepared.matrix();
            let work = Work::spmm(&view, k)?;
            let value = size_of::<T>() as u64;
            let pitch = pitch_bytes(k as u64 * value) / value;
            let pool = runtime.pool();
            pool.install(|| Exchange::new::<T>(&x, &owned, &work, pitch))?
        };
        let x = Arc::new(x);
        let y = if is_square { x.clone() } else { Arc::new(y) };
        Ok(Self { prepared, runtime: runtime.clone(), k, x, y, exchange })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.prepared.plan()
    }

    /// Rows that cross between owners with every product.
    pub fn exchanged_rows(&self) -> usize {
        self.exchange.rows()
    }

    /// A new Y.
    pub fn y(&self) -> Result<Vectors<T>> {
        Vectors::zeros(&self.y, self.runtime.pool(), self.k)
    }

    /// A new X.
    pub fn x(&self) -> Result<Vectors<T>> {
        Vectors::zeros(&self.x, self.runtime.pool(), self.k)
    }

    /// Y = alpha A X + beta Y. Kernels on devices are queued; the host's part is computed here.
    pub fn apply(&self, alpha: f64, x: &Vectors<T>, beta: f64, y: &mut Vectors<T>) -> Result<()> {
        if !Arc::ptr_eq(&x.layout, &self.x) || !Arc::ptr_eq(&y.layout, &self.y) {
            return Err(Error::Usage(
                "X or Y belongs to another product; use the vectors of this product".into(),
            ));
        }
        if !x.exchanged.load(Ordering::Relaxed) {
            self.exchange.run(x)?;
            x.exchanged.store(true, Ordering::Relaxed);
        }
        y.exchanged.store(false, Ordering::Relaxed);
        let plan = self.prepared.plan();
        for (index, chunk) in plan.chunks.iter().enumerate() {
            let part = self.y.parts.iter().position(|part| part.index == chunk.home as usize);
            let (Some(part), ChunkRows::Rows { begin, end }) = (part, chunk.rows) else {
                return Err(Error::Internal("a chunk of a plan for vectors has no owner".into()));
            };
            let Some(device) = &self.y.parts[part].device else { continue };
            let rows = begin as u64..end as u64;
            let x_part = &self.x.parts[part];
            let first = match plan.devices.get(chunk.home as usize).map(|device| device.x) {
                Some(XPlan::Columns { first, .. }) => first,
                _ => 0,
            };
            let operands = VectorOperands {
                x: x.own_rows(part, first.max(x_part.held.start)..x_part.held.end)?,
                y: y.own_rows(part, rows)?,
                alpha,
                beta,
            };
            let operation = self.prepared.chunk_launch(index, &operands)?;
            let name = self.y.parts[part].name.as_str();
            let queued = device.lock().submit("product", COMPUTE, operation, chunk.predicted_s, &[]);
            queued.map_err(|fault| fault.into_error(name))?;
        }
        for (index, chunk) in plan.chunks.iter().enumerate() {
            let ChunkRows::Rows { begin, end } = chunk.rows else { continue };
            if chunk.home == DeviceId::HOST.0 {
                let part = self.y.owner(begin as u64);
                let (x, mut y) = (x.host_part(part)?, y.host_part(part)?);
                let (x, y) = (x.view(), view_rows_mut(&mut y, begin..end));
                self.prepared.run_on_host(index, alpha, x, beta, y)?;
            }
        }
        Ok(())
    }
}

/// The owners of the rows of Y.
fn layout<T: Kernels>(plan: &Plan, prepared: &Prepared<'_, T>) -> Result<Layout> {
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
                    device: prepared.device(index).cloned(),
                    index,
                    own: begin as u64..next,
                    held: 0..0,
                    name: device.name.clone(),
                    stream_gb_per_s: device.profile.stream_gb_per_s,
                    launch_s: device.profile.launch_us * 1e-6,
                });
            }
        }
    }
    Ok(Layout { rows: plan.matrix.rows, parts })
}
