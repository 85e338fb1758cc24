//! The name that was probably meant where an unknown one was typed.

use strsim::osa_distance;

/// Characters of a typed word that are compared; longer input costs nothing.
const COMPARED_CHARACTERS: usize = 64;

/// The name nearest to `typed`, or none where every name differs in more than half of its letters.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: String = typed.to_lowercase().chars().take(COMPARED_CHARACTERS).collect();
    let distances = names.into_iter().map(|name| (osa_distance(&typed, &name.to_lowercase()), name));
    distances.filter(|(distance, name)| *distance <= name.len().div_ceil(2)).min().map(|(_, name)| name)
}

/// ` (did you mean 'x'?)` for the nearest name, or nothing where none is near.
pub fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(typed, names).map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_distant_one_is_not() {
        let names = ["csr_vector", "csr_runs", "sell"];
        assert_eq!(nearest("csr_vektor", names), Some("csr_vector"));
        assert_eq!(nearest("SELL", names), Some("sell"));
        assert_eq!(nearest("zzzzzzzz", names), None);
        assert_eq!(did_you_mean("sel", names), " (did you mean 'sell'?)");
        assert_eq!(did_you_mean(&"x".repeat(1 << 20), names), "");
    }
}
