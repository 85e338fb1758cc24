//! Whether messages between ranks may be in the memory of devices: where the communicator says that it takes it, unless the user
//! overrules it. There are MPI libraries that say so and fail, and others that cannot be asked.

use crate::device::network::Communicator;
use crate::error::{Error, Result};

/// The variable with which a user overrules the communicator: 0 or 1.
const VARIABLE: &str = "ROWLOOM_CUDA_AWARE_MPI";

/// Whether messages may be in the memory of devices.
pub(super) fn is_used(ranks: &dyn Communicator) -> Result<bool> {
    let value = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
    Ok(asked_for(value.as_deref())?.unwrap_or_else(|| ranks.takes_device_memory()))
}

fn asked_for(value: Option<&str>) -> Result<Option<bool>> {
    match value {
        None | Some("") => Ok(None),
        Some("0") => Ok(Some(false)),
        Some("1") => Ok(Some(true)),
        Some(other) => {
            let what = "0: messages go through host memory; 1: the MPI library takes device memory";
            Err(Error::usage(format!(
                "{VARIABLE} is 0 or 1, not '{other}' ({what}; without it, the library is asked)"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_overrules_the_communicator_with_0_or_1_and_other_values_are_refused() {
        assert_eq!(asked_for(None).unwrap(), None);
        assert_eq!(asked_for(Some("")).unwrap(), None);
        assert_eq!(asked_for(Some("0")).unwrap(), Some(false));
        assert_eq!(asked_for(Some("1")).unwrap(), Some(true));
        assert_eq!(asked_for(Some("yes")).unwrap_err().exit_code(), 2);
    }
}
