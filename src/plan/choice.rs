//! The choice of a chunk's kernels.

use super::draft::Draft;
use super::kernels::ChunkKernels;
use crate::cost::{Choice, Profile};
use crate::error::{Error, Result};
use crate::kernel::Processor;
use crate::kernel::cuda::Layout;
use crate::work::spmm::columns::columns_ascend;
use crate::work::spmm::cost::{Candidate, choose_candidate};
use crate::work::{ChunkRows, Features};

impl Draft<'_> {
    /// The form for a piece with these features on `device`.
    pub fn choice(&self, device: &Profile, piece: &ChunkRows, features: &Features) -> Result<Choice> {
        let work = &self.request.work;
        let of_gpu = device.processor == Processor::Gpu;
        let forms = if of_gpu { &self.forms.gpu } else { &self.forms.cpu };
        let chosen = |groups: bool| {
            let usable =
                forms.iter().filter(|candidate| groups || candidate.form.layout() != Layout::RowGroups);
            choose_candidate(device, features, work.k() as u64, work.dtype(), usable.copied())
        };
        let all = chosen(true);
        // Row groups need ascending columns; the check is made only where they would be chosen.
        let grouped = all.as_ref().is_some_and(|choice| choice.form.layout() == Layout::RowGroups);
        let choice = if grouped && self.request.kernel.is_none() && !columns_ascend(work, piece) {
            chosen(false)
        } else {
            all
        };
        match (choice, forms.first()) {
            (Some(choice), _) => Ok(choice),
            // A requested kernel that does not support these rows reports that itself.
            (None, Some(&Candidate { form, .. })) => {
                let predicted_s = device.form_s(&form, features, work.k() as u64, work.dtype());
                Ok(Choice { form, predicted_s, reason: form.kernel.info().summary.into() })
            }
            (None, None) => Err(Error::Internal("there is no kernel to choose from".into())),
        }
    }

    /// The kernels for a piece of `home`, on that device and on the others.
    pub fn chunk_kernels(
        &self,
        home: Option<&Profile>,
        piece: &ChunkRows,
        features: &Features,
    ) -> Result<ChunkKernels> {
        let profiles = || self.devices.iter().map(|device| &device.profile);
        let on_gpu = home.into_iter().chain(profiles()).find(|profile| profile.link.is_some());
        let on_cpu = profiles().find(|profile| profile.link.is_none()).unwrap_or(self.host_profile);
        let cpu = self.choice(on_cpu, piece, features)?;
        let gpu = match on_gpu {
            Some(profile) => self.choice(profile, piece, features)?,
            None => {
                let form = self.forms.gpu.first().map_or(cpu.form, |candidate| candidate.form);
                Choice { form, ..cpu.clone() }
            }
        };
        let at_home = if home.is_some_and(|home| home.link.is_some()) { &gpu } else { &cpu };
        let (home_s, reason) = (at_home.predicted_s, at_home.reason.clone());
        Ok(ChunkKernels { cpu: cpu.form, gpu: gpu.form, reason, home_s })
    }
}
