//! The index of the collection: `ssstats.csv`, two lines about itself, then one line per matrix that begins with group and name.

use std::path::Path;

use super::name::MatrixName;
use crate::error::{Error, Place, Result};

/// Lines before the first matrix: their number, and the date.
const HEADING_LINES: usize = 2;

/// The names of all matrices. Lines with a name that cannot be a file are left out.
pub fn read(path: &Path) -> Result<Vec<MatrixName>> {
    let text = std::fs::read(path).map_err(|error| Error::read(path, error))?;
    let text = String::from_utf8_lossy(&text);
    let names = text.lines().skip(HEADING_LINES).filter_map(|line| {
        let mut cells = line.split(',');
        format!("{}/{}", cells.next()?.trim(), cells.next()?.trim()).parse().ok()
    });
    let names: Vec<MatrixName> = names.collect();
    if names.is_empty() {
        return Err(Error::input(Place::file(path), "this is no index of the collection; remove the file"));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_other_files_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ssstats.csv");
        std::fs::write(
            &path,
            "2\n01-Jan-2024\nHB,1138_bus,1138,1138,4054,1,0,0\n../x,y,1\nWilliams,cant,62451,62451\n",
        )
        .unwrap();
        let names: Vec<String> = read(&path).unwrap().iter().map(|name| name.to_string()).collect();
        assert_eq!(names, ["HB/1138_bus", "Williams/cant"]);
        std::fs::write(&path, "<html>").unwrap();
        assert_eq!(read(&path).unwrap_err().exit_code(), 3);
    }
}
