//! The kernels against obvious loops, bit for bit.
//!
//! Cases are drawn with weight on the edges of segments, spans, registers and blocks. X, Y and the arrays of A lie between guard
//! pages, unused elements are NaN, and the whole buffer of Y is compared, so that a wrong access or a missing store is an error.
//!
//! `ROWLOOM_TEST_ISA=avx2` restricts the tests to an instruction set, `ROWLOOM_TEST_DRAWS=20` draws twenty times as many cases, and
//! `ROWLOOM_TEST_SEED=7` draws other ones.

mod blocks;
mod case;
mod columns;
mod draw;
mod guarded;
mod instruction_sets;
mod multivectors;
mod numbers;
mod real;
mod reference;
mod row_sums;
mod rows;
mod scaling;
mod select;
mod weighted_sums;
