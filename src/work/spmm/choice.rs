//! The choice of a kernel for some rows of a sparse matrix.

use super::columns::columns_ascend;
use super::cost::choose_candidate;
use super::{Features, Spmm};
use crate::cost::{Candidate, Choice, Profile};
use crate::error::{Error, Result};
use crate::kernel::cuda::Layout;
use crate::work::{ChunkRows, Forms};

/// The form for a piece with these features on `device`.
pub(super) fn choose(
    work: &Spmm<'_>,
    device: &Profile,
    piece: &ChunkRows,
    features: &Features,
    forms: &Forms,
) -> Result<Choice> {
    let (candidates, k, dtype) = (forms.of(device.processor), work.k() as u64, work.dtype());
    let chosen = |groups: bool| {
        let usable =
            candidates.iter().filter(|candidate| groups || candidate.form.layout() != Layout::RowGroups);
        choose_candidate(device, features, k, dtype, usable.copied())
    };
    let all = chosen(true);
    // Row groups need ascending columns; the check is made only where they would be chosen.
    let grouped = all.as_ref().is_some_and(|choice| choice.form.layout() == Layout::RowGroups);
    let choice =
        if grouped && !forms.is_requested && !columns_ascend(work, piece) { chosen(false) } else { all };
    match (choice, candidates.first()) {
        (Some(choice), _) if forms.is_requested => {
            Ok(Choice { reason: format!("{}; as requested", choice.reason), ..choice })
        }
        (Some(choice), _) => Ok(choice),
        // A requested kernel that does not support these rows reports that itself.
        (None, Some(&Candidate { form, .. })) => {
            let predicted_s = device.form_s(&form, features, k, dtype);
            Ok(Choice { form, predicted_s, reason: form.kernel.info().summary.into() })
        }
        (None, None) => Err(Error::Internal("there is no kernel to choose from".into())),
    }
}
