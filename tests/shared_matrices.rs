//! Real matrices of the SuiteSparse collection, where they are at hand: read with the numbers that are known of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rowloom::matrix::io::{ReadOptions, read};

#[test]
fn every_matrix_has_the_nonzeros_its_table_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/matrices");
    let Ok(table) = fs::read_to_string(folder.join("README.md")) else {
        println!("skipped: no matrices in {}", folder.display());
        return;
    };
    let mut lines = table.lines().filter(|line| line.starts_with('|'));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let titles = cells(lines.next().unwrap());
    let (mut checked, mut refused) = (0, 0);
    for line in lines.skip(1) {
        let row: BTreeMap<String, String> = titles.iter().cloned().zip(cells(line)).collect();
        let number = |title: &str| row[title].replace(',', "").parse::<usize>().unwrap();
        let path = folder.join(format!("{}.mtx.gz", row["name"]));
        let outcome = read::<f64>(&path, &ReadOptions::default());
        if row["field"] == "complex" {
            let message = outcome.map(|_| ()).unwrap_err().to_string();
            assert!(
                message.contains("unsupported: field 'complex'") && message.contains("real"),
                "{message}"
            );
            refused += 1;
            continue;
        }
        let loaded = outcome.unwrap();
        let view = loaded.matrix.view();
        let name = &row["name"];
        assert_eq!((view.rows(), view.cols()), (number("rows"), number("cols")), "{name}");
        assert_eq!(view.nnz(), number("expanded nonzeros"), "{name}");
        assert_eq!(loaded.info.stored_entries as usize, number("stored entries"), "{name}");
        assert_eq!(
            view.values().iter().filter(|value| **value == 0.0).count(),
            number("explicit zeros"),
            "{name}"
        );
        let lengths = || (0..view.rows()).map(|row| view.row_length(row));
        assert_eq!(lengths().max(), Some(number("nnz/row max")), "{name}");
        assert_eq!(lengths().filter(|length| *length == 0).count(), number("empty rows"), "{name}");
        assert_eq!(serde_json::to_value(loaded.info.field).unwrap(), row["field"], "{name}");
        assert_eq!(serde_json::to_value(loaded.info.symmetry).unwrap(), row["symmetry"], "{name}");
        assert_eq!(&loaded.info.name, name);
        let ascending = |row| view.row(row).0.is_sorted_by(|left, right| left < right);
        assert!((0..view.rows()).all(ascending), "{name}");
        checked += 1;
    }
    assert_eq!((checked, refused), (48, 3));
}
