//! What a CUDA device is told when it is opened: the fault to provoke, for tests of what a fault does to a run.

use crate::error::{Error, Result};

/// What a CUDA device is to be like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CudaOptions {
    /// The launch, counted from one, in whose place a kernel writes where nothing is.
    pub illegal_address_at_launch: Option<u64>,
}

const KEY: &str = "illegal_address_at_launch";

impl CudaOptions {
    /// Options from the `key=value` pairs behind the question mark of a device's word.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self> {
        let mut options = Self::default();
        for (key, value) in pairs {
            if key != KEY {
                return Err(Error::Usage(format!("a CUDA device knows no '{key}'; it knows {KEY}")));
            }
            options.illegal_address_at_launch = match value.parse() {
                Ok(launch @ 1..) => Some(launch),
                _ => return Err(Error::Usage(format!("'{KEY}' takes the number of a launch, from 1 on"))),
            };
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_option_is_understood_and_nothing_else_is() {
        let parse = |key: &str, value: &str| CudaOptions::parse(&[(key.into(), value.into())]);
        assert_eq!(CudaOptions::parse(&[]).unwrap(), CudaOptions::default());
        assert_eq!(parse(KEY, "3").unwrap().illegal_address_at_launch, Some(3));
        for (key, value) in [(KEY, "0"), (KEY, ""), (KEY, "x"), ("fail_launch", "3")] {
            assert_eq!(parse(key, value).unwrap_err().exit_code(), 2, "{key}={value}");
        }
    }
}
