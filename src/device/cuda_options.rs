//! Names and options of CUDA devices: the card, its context, and faults to inject, for tests of how a run handles them. They are read
//! also by a build without CUDA.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Whether devices whose word does not name a context use the primary one.
static SHARES_CARDS: AtomicBool = AtomicBool::new(false);

/// From now on, devices of this process use the primary context of their card unless their word says `context=own`. For programs whose
/// other libraries use the cards too: all of them have the same memory then.
pub fn share_cards() {
    SHARES_CARDS.store(true, Ordering::Relaxed);
}

/// Options of a CUDA device. Launches are counted from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CudaOptions {
    /// Whether the device uses the card's primary context, which it shares with other libraries of the process. Without it, the
    /// device has a context of its own.
    pub primary_context: bool,
    /// The launch that is replaced by a kernel that writes to an illegal address.
    pub illegal_address_at_launch: Option<u64>,
    /// The launch that is replaced by a kernel that never ends.
    pub hang_at_launch: Option<u64>,
}

const KEYS: [&str; 3] = ["illegal_address_at_launch", "hang_at_launch", "context"];

impl CudaOptions {
    /// Options from the `key=value` pairs after the question mark of a device word.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self> {
        Self::parse_with(pairs, SHARES_CARDS.load(Ordering::Relaxed))
    }

    fn parse_with(pairs: &[(String, String)], primary_context: bool) -> Result<Self> {
        let mut options = Self { primary_context, ..Self::default() };
        for (key, value) in pairs {
            if key == "context" {
                options.primary_context = match value.as_str() {
                    "own" => false,
                    "primary" => true,
                    _ => return Err(Error::usage("'context' is own or primary")),
                };
                continue;
            }
            let place = match key.as_str() {
                "illegal_address_at_launch" => &mut options.illegal_address_at_launch,
                "hang_at_launch" => &mut options.hang_at_launch,
                _ => {
                    return Err(Error::usage(format!(
                        "unknown option '{key}' of a CUDA device; the options are {}",
                        KEYS.join(", ")
                    )));
                }
            };
            *place = match value.parse() {
                Ok(launch @ 1..) => Some(launch),
                _ => {
                    return Err(Error::usage(format!(
                        "'{key}' takes the number of a launch, counted from 1"
                    )));
                }
            };
        }
        Ok(options)
    }
}

/// The number of the card in a device's name: `cuda:1`, or `cuda:1#2` for the second device on it.
pub fn card_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("cuda:")?;
    number.split_once('#').map_or(number, |(number, _)| number).parse().ok()
}

/// The name of the `again`-th device, counted from zero, on a card.
pub fn device_name(card: u32, again: usize) -> String {
    if again == 0 { format!("cuda:{card}") } else { format!("cuda:{card}#{}", again + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_shares_cards_uses_primary_contexts_unless_a_word_says_otherwise() {
        let own = [("context".to_string(), "own".to_string())];
        for shares in [false, true] {
            assert_eq!(CudaOptions::parse_with(&[], shares).unwrap().primary_context, shares);
            assert!(!CudaOptions::parse_with(&own, shares).unwrap().primary_context);
        }
    }

    #[test]
    fn all_options_are_parsed_and_others_are_refused() {
        let parse = |key: &str, value: &str| CudaOptions::parse(&[(key.into(), value.into())]);
        assert_eq!(CudaOptions::parse(&[]).unwrap(), CudaOptions::default());
        assert_eq!(parse(KEYS[0], "3").unwrap().illegal_address_at_launch, Some(3));
        assert_eq!(parse(KEYS[1], "2").unwrap().hang_at_launch, Some(2));
        assert!(parse(KEYS[2], "primary").unwrap().primary_context);
        assert!(!parse(KEYS[2], "own").unwrap().primary_context);
        for (key, value) in
            [(KEYS[2], "other"), (KEYS[0], "0"), (KEYS[0], ""), (KEYS[1], "x"), ("fail_launch", "3")]
        {
            assert_eq!(parse(key, value).unwrap_err().exit_code(), 2, "{key}={value}");
        }
    }
}
