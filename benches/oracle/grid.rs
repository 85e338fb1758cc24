//! A dense multivector with guard elements before, after and between its rows.

use rowloom::internal::matrix::{MultiVectorView, MultiVectorViewMut, Scalar};

use crate::random::Random;
use crate::reference::Real;

/// Where the elements of X and Y are in their buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Elements before the first row.
    pub before: usize,
    /// Elements between two rows.
    pub gap: usize,
}

impl Placement {
    pub const PACKED: Self = Self { before: 0, gap: 0 };

    pub fn draw(random: &mut Random) -> Self {
        let before = if random.one_in(2) { 0 } else { random.within(1, 9) };
        let gap = random.weighted(&[(0, 4), (1, 1), (2, 1), (3, 1), (5, 1), (8, 1), (17, 1), (64, 1)]);
        Self { before, gap }
    }

    pub fn simpler(self) -> Vec<Self> {
        let simpler = [Self::PACKED, Self { before: 0, ..self }, Self { gap: 0, ..self }];
        simpler.into_iter().filter(|other| *other != self).collect()
    }
}

/// Guard elements behind the last row, one vector register of the widest instruction set.
const AFTER: usize = 16;

pub struct Grid<T> {
    data: Vec<T>,
    placement: Placement,
    rows: usize,
    k: usize,
}

impl<T: Real + Scalar> Grid<T> {
    pub fn new(
        rows: usize,
        k: usize,
        placement: Placement,
        mut element: impl FnMut(usize, usize) -> T,
    ) -> Self {
        let pitch = k + placement.gap;
        let mut data = vec![T::GUARD; placement.before + rows * pitch + AFTER];
        for row in 0..rows {
            for (column, value) in data[placement.before + row * pitch..][..k].iter_mut().enumerate() {
                *value = element(row, column);
            }
        }
        Self { data, placement, rows, k }
    }

    /// The columns from `first` on of a packed multivector with `all` columns.
    pub fn of_columns(
        values: &[f64],
        all: usize,
        rows: usize,
        first: usize,
        k: usize,
        at: Placement,
    ) -> Self {
        Self::new(rows, k, at, |row, column| <T as Real>::rounded(values[row * all + first + column]))
    }

    fn pitch(&self) -> usize {
        self.k + self.placement.gap
    }

    /// The elements of the view, which end with the last row.
    fn extent(&self) -> std::ops::Range<usize> {
        let length = if self.rows == 0 { 0 } else { (self.rows - 1) * self.pitch() + self.k };
        self.placement.before..self.placement.before + length
    }

    pub fn view(&self) -> rowloom::Result<MultiVectorView<'_, T>> {
        MultiVectorView::try_new(&self.data[self.extent()], self.rows, self.k, self.pitch())
    }

    pub fn view_mut(&mut self) -> rowloom::Result<MultiVectorViewMut<'_, T>> {
        let (extent, pitch) = (self.extent(), self.pitch());
        MultiVectorViewMut::try_new(&mut self.data[extent], self.rows, self.k, pitch)
    }

    /// All elements, of a grid without gaps.
    pub fn packed(&self) -> &[T] {
        &self.data[self.extent()]
    }

    pub fn packed_mut(&mut self) -> &mut [T] {
        let extent = self.extent();
        &mut self.data[extent]
    }

    pub fn row(&self, row: usize) -> &[T] {
        &self.data[self.placement.before + row * self.pitch()..][..self.k]
    }

    /// An error if a guard was overwritten.
    pub fn check_guards(&self, name: &str) -> Result<(), String> {
        let guard = T::GUARD.word();
        let (before, pitch) = (self.placement.before, self.pitch());
        let intact = |part: &[T]| part.iter().all(|value| value.word() == guard);
        if !intact(&self.data[..before]) {
            return Err(format!("elements before {name} were written"));
        }
        for row in 0..self.rows {
            if !intact(&self.data[before + row * pitch + self.k..before + (row + 1) * pitch]) {
                return Err(format!("elements after row {row} of {name} were written"));
            }
        }
        match intact(&self.data[before + self.rows * pitch..]) {
            true => Ok(()),
            false => Err(format!("elements after {name} were written")),
        }
    }
}
