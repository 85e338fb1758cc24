//! Options of an emulated device: its memory, its delays, and the faults to inject.

use crate::error::{Error, Result};

/// Default memory of an emulated device. It uses as much host memory.
const MEMORY_BYTES: u64 = 1 << 30;

/// Faults to inject. Allocations, registrations, launches, copies, operations and requests for copies
/// from other devices are counted from 1 in the order of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// The allocation that fails for lack of memory.
    pub out_of_memory_at_allocation: Option<u64>,
    /// The registration that is refused.
    pub refuse_registration: Option<u64>,
    /// The launch that fails.
    pub fail_launch: Option<u64>,
    /// The copy, in either direction, that fails.
    pub fail_copy: Option<u64>,
    /// The operation at which the device is lost; it and all later ones fail.
    pub lost_at_operation: Option<u64>,
    /// The operation that never completes, also after the device was closed.
    pub hang_at_operation: Option<u64>,
    /// The operation at which the thread of its lane panics; the device is then lost.
    pub panic_at_operation: Option<u64>,
    /// From this request on, the device refuses copies from other devices.
    pub refuse_peer_copies: Option<u64>,
    /// The launch that flips a bit of the bytes that it writes.
    pub flip_bit_in_launch: Option<u64>,
    /// The launch that leaves some of the bytes that it writes as they were.
    pub stale_launch: Option<u64>,
    /// The copy, in either direction, that flips a bit in the memory of the device.
    pub flip_bit_in_copy: Option<u64>,
    /// Chooses the bytes and bits of the last three faults.
    pub fault_seed: Option<u64>,
}

/// Options of an emulated device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmulatedOptions {
    /// Size of its memory, in bytes.
    pub memory_bytes: u64,
    /// Seed of random delays before operations; `None` for no delays.
    pub delay_seed: Option<u64>,
    /// Faults to inject.
    pub faults: Faults,
}

impl Default for EmulatedOptions {
    fn default() -> Self {
        Self { memory_bytes: MEMORY_BYTES, delay_seed: None, faults: Faults::default() }
    }
}

const KEYS: [&str; 14] = [
    "memory_bytes",
    "delay_seed",
    "out_of_memory_at_allocation",
    "refuse_registration",
    "fail_launch",
    "fail_copy",
    "lost_at_operation",
    "hang_at_operation",
    "panic_at_operation",
    "refuse_peer_copies",
    "flip_bit_in_launch",
    "stale_launch",
    "flip_bit_in_copy",
    "fault_seed",
];

impl EmulatedOptions {
    /// Options from the text after the question mark of a device word: `fail_launch=3&delay_seed=7`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut options = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let faults = &mut options.faults;
            let place = match key {
                "memory_bytes" => None,
                "delay_seed" => Some(&mut options.delay_seed),
                "out_of_memory_at_allocation" => Some(&mut faults.out_of_memory_at_allocation),
                "refuse_registration" => Some(&mut faults.refuse_registration),
                "fail_launch" => Some(&mut faults.fail_launch),
                "fail_copy" => Some(&mut faults.fail_copy),
                "lost_at_operation" => Some(&mut faults.lost_at_operation),
                "hang_at_operation" => Some(&mut faults.hang_at_operation),
                "panic_at_operation" => Some(&mut faults.panic_at_operation),
                "refuse_peer_copies" => Some(&mut faults.refuse_peer_copies),
                "flip_bit_in_launch" => Some(&mut faults.flip_bit_in_launch),
                "stale_launch" => Some(&mut faults.stale_launch),
                "flip_bit_in_copy" => Some(&mut faults.flip_bit_in_copy),
                "fault_seed" => Some(&mut faults.fault_seed),
                _ => {
                    let known = KEYS.join(", ");
                    return Err(Error::usage(format!(
                        "unknown option '{key}' of an emulated device; the options are {known}"
                    )));
                }
            };
            let number: u64 = value.parse().map_err(|_| {
                Error::usage(format!("'{key}' of an emulated device takes a whole number, not '{value}'"))
            })?;
            let counts = !["delay_seed", "memory_bytes", "fault_seed"].contains(&key);
            if counts && number == 0 {
                return Err(Error::usage(format!("'{key}' of an emulated device counts from 1, not from 0")));
            }
            match place {
                Some(place) => *place = Some(number),
                None => options.memory_bytes = number,
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_parsed_and_others_are_refused() {
        assert_eq!(EmulatedOptions::parse("").unwrap(), EmulatedOptions::default());
        let options = EmulatedOptions::parse("fail_launch=3&delay_seed=7").unwrap();
        assert_eq!((options.faults.fail_launch, options.delay_seed), (Some(3), Some(7)));
        for (at, key) in KEYS.iter().enumerate() {
            let options = EmulatedOptions::parse(&format!("{key}={}", at + 1)).unwrap();
            assert_ne!(options, EmulatedOptions::default(), "{key}");
        }
        for text in ["fail_lunch=3", "fail_launch=x", "fail_launch", "fail_copy=0", "=3"] {
            assert_eq!(EmulatedOptions::parse(text).unwrap_err().exit_code(), 2, "{text}");
        }
        let message = EmulatedOptions::parse("fail_lunch=3").unwrap_err().to_string();
        assert!(KEYS.iter().all(|key| message.contains(key)), "{message}");
    }
}
