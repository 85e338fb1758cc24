//! Blocks of rows with identical or shifted columns.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rowloom_cpu::{Block, Isa, SHIFTED_ROWS, SlabShape};

use crate::case::{Entries, Layout, Options, Work, check};
use crate::draw::{Draw, draws, draws_for_each_isa, instruction_sets};
use crate::real::Real;
use crate::select::{Slab, lanes};

/// Rows of blocks and single rows between them, which the body must leave alone.
struct Blocks<T> {
    rows: Vec<Vec<(u32, T)>>,
    /// Rows that follow the row before them without a gap.
    joined: Vec<usize>,
    blocks: Vec<Block>,
}

impl<T: Real> Blocks<T> {
    /// `count` blocks, in any order, of the rows that `block` draws.
    fn draw(
        draw: &Draw,
        entries: &Entries<T>,
        first_row: usize,
        count: usize,
        mut block: impl FnMut(&Draw) -> Vec<Vec<(u32, T)>>,
    ) -> Self {
        let mut made = Self { rows: Vec::new(), joined: Vec::new(), blocks: Vec::new() };
        let single = |draw: &Draw| {
            let length = draw.below(4);
            entries.row(draw, length)
        };
        made.rows.extend((0..first_row).map(|_| single(draw)));
        for _ in 0..count {
            if draw.one_in(2) {
                made.rows.push(single(draw));
            }
            let rows = block(draw);
            let leader = made.rows.len();
            made.joined.extend(leader + 1..leader + rows.len());
            made.blocks.push(Block { leader: (leader - first_row) as u32, count: rows.len() as u32 });
            made.rows.extend(rows);
        }
        draw.shuffle(&mut made.blocks);
        made
    }
}

fn check_identical<T: Real>(draw: &Draw, slab: &Slab<T>, lengths: &[usize]) {
    let Some(identical) = slab.bodies.identical else { return };
    let entries = Entries::draw(draw, slab);
    let options = Options::draw(draw);
    let count = draw.below(4);
    let made = Blocks::draw(draw, &entries, options.first_row, count, |draw| {
        let rows =
            if draw.one_in(8) { identical.most_rows } else { 2 + draw.below(3.min(identical.most_rows - 1)) };
        let length = draw.pick(lengths);
        entries.identical_rows(draw, rows, length)
    });
    let layout = (draw.pick(&[Layout::Contiguous, Layout::Gaps]), &made.joined[..]);
    let work = Work::Blocks(&made.blocks);
    check(draw, slab, &entries, &made.rows, layout, &options, identical.body, work);
}

fn check_shifted<T: Real>(isa: Isa, draw: &Draw) {
    // Only narrow slabs have the body.
    let width = 1 + draw.below(if isa == Isa::Portable { 1 } else { 2 * lanes::<T>(isa) });
    let shape = SlabShape { width, packed: draw.one_in(2), uniform: draw.one_in(3) };
    let slab = Slab::<T>::new(isa, shape).expect("narrow slabs have bodies");
    let body = slab.bodies.shifted.expect("narrow slabs have a body for shifted columns");
    let entries = Entries::draw(draw, &slab);
    let options = Options::draw(draw);
    let count = draw.below(4);
    let made = Blocks::draw(draw, &entries, options.first_row, count, |draw| {
        let length = draw.pick(&[0, 1, 2, 3, 17, 127, 128]);
        entries.shifted_rows(draw, SHIFTED_ROWS, length)
    });
    let layout = (draw.pick(&[Layout::Contiguous, Layout::Gaps]), &made.joined[..]);
    check(draw, &slab, &entries, &made.rows, layout, &options, body, Work::Blocks(&made.blocks));
}

/// The last is longer than rows of blocks are, so that the loop over segments has more than two rounds.
const LENGTHS: [usize; 13] = [0, 1, 2, 3, 5, 40, 127, 128, 129, 255, 256, 200, 385];

#[test]
fn blocks_of_identical_rows_are_the_reference() {
    draws_for_each_isa(120, |isa, draw| {
        let slab = Slab::<f64>::draw(draw, isa);
        check_identical(draw, &slab, &LENGTHS);
    });
    draws_for_each_isa(120, |isa, draw| {
        let slab = Slab::<f32>::draw(draw, isa);
        check_identical(draw, &slab, &LENGTHS);
    });
}

#[test]
fn blocks_of_shifted_rows_are_the_reference() {
    draws_for_each_isa(100, check_shifted::<f64>);
    draws_for_each_isa(100, check_shifted::<f32>);
}

/// Every width for which blocks were once left unwritten.
fn check_equal_values_in_wide_slabs<T: Real>() {
    for isa in instruction_sets() {
        for width in 1..=16 * lanes::<T>(isa) {
            let shape = SlabShape { width, packed: true, uniform: true };
            if let Some(slab) = Slab::<T>::new(isa, shape) {
                draws(2, |draw| check_identical(draw, &slab, &[1, 2, 129]));
            }
        }
    }
}

#[test]
fn identical_rows_with_equal_values_are_written_for_every_width() {
    check_equal_values_in_wide_slabs::<f64>();
    check_equal_values_in_wide_slabs::<f32>();
}

/// The body for identical rows with general values, called with a block of `count` rows of one nonzero.
fn run_block_of<T: Real>(slab: &Slab<T>, count: usize) -> Option<std::thread::Result<()>> {
    let body = slab.bodies.identical?.body;
    let draw = &Draw::new(1);
    let entries = Entries::draw(draw, slab);
    let rows = entries.identical_rows(draw, count, 1);
    let blocks = [Block { leader: 0, count: count as u32 }];
    let options = Options { first_row: 0, ..Options::draw(draw) };
    let layout = (Layout::Contiguous, &[][..]);
    Some(catch_unwind(AssertUnwindSafe(|| {
        check(draw, slab, &entries, &rows, layout, &options, body, Work::Blocks(&blocks));
    })))
}

fn check_sizes_without_a_body<T: Real>() {
    for isa in instruction_sets() {
        for registers in 1..=16 {
            let shape = SlabShape { width: registers * lanes::<T>(isa), packed: false, uniform: false };
            let Some(slab) = Slab::<T>::new(isa, shape) else { continue };
            let most_rows = slab.bodies.identical.map_or(0, |identical| identical.most_rows);
            for count in 1..=6 {
                let Some(outcome) = run_block_of(&slab, count) else { continue };
                let is_taken = (2..=most_rows).contains(&count);
                assert_eq!(
                    outcome.is_ok(),
                    is_taken,
                    "{} registers of {}, {count} rows",
                    registers,
                    isa.name()
                );
                let Err(panic) = outcome else { continue };
                let message = panic.downcast::<String>().expect("a message with the size");
                assert!(message.contains(&format!("a block of {count} identical rows")), "{message}");
            }
        }
    }
}

#[test]
fn a_block_of_a_size_without_a_body_panics_and_is_not_left_unwritten() {
    check_sizes_without_a_body::<f64>();
    check_sizes_without_a_body::<f32>();
}
