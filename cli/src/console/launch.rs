//! Whether an MPI launcher started this process, and as which rank.
//!
//! Launchers say so in the environment, before MPI is initialised: so a build without MPI can refuse, and of several processes only one
//! prints.

use crate::args::Command;
use rowloom::internal::error::{Error, Result};

/// The place of this process in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpiLaunch {
    /// The number of this process.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
}

/// Variables with the rank and with the number of ranks: of Open MPI, of MPICH and Intel MPI, and of Slurm with PMIx.
const VARIABLES: [[&str; 2]; 3] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["PMIX_RANK", "SLURM_NTASKS"],
];

impl MpiLaunch {
    /// As the environment says; `None` if no launcher started this process.
    pub fn detect() -> Option<Self> {
        Self::from(|name| std::env::var(name).ok())
    }

    /// As the variables of a process say.
    fn from(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        VARIABLES.iter().find_map(|[rank, size]| {
            let rank = variable(rank)?.trim().parse().ok()?;
            let size = variable(size)?.trim().parse().ok()?;
            (rank < size).then_some(Self { rank, size })
        })
    }

    /// Whether this process prints nothing, since rank 0 prints for all.
    pub fn is_silent() -> bool {
        Self::detect().is_some_and(|launch| launch.rank > 0)
    }

    /// An error for a command that several processes would only do several times.
    pub fn check(self, command: &Command) -> Result<()> {
        match command {
            _ if self.size == 1 => Ok(()),
            Command::Run(_) if cfg!(feature = "mpi") => Ok(()),
            Command::Run(_) => Err(Error::usage(format!(
                "{} ranks were started, but this build has no MPI; {HOW_TO_BUILD}",
                self.size
            ))),
            _ => Err(Error::usage(format!(
                "rowloom {} runs in one process, but {} were started; only rowloom run works over several ranks",
                command.name(),
                self.size
            ))),
        }
    }
}

/// How to get a build with MPI.
pub const HOW_TO_BUILD: &str =
    "build it with `cargo build --release --features mpi` (needs libopenmpi-dev and libclang-dev)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_found_in_the_variables_of_each_launcher() {
        let with = |pairs: &'static [(&str, &str)]| {
            MpiLaunch::from(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
            })
        };
        assert_eq!(with(&[]), None);
        assert_eq!(
            with(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")]),
            Some(MpiLaunch { rank: 2, size: 4 })
        );
        assert_eq!(with(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), Some(MpiLaunch { rank: 0, size: 1 }));
        assert_eq!(with(&[("PMIX_RANK", "1"), ("SLURM_NTASKS", "2")]), Some(MpiLaunch { rank: 1, size: 2 }));
        // A batch script that Slurm started is no rank.
        assert_eq!(with(&[("SLURM_NTASKS", "2")]), None);
        assert_eq!(with(&[("PMI_RANK", "4"), ("PMI_SIZE", "x")]), None);
    }
}
