//! Block barriers and warp operations as plain data: which threads wait, which can continue, and with which result.
//!
//! This is stricter than a GPU, where threads that have returned count as arrived. Such a kernel works on a GPU until it
//! is launched with another shape; here it is reported.

use super::fault::FaultCause;

/// Lanes of a warp.
pub const LANES: usize = 32;

/// A warp operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarpKind {
    /// `__syncwarp`.
    Sync,
    /// `__shfl_sync`.
    Shuffle,
    /// `__shfl_up_sync`.
    ShuffleUp,
    /// `__shfl_down_sync`.
    ShuffleDown,
    /// `__shfl_xor_sync`.
    ShuffleXor,
    /// `__ballot_sync`, and through it `__any_sync` and `__all_sync`.
    Ballot,
}

impl WarpKind {
    /// The kind with number `number`, as in the header.
    pub fn by_number(number: u32) -> Self {
        match number {
            0 => Self::Sync,
            1 => Self::Shuffle,
            2 => Self::ShuffleUp,
            3 => Self::ShuffleDown,
            4 => Self::ShuffleXor,
            _ => Self::Ballot,
        }
    }

    /// Its name in CUDA.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "__syncwarp",
            Self::Shuffle => "__shfl_sync",
            Self::ShuffleUp => "__shfl_up_sync",
            Self::ShuffleDown => "__shfl_down_sync",
            Self::ShuffleXor => "__shfl_xor_sync",
            Self::Ballot => "__ballot_sync or another vote",
        }
    }
}

/// One lane's call of a warp operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarpCall {
    /// The operation.
    pub kind: WarpKind,
    /// The participating lanes, one bit each.
    pub mask: u32,
    /// The line in the source.
    pub line: u32,
    /// The lane's operand.
    pub value: u64,
    /// The source lane of a shuffle, or its distance.
    pub from: u32,
    /// Lanes per shuffle group.
    pub width: u32,
}

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has not started, or can continue.
    Ready,
    /// It waits at a block barrier.
    Barrier {
        /// The line in the source.
        line: u32,
    },
    /// It waits for other lanes of its warp.
    Warp(WarpCall),
    /// It has returned.
    Done,
}

/// Makes the lanes of every complete warp operation ready and sets their results. Returns whether any became ready.
pub fn release_warp(lanes: &mut [State], answers: &mut [u64]) -> Result<bool, (usize, FaultCause)> {
    let mut released = false;
    for lane in 0..lanes.len() {
        let State::Warp(call) = lanes[lane] else { continue };
        let existing = call.mask & mask_of(lanes.len());
        if existing & (1 << lane) == 0 {
            let lane_number = lane as u32;
            let cause =
                FaultCause::AbsentLane { operation: call.kind.name(), line: call.line, lane: lane_number };
            return Err((lane, cause));
        }
        let part_of_group = |state: &State| matches!(state, State::Warp(other) if other.kind == call.kind && other.mask == call.mask);
        let arrived = mask_where(lanes, part_of_group) & existing;
        if arrived != existing {
            continue;
        }
        let calls: Vec<Option<WarpCall>> = lanes
            .iter()
            .enumerate()
            .map(|(other, state)| match state {
                State::Warp(call) if existing & (1 << other) != 0 => Some(*call),
                _ => None,
            })
            .collect();
        for (other, call) in calls.iter().enumerate() {
            let Some(call) = call else { continue };
            answers[other] = answer(other, call, &calls).map_err(|cause| (other, cause))?;
            lanes[other] = State::Ready;
        }
        released = true;
    }
    Ok(released)
}

/// The fault of a warp in which a lane waits for lanes that never arrive.
pub fn stuck_warp(lanes: &[State]) -> Option<(usize, FaultCause)> {
    let (lane, call) = lanes.iter().enumerate().find_map(|(lane, state)| match state {
        State::Warp(call) => Some((lane, *call)),
        _ => None,
    })?;
    let there = mask_where(
        lanes,
        |state| matches!(state, State::Warp(other) if other.kind == call.kind && other.mask == call.mask),
    );
    let absent = call.mask & mask_of(lanes.len()) & !there;
    Some((lane, FaultCause::Lanes { operation: call.kind.name(), line: call.line, absent }))
}

/// The state of a block when no warp can continue on its own.
pub enum Block {
    /// All threads have returned.
    Done,
    /// All threads wait at the same barrier.
    AtBarrier,
    /// Some threads never reach the barrier.
    Diverged {
        /// A thread that waits.
        waiting: usize,
        /// Number of threads that wait there.
        count: usize,
        /// The line of the barrier.
        line: u32,
        /// A thread that does not wait there.
        absent: usize,
        /// The line of the barrier where it waits; `None` if it has returned.
        absent_line: Option<u32>,
    },
}

/// The state of a block whose threads have all returned or wait at a barrier.
pub fn block_state(threads: &[State]) -> Block {
    let waits = |state: &State| match state {
        State::Barrier { line } => Some(*line),
        _ => None,
    };
    let Some((waiting, line)) = threads.iter().enumerate().find_map(|(t, state)| Some((t, waits(state)?)))
    else {
        return Block::Done;
    };
    match threads.iter().enumerate().find(|(_, state)| waits(state) != Some(line)) {
        None => Block::AtBarrier,
        Some((absent, state)) => {
            let count = threads.iter().filter(|state| waits(state) == Some(line)).count();
            Block::Diverged { waiting, count, line, absent, absent_line: waits(state) }
        }
    }
}

