//! How a device's share of A, X and Y is copied: staged through page-locked slots, which costs the host a copy with every product, or
//! directly, after the memory was registered (page-locked) once. The predicted times of all products decide.

use super::data::{Mode, Plan, Registered};
use super::draft::Assembled;
use super::explain::list;
use crate::cost::{HostRates, Profile};
use crate::error::{Counted, Result, Seconds};

/// Registering must take at most this share of the time of staging, since it withdraws memory from other programs.
const REGISTER_MARGIN: f64 = 0.98;

/// The bytes to copy, and the operands that may be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traffic {
    pub mode: Mode,
    pub a_bytes: u64,
    pub x_bytes: u64,
    pub y_bytes: u64,
    /// The device reads A's own arrays, unchanged.
    pub a_unchanged: bool,
    /// Rows of X and Y have the same pitch on the device as on the host.
    pub rows_unchanged: bool,
    /// The host combines results with the old Y or with each other, so that Y is staged.
    pub stages_y: bool,
    /// Number of products.
    pub repeat: u64,
}

/// The choice of operands to register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransferChoice {
    /// The operands to register.
    pub chosen: Registered,
    /// All operands that can be registered.
    pub all: Registered,
}

/// Chooses the operands to register.
pub(super) fn choose(profile: &Profile, host: &HostRates, traffic: &Traffic) -> TransferChoice {
    let staged = Registered::default();
    let Some(register_s_per_gb) = profile.link.as_ref().and_then(|link| link.register_s_per_gb) else {
        return TransferChoice { chosen: staged, all: staged };
    };
    let may_a = traffic.a_unchanged && traffic.mode != Mode::Resident;
    let may_xy = traffic.rows_unchanged;
    let repeat = traffic.repeat.max(1) as f64;
    let bytes = |registered: Registered| {
        u64::from(registered.a) * traffic.a_bytes
            + u64::from(registered.x) * traffic.x_bytes
            + u64::from(registered.y) * traffic.y_bytes
    };
    let once_s = |registered| bytes(registered) as f64 * 1e-9 * register_s_per_gb;
    let total_s = |registered| product_s(profile, host, traffic, registered) * repeat + once_s(registered);
    let mut chosen = staged;
    for (a, xy) in [(true, true), (true, false), (false, true)] {
        let registered = Registered { a, x: xy, y: xy && !traffic.stages_y };
        let allowed = (may_a || !a) && (may_xy || !xy);
        if allowed && total_s(registered) < REGISTER_MARGIN * total_s(chosen) {
            chosen = registered;
        }
    }
    let all = Registered { a: may_a, x: may_xy, y: may_xy && !traffic.stages_y };
    TransferChoice { chosen, all }
}

/// The operands to register in the plan that is compared with a staged one: those chosen, or all where no device chose any.
pub(super) fn proposed(choices: &[TransferChoice], always: bool) -> Vec<Registered> {
    let staged = Registered::default();
    let all_staged = choices.iter().all(|choice| choice.chosen == staged);
    let of_device = |choice: &TransferChoice| if always || all_staged { choice.all } else { choice.chosen };
    choices.iter().map(of_device).collect()
}

/// The faster of two plans for all products, registering included, and the reason in words; none where nothing can be registered.
pub(super) fn faster(
    staged: Result<Assembled>,
    registered: Result<Assembled>,
) -> Result<(Assembled, Option<String>)> {
    let (staged, registered) = match (staged, registered) {
        (Ok(staged), Ok(registered)) => (staged, registered),
        (Ok(only), Err(_)) | (Err(_), Ok(only)) => return Ok((only, None)),
        (Err(error), Err(_)) => return Err(error),
    };
    let Some(operands) = registered_operands(&registered.plan) else { return Ok((staged, None)) };
    let total_s = |one: &Assembled| {
        let plan = &one.plan;
        plan.set_up.register_s + plan.repeat as f64 * plan.predicted_s
    };
    let registers = total_s(&registered) < REGISTER_MARGIN * total_s(&staged);
    let words = format!(
        "transfer: {}: each product takes {} with {operands} registered and {} staged; registering takes {} once ({})",
        if registers { "registered" } else { "staged" },
        Seconds(registered.plan.predicted_s),
        Seconds(staged.plan.predicted_s),
        Seconds(registered.plan.set_up.register_s),
        Counted(registered.plan.repeat, "product"),
    );
    Ok((if registers { registered } else { staged }, Some(words)))
}

