//! The plan of products on vectors that stay on devices.

use std::time::Instant;

use super::{Adaptation, OPENING_SECONDS};
use crate::adapt::ResolvedDevices;
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::Processor;
use crate::kernel::cpu::Kernels;
use crate::plan::{Mode, make};
use crate::runtime::Check;
use crate::runtime::spmm::{PreparedProduct, Settings};
use crate::runtime::vectors::VectorProduct;

/// Products that are expected of vectors on devices where the caller does not say: they are made for iterations.
const EXPECTED_USES_OF_VECTORS: u64 = 100;

impl<'a, T: Kernels> Adaptation<'a, T> {
    /// The product on vectors that stay on devices: A is resident, one chunk per device, no row is divided. For `auto` the
    /// processors with the least total time compute it alone: together they would exchange rows over the link with each product.
    pub fn vector_product(&mut self) -> Result<VectorProduct<'a, T>> {
        let start = Instant::now();
        let rates = self.vector_rates()?;
        let view = self.matrix.view();
        let mut request = self.request(&view, &rates, None)?;
        request.mode = Some(Mode::Resident);
        request.chunks = Some(rates.devices.len());
        (request.chunk_bytes, request.always_register) = (None, true);
        (request.vectors_change, request.vectors_stay) = (false, true);
        for link in request.devices.iter_mut().filter_map(|device| device.profile.link.as_mut()) {
            // X and Y do not cross with each product, so the links do not count in the shares.
            (link.to_device_gb_per_s, link.from_device_gb_per_s) = (f64::from(1 << 20), f64::from(1 << 20));
        }
        let runtime = self.runtime.clone();
        let mut plan = runtime.pool().install(|| make(&request))?;
        for device in plan.devices.iter_mut() {
            let of = rates.devices.iter().find(|of| of.name == device.name);
            of.into_iter().for_each(|of| device.profile.link.clone_from(&of.profile.link));
        }
        self.plan_s += start.elapsed().as_secs_f64();
        for chunk in plan.chunks.iter().filter(|chunk| chunk.home != DeviceId::HOST.0) {
            let form = chunk.form(Processor::Gpu);
            if form.transposes_x() {
                return Err(Error::usage(format!(
                    "kernel {} reads X by columns, and vectors on devices are stored by rows; use another kernel",
                    form.name()
                )));
            }
        }
        if self.ranks.is_some() && plan.devices.iter().any(|device| device.name.starts_with("sim:")) {
            return Err(Error::usage("ranks cannot compute on simulated devices"));
        }
        let product = match plan.devices.iter().any(|device| device.name.starts_with("sim:")) {
            true => VectorProduct::simulated(&runtime, plan, &view)?,
            false => {
                // Products on vectors have checks of their own.
                let settings = Settings { check: Check::Never, ..self.settings() };
                let prepared =
                    PreparedProduct::of_request(&runtime, &self.matrix, request, Some(plan), &settings)?;
                self.plan_s += prepared.plan_s();
                VectorProduct::new(&runtime, prepared, self.ranks.clone(), self.options.check)?
            }
        };
        self.prepare_s += start.elapsed().as_secs_f64();
        Ok(product)
    }

    /// The devices of the product on vectors.
    fn vector_rates(&mut self) -> Result<ResolvedDevices> {
        if self.given.is_some() {
            return Err(Error::usage("a product with a given plan has no vectors on devices"));
        }
        if let Some(rates) = self.rates.as_ref().filter(|_| self.cpu_rates.is_none()) {
            return Ok(rates.clone());
        }
        let cpu = self.cpu_rates.clone().ok_or_else(|| Error::Internal("a product has no devices".into()))?;
        let uses = self.options.uses.unwrap_or(EXPECTED_USES_OF_VECTORS) as f64;
        let cpu_s = uses * self.first_plan.predicted_s;
        if cpu_s < OPENING_SECONDS {
            return Ok(cpu);
        }
        self.runtime.start_probe();
        self.runtime.wait_for_probe();
        if self.runtime.probe_result() != Some(Ok(())) {
            return Ok(cpu);
        }
        let all = self.runtime.resolve(&self.options)?;
        let gpus = all.devices.iter().filter(|device| device.profile.processor == Processor::Gpu);
        let gpus = ResolvedDevices { devices: gpus.cloned().collect(), ..all.clone() };
        let plan = self.plan_with(&gpus, None)?;
        let kernel_s: f64 = plan
            .chunks
            .iter()
            .filter_map(|chunk| {
                let profile = &plan.devices.get(chunk.home as usize)?.profile;
                Some(chunk.kernel_s(profile, plan.k, plan.dtype))
            })
            .sum();
        let gpu_s = plan.set_up.bring_a_s + uses * kernel_s / gpus.devices.len().max(1) as f64;
        Ok(if gpu_s < cpu_s { gpus } else { cpu })
    }
}
