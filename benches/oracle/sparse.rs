//! A sparse matrix of the oracle, with operations that are written plainly.

use rowloom::Csr;
use rowloom::internal::matrix::Scalar;

use crate::reference::Real;

/// A matrix by rows. Its values are exact in the value type of its case.
#[derive(Debug, Clone)]
pub struct Sparse {
    pub rows: usize,
    pub cols: usize,
    pub pointers: Vec<u64>,
    pub columns: Vec<u32>,
    pub values: Vec<f64>,
}

impl Sparse {
    /// From the columns of each row; all values are 1.
    pub fn from_rows(cols: usize, rows: &[Vec<u32>]) -> Self {
        let mut pointers = vec![0];
        let mut columns = Vec::new();
        for row in rows {
            columns.extend_from_slice(row);
            pointers.push(columns.len() as u64);
        }
        let values = vec![1.0; columns.len()];
        Self { rows: rows.len(), cols, pointers, columns, values }
    }

    pub fn nnz(&self) -> usize {
        self.columns.len()
    }

    pub fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.pointers[row] as usize..self.pointers[row + 1] as usize
    }

    pub fn row(&self, row: usize) -> (&[u32], &[f64]) {
        let range = self.range(row);
        (&self.columns[range.clone()], &self.values[range])
    }

    /// The rows that `keep` accepts.
    pub fn with_rows(&self, keep: impl Fn(usize) -> bool) -> Self {
        self.filtered(|row, _, _| keep(row), &keep, |_| true)
    }

    /// The columns that `keep` accepts, with new numbers.
    pub fn with_columns(&self, keep: impl Fn(usize) -> bool) -> Self {
        self.filtered(|_, column, _| keep(column), |_| true, &keep)
    }

    /// The entries whose number `keep` accepts.
    pub fn with_entries(&self, keep: impl Fn(usize) -> bool) -> Self {
        self.filtered(|_, _, entry| keep(entry), |_| true, |_| true)
    }

    fn filtered(
        &self,
        keep: impl Fn(usize, usize, usize) -> bool,
        keep_row: impl Fn(usize) -> bool,
        keep_column: impl Fn(usize) -> bool,
    ) -> Self {
        let mut new_columns = vec![0u32; self.cols];
        let mut cols = 0;
        for (column, number) in new_columns.iter_mut().enumerate() {
            *number = cols as u32;
            cols += usize::from(keep_column(column));
        }
        let (mut pointers, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in (0..self.rows).filter(|&row| keep_row(row)) {
            for entry in self.range(row) {
                let column = self.columns[entry] as usize;
                if keep(row, column, entry) {
                    columns.push(new_columns[column]);
                    values.push(self.values[entry]);
                }
            }
            pointers.push(columns.len() as u64);
        }
        Self { rows: pointers.len() - 1, cols, pointers, columns, values }
    }

    /// The transpose; entries of a column keep the order of their rows.
    pub fn transposed(&self) -> Self {
        let mut of_columns = vec![Vec::new(); self.cols];
        for row in 0..self.rows {
            let (columns, values) = self.row(row);
            for (&column, &value) in columns.iter().zip(values) {
                of_columns[column as usize].push((row as u32, value));
            }
        }
        let (mut pointers, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for entries in of_columns {
            columns.extend(entries.iter().map(|entry| entry.0));
            values.extend(entries.iter().map(|entry| entry.1));
            pointers.push(columns.len() as u64);
        }
        Self { rows: self.cols, cols: self.rows, pointers, columns, values }
    }

    /// All elements by rows; absent ones are zero, and of several entries in one place the last counts.
    pub fn dense(&self) -> Vec<f64> {
        let mut elements = vec![0.0; self.rows * self.cols];
        for row in 0..self.rows {
            let (columns, values) = self.row(row);
            for (&column, &value) in columns.iter().zip(values) {
                elements[row * self.cols + column as usize] = value;
            }
        }
        elements
    }

    /// The same matrix with an entry in every place.
    pub fn full(&self) -> Self {
        let rows = vec![(0..self.cols as u32).collect::<Vec<u32>>(); self.rows];
        Self { values: self.dense(), ..Self::from_rows(self.cols, &rows) }
    }

    /// The library's matrix.
    pub fn csr<T: Real + Scalar>(&self) -> rowloom::Result<Csr<T>> {
        let values: Vec<T> = self.values.iter().map(|&value| <T as Real>::rounded(value)).collect();
        Csr::try_new(self.rows, self.cols, self.pointers.clone(), self.columns.clone(), values)
    }

    /// A Matrix Market file of this matrix.
    pub fn matrix_market(&self) -> String {
        let mut text = format!(
            "%%MatrixMarket matrix coordinate real general\n{} {} {}\n",
            self.rows,
            self.cols,
            self.nnz()
        );
        for row in 0..self.rows {
            let (columns, values) = self.row(row);
            for (column, value) in columns.iter().zip(values) {
                text += &format!("{} {} {value:?}\n", row + 1, column + 1);
            }
        }
        text
    }
}
