//! The name of a matrix in the collection.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Most characters of a group or a name.
const MAX_CHARACTERS: usize = 100;

/// Group and name of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatrixName {
    /// The group, such as `HB`.
    pub group: String,
    /// The name, such as `bcsstk01`.
    pub name: String,
}

/// An error unless `part` can be a group or a name: a file of that name stays inside its folder.
pub fn check_part(part: &str) -> Result<()> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    let valid = !part.is_empty()
        && part.len() <= MAX_CHARACTERS
        && !part.starts_with('.')
        && part.chars().all(is_known);
    if valid {
        return Ok(());
    }
    Err(Error::usage(format!(
        "'{}' is no name of a group or a matrix of the collection; names have letters, digits, '_', '-', '.' and '+'",
        part.escape_debug()
    )))
}

impl FromStr for MatrixName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (group, name) = text.split_once('/').ok_or_else(|| {
            Error::usage(format!(
                "'{}' has no group; write GROUP/NAME, as in HB/bcsstk01",
                text.escape_debug()
            ))
        })?;
        check_part(group)?;
        check_part(name)?;
        Ok(Self { group: group.into(), name: name.into() })
    }
}

impl fmt::Display for MatrixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_their_folder_are_refused() {
        for name in ["HB/bcsstk01", "Williams/cant", "GHS_psdef/af_0_k101", "vanHeukelum/cage12"] {
            assert_eq!(name.parse::<MatrixName>().unwrap().to_string(), name);
        }
        for name in
            ["", "a", "/a", "a/", "../a", "a/..", "a/b/c", "a/b c", "a/.b", "a\\b/c", "ä/b", "a/b\n", "a/%2e"]
        {
            assert_eq!(name.parse::<MatrixName>().unwrap_err().exit_code(), 2, "{name:?}");
        }
        assert!(format!("a/{}", "b".repeat(101)).parse::<MatrixName>().is_err());
    }
}