fn mask_of(lanes: usize) -> u32 {
    if lanes >= LANES { u32::MAX } else { (1 << lanes) - 1 }
}

fn mask_where(lanes: &[State], holds: impl Fn(&State) -> bool) -> u32 {
    lanes.iter().enumerate().filter(|(_, state)| holds(state)).fold(0, |mask, (lane, _)| mask | 1 << lane)
}

/// The result of a warp operation for `lane`; `calls` are the participating calls.
fn answer(lane: usize, call: &WarpCall, calls: &[Option<WarpCall>]) -> Result<u64, FaultCause> {
    let width = call.width.clamp(1, LANES as u32) as usize;
    let group = lane - lane % width;
    let from = call.from as usize;
    // A shuffle from outside the lane's group returns the lane's own value.
    let source = match call.kind {
        WarpKind::Sync => return Ok(0),
        WarpKind::Ballot => {
            let votes =
                calls.iter().enumerate().filter(|(_, other)| other.is_some_and(|other| other.value != 0));
            return Ok(votes.fold(0, |ballot, (other, _)| ballot | 1 << other));
        }
        WarpKind::Shuffle => group + from % width,
        WarpKind::ShuffleUp => lane.checked_sub(from).filter(|source| *source >= group).unwrap_or(lane),
        WarpKind::ShuffleDown => {
            lane.checked_add(from).filter(|source| *source < group + width).unwrap_or(lane)
        }
        WarpKind::ShuffleXor => Some(lane ^ from).filter(|source| *source < group + width).unwrap_or(lane),
    };
    match calls.get(source) {
        Some(Some(other)) => Ok(other.value),
        _ => {
            Err(FaultCause::AbsentLane { operation: call.kind.name(), line: call.line, lane: source as u32 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(kind: WarpKind, mask: u32, value: u64, from: u32, width: u32) -> State {
        State::Warp(WarpCall { kind, mask, line: 1, value, from, width })
    }

    fn answers_of(kind: WarpKind, from: u32, width: u32) -> Vec<u64> {
        let mut lanes: Vec<State> =
            (0..32).map(|lane| call(kind, u32::MAX, 100 + lane, from, width)).collect();
        let mut answers = vec![0; 32];
        assert!(release_warp(&mut lanes, &mut answers).unwrap());
        assert!(lanes.iter().all(|state| *state == State::Ready));
        answers
    }

    #[test]
    fn shuffles_read_from_the_lane_that_cuda_specifies() {
        let from = |kind, from, width| -> Vec<u64> {
            answers_of(kind, from, width).iter().map(|a| a - 100).collect()
        };
        assert_eq!(from(WarpKind::Shuffle, 5, 32), vec![5; 32]);
        assert_eq!(from(WarpKind::Shuffle, 9, 8)[..17], [1, 1, 1, 1, 1, 1, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9, 17]);
        assert_eq!(from(WarpKind::ShuffleDown, 16, 32)[14..18], [30, 31, 16, 17]);
        assert_eq!(from(WarpKind::ShuffleDown, 1, 4)[..5], [1, 2, 3, 3, 5]);
        assert_eq!(from(WarpKind::ShuffleUp, 2, 32)[..4], [0, 1, 0, 1]);
        assert_eq!(from(WarpKind::ShuffleXor, 1, 32)[..4], [1, 0, 3, 2]);
    }

    #[test]
    fn lanes_with_different_masks_synchronise_separately() {
        let mut lanes: Vec<State> = (0..32)
            .map(|lane| {
                let mask = if lane % 2 == 0 { 0x5555_5555 } else { 0xaaaa_aaaa };
                call(WarpKind::Ballot, mask, u64::from(lane < 4), 0, 32)
            })
            .collect();
        let mut answers = vec![0; 32];
        assert!(release_warp(&mut lanes, &mut answers).unwrap());
        assert_eq!((answers[0], answers[1]), (0b0101, 0b1010));
    }

    #[test]
    fn a_lane_of_the_mask_that_returned_is_reported() {
        let mut lanes = vec![call(WarpKind::ShuffleDown, u32::MAX, 1, 1, 32); 32];
        lanes[7] = State::Done;
        let mut answers = vec![0; 32];
        assert_eq!(release_warp(&mut lanes, &mut answers), Ok(false));
        let (lane, cause) = stuck_warp(&lanes).unwrap();
        assert_eq!(lane, 0);
        assert_eq!(cause, FaultCause::Lanes { operation: "__shfl_down_sync", line: 1, absent: 1 << 7 });
    }

    #[test]
    fn a_shuffle_from_a_lane_outside_the_mask_is_refused() {
        let mut lanes = vec![State::Done; 32];
        lanes[..4].fill(call(WarpKind::Shuffle, 0b1111, 1, 9, 32));
        let mut answers = vec![0; 32];
        let (_, cause) = release_warp(&mut lanes, &mut answers).unwrap_err();
        assert_eq!(cause, FaultCause::AbsentLane { operation: "__shfl_sync", line: 1, lane: 9 });
    }
}
