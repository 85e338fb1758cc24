//! The name that was probably meant where an unknown one was typed.

/// Characters of a typed word that are compared; longer input costs nothing.
const COMPARED_CHARACTERS: usize = 64;

/// The name nearest to `typed`, or none where every name differs in more than half of its letters.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let distances = names.into_iter().map(|name| (edit_distance(&typed, &name.to_lowercase()), name));
    distances.filter(|(distance, name)| *distance <= name.len().div_ceil(2)).min().map(|(_, name)| name)
}

/// ` (did you mean 'x'?)` for the nearest name, or nothing where none is near.
pub fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(typed, names).map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default()
}

/// Levenshtein distance: letters to insert, delete or replace to turn one word into the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(COMPARED_CHARACTERS).collect();
    let mut previous: Vec<usize> = (0..=from.len()).collect();
    for (row, wanted) in to.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, found) in from.iter().enumerate() {
            let replaced = previous[column] + usize::from(*found != wanted);
            current.push(replaced.min(previous[column + 1] + 1).min(current[column] + 1));
        }
        previous = current;
    }
    previous[from.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }

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
