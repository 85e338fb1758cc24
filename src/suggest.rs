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

/// Letters to insert, delete, replace or swap with their neighbour to turn one word into the other (optimal string alignment).
fn edit_distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(COMPARED_CHARACTERS).collect();
    let to: Vec<char> = to.chars().collect();
    // The distances from every prefix of `from` to the last two prefixes of `to`.
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=from.len()).collect();
    for row in 0..to.len() {
        let mut current = vec![row + 1];
        for column in 0..from.len() {
            let replaced = previous[column] + usize::from(from[column] != to[row]);
            let mut least = replaced.min(previous[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && from[column] == to[row - 1] && from[column - 1] == to[row];
            if swapped {
                least = least.min(before[column - 1] + 1);
            }
            current.push(least);
        }
        before = std::mem::replace(&mut previous, current);
    }
    previous[from.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits_and_swapped_neighbours() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", ""), 3);
        assert_eq!(edit_distance("cdua", "cuda"), 1);
        assert_eq!(edit_distance("cpu_scr", "cpu_csr"), 1);
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
