//! Barriers and warp operations as plain data: who waits for what, who may go on, and with which answer.
//!
//! Stricter than a GPU, which lets threads that have left the kernel count as arrived: there such a kernel works until
//! it is launched with another shape, here it is reported.

use super::fault::FaultCause;

/// Lanes of a warp.
pub const LANES: usize = 32;

/// What the lanes of a warp do together.
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
    /// The kind with that number, as the header counts them.
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

/// A lane's part in an operation of its warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarpCall {
    /// What they do.
    pub kind: WarpKind,
    /// The lanes that are to take part, one bit each.
    pub mask: u32,
    /// Where in the kernel's text.
    pub line: u32,
    /// What the lane brings.
    pub value: u64,
    /// From which lane, or how far away, a shuffle takes its value.
    pub from: u32,
    /// Lanes of a shuffle's group.
    pub width: u32,
}

/// What a thread is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has not begun, or may go on.
    Ready,
    /// It waits for its block.
    Barrier {
        /// Where in the kernel's text.
        line: u32,
    },
    /// It waits for lanes of its warp.
    Warp(WarpCall),
    /// It has left the kernel.
    Done,
}

/// Lets every group of lanes go on that is complete: those become ready, with their answers. `true` where some did.
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

/// What is wrong with a warp in which some lane waits for others that can never come.
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

/// What a block does once no warp of it can go on by itself.
pub enum Block {
    /// All threads have left.
    Done,
    /// All wait at the same barrier.
    AtBarrier,
    /// Some never reach it: the thread that waits, and one that does not.
    Diverged {
        /// A thread that waits.
        waiting: usize,
        /// How many wait there.
        count: usize,
        /// Where.
        line: u32,
        /// A thread that is elsewhere.
        absent: usize,
        /// The barrier it waits at; none where it has left.
        absent_line: Option<u32>,
    },
}

/// Looks at the threads of a block, of which each has left or waits at a barrier.
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

/// What `lane` gets from an operation in which `calls` take part.
fn answer(lane: usize, call: &WarpCall, calls: &[Option<WarpCall>]) -> Result<u64, FaultCause> {
    let width = call.width.clamp(1, LANES as u32) as usize;
    let group = lane - lane % width;
    let from = call.from as usize;
    // A shuffle that would leave its group gives the lane its own value back.
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
    fn shuffles_take_from_the_lane_that_cuda_says() {
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
    fn lanes_of_two_masks_meet_among_themselves() {
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
    fn a_named_lane_that_left_keeps_the_others_waiting_and_is_named() {
        let mut lanes = vec![call(WarpKind::ShuffleDown, u32::MAX, 1, 1, 32); 32];
        lanes[7] = State::Done;
        let mut answers = vec![0; 32];
        assert_eq!(release_warp(&mut lanes, &mut answers), Ok(false));
        let (lane, cause) = stuck_warp(&lanes).unwrap();
        assert_eq!(lane, 0);
        assert_eq!(cause, FaultCause::Lanes { operation: "__shfl_down_sync", line: 1, absent: 1 << 7 });
    }

    #[test]
    fn a_shuffle_from_a_lane_that_is_not_named_is_refused() {
        let mut lanes = vec![State::Done; 32];
        lanes[..4].fill(call(WarpKind::Shuffle, 0b1111, 1, 9, 32));
        let mut answers = vec![0; 32];
        let (_, cause) = release_warp(&mut lanes, &mut answers).unwrap_err();
        assert_eq!(cause, FaultCause::AbsentLane { operation: "__shfl_sync", line: 1, lane: 9 });
    }
}
