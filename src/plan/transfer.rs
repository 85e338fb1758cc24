//! How a device's share of A, X and Y crosses its link: through pinned memory that the host copies into and out of, or
//! straight from and to where it lies, once that has been registered with the device.
//!
//! Copying costs the host's cores with every product, registering costs once. The rates decide.

use super::data::{Mode, Registered};
use crate::cost::{HostRates, Profile};
use crate::error::Bytes;

/// Registering must be predicted to take no more than this share of staging: it locks memory that others may want.
const WORTH_LOCKING: f64 = 0.98;

/// What has to cross, and what may cross from where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traffic {
    pub mode: Mode,
    pub a_bytes: u64,
    pub x_bytes: u64,
    pub y_bytes: u64,
    /// The device reads A's own arrays, with no change.
    pub a_as_it_lies: bool,
    /// Rows of X and Y lie on the device as they do on the host.
    pub rows_as_they_lie: bool,
    /// Products that will be computed.
    pub repeat: u64,
}

/// What is registered, and why so; no reason where there is nothing to choose.
pub(super) fn choose(profile: &Profile, host: &HostRates, traffic: &Traffic) -> (Registered, Option<String>) {
    let Some(register_s_per_gb) = profile.link.as_ref().and_then(|link| link.register_s_per_gb) else {
        return (Registered::default(), None);
    };
    let may_a = traffic.a_as_it_lies && traffic.mode != Mode::Resident;
    let may_xy = traffic.rows_as_they_lie;
    let repeat = traffic.repeat.max(1) as f64;
    let bytes = |registered: Registered| {
        u64::from(registered.a) * traffic.a_bytes
            + u64::from(registered.x) * traffic.x_bytes
            + u64::from(registered.y) * traffic.y_bytes
    };
    let once_s = |registered| bytes(registered) as f64 * 1e-9 * register_s_per_gb;
    let total_s = |registered| product_s(profile, host, traffic, registered) * repeat + once_s(registered);
    let staged = Registered::default();
    let mut best = staged;
    for (a, xy) in [(true, true), (true, false), (false, true)] {
        let registered = Registered { a, x: xy, y: xy };
        let allowed = (may_a || !a) && (may_xy || !xy);
        if allowed && total_s(registered) < WORTH_LOCKING * total_s(best) {
            best = registered;
        }
    }
    let all = Registered { a: may_a, x: may_xy, y: may_xy };
    if all == staged {
        return (staged, None);
    }
    let compared = if best == staged { all } else { best };
    let ms = |seconds: f64| seconds * 1e3;
    let numbers = format!(
        "{:.3} ms a product through pinned memory at {:.1} GB/s, {:.3} ms without, and {:.3} ms once to register {}; \
         {} products",
        ms(product_s(profile, host, traffic, staged)),
        host.copy_gb_per_s,
        ms(product_s(profile, host, traffic, compared)),
        ms(once_s(compared)),
        Bytes(bytes(compared)),
        traffic.repeat.max(1)
    );
    let what = match (best.a, best.x) {
        (true, true) => "A, X and Y cross from where they lie",
        (true, false) => "A crosses from where it lies, X and Y through pinned memory",
        (false, true) => "X and Y cross from where they lie",
        (false, false) => "everything crosses through pinned memory",
    };
    (best, Some(format!("{what}: {numbers}")))
}

/// Seconds in which a product's bytes cross: X, then the longest of what goes on side by side.
fn product_s(profile: &Profile, host: &HostRates, traffic: &Traffic, registered: Registered) -> f64 {
    let a_bytes = if traffic.mode == Mode::Resident { 0 } else { traffic.a_bytes };
    let staged = |by_host: bool, bytes: u64| if by_host { bytes } else { 0 };
    let x_s = host.copy_s(staged(!registered.x, traffic.x_bytes)) + profile.upload_s(traffic.x_bytes);
    let copied = staged(!registered.a, a_bytes).saturating_add(staged(!registered.y, traffic.y_bytes));
    x_s + host.copy_s(copied).max(profile.upload_s(a_bytes)).max(profile.download_s(traffic.y_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::preset;

    const TRAFFIC: Traffic = Traffic {
        mode: Mode::Oneshot,
        a_bytes: 1_300_000_000,
        x_bytes: 260_000_000,
        y_bytes: 260_000_000,
        a_as_it_lies: true,
        rows_as_they_lie: true,
        repeat: 20,
    };

    fn chosen(traffic: Traffic) -> (Registered, Option<String>) {
        let machine = preset("h200").unwrap();
        choose(&machine.gpus[0], &machine.host, &traffic)
    }

    #[test]
    fn many_products_are_worth_registering_and_one_is_only_where_that_is_quick() {
        let all = Registered { a: true, x: true, y: true };
        let (registered, reason) = chosen(TRAFFIC);
        assert_eq!(registered, all);
        assert!(reason.unwrap().contains("20 products"));
        let once = Traffic { repeat: 1, ..TRAFFIC };
        assert_eq!(chosen(once).0, all);
        let machine = preset("h200").unwrap();
        let mut slow = machine.gpus[0].clone();
        if let Some(link) = &mut slow.link {
            link.register_s_per_gb = Some(0.06);
        }
        assert_eq!(choose(&slow, &machine.host, &TRAFFIC).0, all);
        let (registered, reason) = choose(&slow, &machine.host, &once);
        assert_eq!(registered, Registered::default());
        let reason = reason.unwrap();
        assert!(reason.contains("through pinned memory") && reason.contains("to register"), "{reason}");
    }

    #[test]
    fn what_the_device_wants_otherwise_is_staged() {
        let (registered, _) = chosen(Traffic { a_as_it_lies: false, ..TRAFFIC });
        assert_eq!(registered, Registered { a: false, x: true, y: true });
        let (registered, _) = chosen(Traffic { rows_as_they_lie: false, ..TRAFFIC });
        assert_eq!(registered, Registered { a: true, x: false, y: false });
        assert!(!chosen(Traffic { mode: Mode::Resident, ..TRAFFIC }).0.a, "what stays is brought once");
    }

    #[test]
    fn a_device_that_registers_nothing_is_staged_for() {
        let machine = preset("h200").unwrap();
        let mut profile = machine.gpus[0].clone();
        if let Some(link) = &mut profile.link {
            link.register_s_per_gb = None;
        }
        assert_eq!(choose(&profile, &machine.host, &TRAFFIC), (Registered::default(), None));
    }
}
