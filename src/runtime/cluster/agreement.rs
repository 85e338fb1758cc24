//! Agreement of all ranks: on errors, and on numbers that every rank needs.
//!
//! Ranks must make the same collective calls, so a step that may fail on some ranks only ends with [`agree`]: after it either all ranks
//! go on or all have an error.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::device::network::Communicator;
use crate::error::{Error, Reason, Result};

/// An error of a rank on its way to the others.
#[derive(serde::Serialize, serde::Deserialize)]
struct Failure {
    exit_code: u8,
    reason: Reason,
    /// Whether it names a rank already.
    names_rank: bool,
}

/// `result` if all ranks succeeded. Otherwise all ranks return an error: their own if it is the same on all ranks, else that of the
/// first rank that has one, with its number and host.
pub fn agree<R>(ranks: &dyn Communicator, result: Result<R>) -> Result<R> {
    let own = result.as_ref().err().map(|error| Failure {
        exit_code: error.exit_code(),
        reason: error.as_reason(),
        names_rank: matches!(error, Error::Rank { .. }),
    });
    let all: Vec<Option<Failure>> = share(ranks, &own)?;
    let first = all.iter().enumerate().find_map(|(rank, failure)| Some((rank, failure.as_ref()?)));
    match (first, result) {
        (None, result) => result,
        (Some((_, first)), Err(error))
            if first.names_rank
                || all
                    .iter()
                    .all(|other| other.as_ref().is_some_and(|other| other.reason == first.reason)) =>
        {
            Err(error)
        }
        (Some((rank, first)), _) => {
            let host = ranks.hosts().get(rank).cloned().unwrap_or_default();
            Err(Error::Rank { rank, host, reason: first.reason.clone(), exit_code: first.exit_code })
        }
    }
}

/// For each rank the value that it gave.
pub fn share<V: Serialize + DeserializeOwned>(ranks: &dyn Communicator, value: &V) -> Result<Vec<V>> {
    let bytes = serde_json::to_vec(value).map_err(|error| Error::Internal(error.to_string()))?;
    let all = ranks.all_gather(&bytes)?;
    let parse = |(rank, bytes): (usize, &Vec<u8>)| {
        serde_json::from_slice(bytes).map_err(|error| {
            ranks.rank_error(
                rank,
                format!("its message cannot be read: {error}; do all ranks run the same program?"),
            )
        })
    };
    all.iter().enumerate().map(parse).collect()
}

/// For each rank the numbers that it gave.
pub fn share_numbers(ranks: &dyn Communicator, numbers: &[u64]) -> Result<Vec<Vec<u64>>> {
    let all = ranks.all_gather(bytemuck::cast_slice(numbers))?;
    Ok(all.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect())
}

/// The sum of the numbers that the ranks gave.
pub fn sum(ranks: &dyn Communicator, number: u64) -> Result<u64> {
    Ok(share_numbers(ranks, &[number])?.iter().flatten().sum())
}