/// The reason of a plan that registers because it was requested.
pub(super) fn requested(plan: &Plan) -> String {
    match registered_operands(plan) {
        Some(_) => format!(
            "transfer: registered: as requested; registering takes {} once",
            Seconds(plan.set_up.register_s)
        ),
        None => "transfer: staged: no operand can be registered, although this was requested".into(),
    }
}

/// The operands that a plan registers, in words, with the devices where not every GPU registers them.
fn registered_operands(plan: &Plan) -> Option<String> {
    let gpus = || plan.devices.iter().filter(|device| device.profile.link.is_some() && device.chunks > 0);
    let registering = || gpus().filter(|device| device.registered != Registered::default());
    let (a, xy) = (
        registering().any(|device| device.registered.a),
        registering().any(|device| device.registered.x || device.registered.y),
    );
    let operands = match (a, xy) {
        (true, true) => "A, X and Y",
        (true, false) => "A",
        (false, true) => "X and Y",
        (false, false) => return None,
    };
    let names: Vec<&str> = registering().map(|device| device.name.as_str()).collect();
    let all = names.len() == gpus().count();
    Some(if all { operands.into() } else { format!("{operands} of {}", list(&names)) })
}

/// Seconds to copy a product's bytes: X, then the longest of the steps that overlap.
fn product_s(profile: &Profile, host: &HostRates, traffic: &Traffic, registered: Registered) -> f64 {
    let a_bytes = if traffic.mode == Mode::Resident { 0 } else { traffic.a_bytes };
    let staged = |by_host: bool, bytes: u64| if by_host { bytes } else { 0 };
    let x_s = host.copy_s(staged(!registered.x, traffic.x_bytes)) + profile.upload_s(traffic.x_bytes);
    let copied = staged(!registered.a, a_bytes).saturating_add(staged(!registered.y, traffic.y_bytes));
    let link_s = profile.duplex_s(profile.upload_s(a_bytes), profile.download_s(traffic.y_bytes));
    x_s + host.copy_s(copied).max(link_s)
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
        a_unchanged: true,
        rows_unchanged: true,
        stages_y: false,
        repeat: 20,
    };

    const ALL: Registered = Registered { a: true, x: true, y: true };
    const STAGED: Registered = Registered { a: false, x: false, y: false };

    fn chosen(traffic: Traffic) -> Registered {
        let machine = preset("h200").unwrap();
        choose(&machine.gpus[0], &machine.host, &traffic).chosen
    }

    #[test]
    fn many_products_pay_for_registration_and_one_product_only_where_it_is_fast() {
        assert_eq!(chosen(TRAFFIC), ALL);
        let once = Traffic { repeat: 1, ..TRAFFIC };
        assert_eq!(chosen(once), ALL);
        let machine = preset("h200").unwrap();
        let mut slow = machine.gpus[0].clone();
        if let Some(link) = &mut slow.link {
            link.register_s_per_gb = Some(0.06);
        }
        let many = choose(&slow, &machine.host, &TRAFFIC);
        assert_eq!(many, TransferChoice { chosen: ALL, all: ALL });
        let one = choose(&slow, &machine.host, &once);
        assert_eq!(one, TransferChoice { chosen: STAGED, all: ALL });
    }

    #[test]
    fn operands_that_the_device_stores_differently_are_staged() {
        let converted = chosen(Traffic { a_unchanged: false, ..TRAFFIC });
        assert_eq!(converted, Registered { a: false, x: true, y: true });
        let padded = chosen(Traffic { rows_unchanged: false, ..TRAFFIC });
        assert_eq!(padded, Registered { a: true, x: false, y: false });
        assert!(!chosen(Traffic { mode: Mode::Resident, ..TRAFFIC }).a, "a resident A is copied once");
        let updated = chosen(Traffic { stages_y: true, ..TRAFFIC });
        assert_eq!(updated, Registered { a: true, x: true, y: false });
    }

    #[test]
    fn a_device_that_cannot_register_is_staged_for() {
        let machine = preset("h200").unwrap();
        let mut profile = machine.gpus[0].clone();
        if let Some(link) = &mut profile.link {
            link.register_s_per_gb = None;
        }
        let choice = choose(&profile, &machine.host, &TRAFFIC);
        assert_eq!(choice, TransferChoice { chosen: STAGED, all: STAGED });
    }
}
