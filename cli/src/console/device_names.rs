//! The names of several devices in a few words.

/// Devices that are all named.
const MAX_NAMED: usize = 3;

/// Runs of devices with consecutive numbers that are all named.
const MAX_RUNS: usize = 4;

/// Devices with consecutive numbers behind one prefix, or one device without a number.
struct Run<'a> {
    prefix: &'a str,
    numbers: Option<(u64, u64)>,
}

/// The names of a few devices; of many their count, with the first and the last of each run of consecutive numbers.
pub fn named(devices: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = devices.iter().map(AsRef::as_ref).collect();
    let [first, .., last] = names[..] else { return names.concat() };
    if names.len() <= MAX_NAMED {
        return names.join(" and ");
    }
    let among = match &runs(&names)[..] {
        [_] => format!("{first} to {last}"),
        few if few.len() <= MAX_RUNS => in_words(few),
        _ => format!("between {first} and {last}"),
    };
    format!("{} devices ({among})", names.len())
}

/// The runs of names. The devices of a node follow those of the node before, if all nodes have the same numbers from zero.
fn runs<'a>(names: &[&'a str]) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'a>> = Vec::new();
    for name in names {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name.strip_prefix(prefix).and_then(|number| number.parse::<u64>().ok());
        match (runs.last_mut(), number) {
            (Some(Run { prefix: before, numbers: Some((_, last)) }), Some(number))
                if *before == prefix && *last + 1 == number =>
            {
                *last = number;
            }
            _ => runs.push(Run { prefix, numbers: number.map(|number| (number, number)) }),
        }
    }
    let same = |run: &Run<'_>| {
        run.numbers.is_some_and(|(first, _)| first == 0)
            && run.numbers == runs.first().and_then(|run| run.numbers)
    };
    if runs.iter().all(same) {
        runs.truncate(1);
    }
    runs
}

/// `sim:h200x8/0, 2 to 4 and 7`: a prefix is written where it changes.
fn in_words(runs: &[Run<'_>]) -> String {
    let mut before = "";
    let mut words: Vec<String> = Vec::new();
    for Run { prefix, numbers } in runs {
        let shown = if *prefix == before { "" } else { prefix };
        before = prefix;
        words.push(match numbers {
            Some((first, last)) if last > first => format!("{shown}{first} to {last}"),
            Some((first, _)) => format!("{shown}{first}"),
            None => (*prefix).to_string(),
        });
    }
    let last = words.pop().unwrap_or_default();
    if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_are_missing_between_the_first_and_the_last_are_not_named() {
        let of = |numbers: &[u32]| -> String {
            named(&numbers.iter().map(|number| format!("sim:h200x8/{number}")).collect::<Vec<_>>())
        };
        assert_eq!(of(&[0, 7]), "sim:h200x8/0 and sim:h200x8/7");
        assert_eq!(of(&[4, 5, 6, 7]), "4 devices (sim:h200x8/4 to sim:h200x8/7)");
        assert_eq!(of(&[0, 2, 3, 4, 7]), "5 devices (sim:h200x8/0, 2 to 4 and 7)");
        assert_eq!(of(&[0, 2, 4, 6, 8]), "5 devices (between sim:h200x8/0 and sim:h200x8/8)");
        assert_eq!(named(&["cpu", "cuda:0", "cuda:1", "cuda:2"]), "4 devices (cpu and cuda:0 to 2)");
    }

    #[test]
    fn whole_nodes_are_one_run() {
        let names = |nodes: &[&[u32]]| -> String {
            let of = |(node, devices): (usize, &&[u32])| -> Vec<String> {
                devices.iter().map(|device| format!("sim:node8x2/{node}.{device}")).collect()
            };
            named(&nodes.iter().enumerate().flat_map(of).collect::<Vec<_>>())
        };
        assert_eq!(names(&[&[0, 1, 2], &[0, 1, 2]]), "6 devices (sim:node8x2/0.0 to sim:node8x2/1.2)");
        assert_eq!(names(&[&[0, 1, 2], &[0, 2]]), "5 devices (sim:node8x2/0.0 to 2, sim:node8x2/1.0 and 2)");
    }
}
