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

/// The file name nearest to `typed`, or none where every one differs in more than a quarter of the letters before its first dot: most
/// endings are alike.
pub fn nearest_file<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let stem = |name: &str| name.find('.').unwrap_or(name.len());
    let is_near = |name: &&str| osa_distance(typed, name) <= stem(name) / 4;
    if typed.len() > COMPARED_CHARACTERS {
        return None;
    }
    nearest(typed, names.into_iter().filter(is_near))
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
        let files = ["cnr-2000.mtx.gz", "a.mtx", "usroads.mtx"];
        assert_eq!(nearest_file("cnr2000.mtx.gz", files), Some("cnr-2000.mtx.gz"));
        assert_eq!((nearest_file("b.mtx", files), nearest_file("wave.mtx", files)), (None, None));
        assert_eq!(did_you_mean(&"x".repeat(1 << 20), names), "");
    }
}
