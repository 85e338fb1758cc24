//! Options of a CUDA device: a fault to inject, for tests of how a run handles it.

use crate::error::{Error, Result};

/// Options of a CUDA device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CudaOptions {
    /// The launch, counted from 1, that is replaced by a kernel that writes to an illegal address.
    pub illegal_address_at_launch: Option<u64>,
}

const KEY: &str = "illegal_address_at_launch";

impl CudaOptions {
    /// Options from the `key=value` pairs after the question mark of a device word.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self> {
        let mut options = Self::default();
        for (key, value) in pairs {
            if key != KEY {
                return Err(Error::Usage(format!(
                    "unknown option '{key}' of a CUDA device; the only option is {KEY}"
                )));
            }
            options.illegal_address_at_launch = match value.parse() {
                Ok(launch @ 1..) => Some(launch),
                _ => {
                    return Err(Error::Usage(format!(
                        "'{KEY}' takes the number of a launch, counted from 1"
                    )));
                }
            };
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_option_is_parsed_and_others_are_refused() {
        let parse = |key: &str, value: &str| CudaOptions::parse(&[(key.into(), value.into())]);
        assert_eq!(CudaOptions::parse(&[]).unwrap(), CudaOptions::default());
        assert_eq!(parse(KEY, "3").unwrap().illegal_address_at_launch, Some(3));
        for (key, value) in [(KEY, "0"), (KEY, ""), (KEY, "x"), ("fail_launch", "3")] {
            assert_eq!(parse(key, value).unwrap_err().exit_code(), 2, "{key}={value}");
        }
    }
}
