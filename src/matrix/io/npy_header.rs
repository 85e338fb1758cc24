//! The text of a `.npy` header: a Python dictionary. Only what NumPy accepts is accepted.

type Entry<'a> = (&'a str, &'a str);

/// The keys of a dictionary and their values, as they are written.
pub(super) fn entries(text: &str) -> Result<Vec<Entry<'_>>, String> {
    let damaged = || format!("its header is not a dictionary of descr, fortran_order and shape: {text:?}");
    let mut rest = text.trim().strip_prefix('{').ok_or_else(damaged)?.trim_start();
    let mut entries: Vec<Entry<'_>> = Vec::new();
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return if behind.is_empty() { Ok(entries) } else { Err(damaged()) };
        }
        let (key, behind) = quoted(rest).ok_or_else(damaged)?;
        rest = behind.trim_start().strip_prefix(':').ok_or_else(damaged)?.trim_start();
        let end = value_end(rest).ok_or_else(damaged)?;
        let (value, behind) = rest.split_at(end);
        if entries.iter().any(|(known, _)| *known == key) {
            return Err(damaged());
        }
        entries.push((key, value.trim_end()));
        rest = behind.trim_start();
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind.trim_start(),
            None if rest.starts_with('}') => {}
            None => return Err(damaged()),
        }
    }
}

/// The string that `text` starts with, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    text[1..].split_once(quote).filter(|(string, _)| !string.contains('\\'))
}

/// Where the value ends that `text` starts with: a string, a bracketed list or a word.
fn value_end(text: &str) -> Option<usize> {
    if let Some((string, _)) = quoted(text) {
        return Some(string.len() + 2);
    }
    let mut depth = 0usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            ',' | '}' if depth == 0 => return (at > 0).then_some(at),
            _ => {}
        }
    }
    None
}

/// The lengths of a tuple such as `()`, `(3,)` or `(3, 4)`.
pub(super) fn lengths(tuple: &str) -> Option<Vec<u64>> {
    let inside = tuple.strip_prefix('(')?.strip_suffix(')')?.trim();
    if inside.is_empty() {
        return Some(Vec::new());
    }
    let (listed, has_last_comma) = match inside.strip_suffix(',') {
        Some(listed) => (listed, true),
        None => (inside, false),
    };
    let length = |word: &str| {
        let word = word.trim();
        let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        // Python has no number with a zero before other digits.
        let plain = word.len() == 1 || !word.starts_with('0');
        (digits && plain).then(|| word.parse().ok()).flatten()
    };
    let lengths: Vec<u64> = listed.split(',').map(length).collect::<Option<_>>()?;
    // In Python `(3)` is a number, not a tuple.
    (lengths.len() > 1 || has_last_comma).then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_numpy_are_read() {
        for (text, shape) in [
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }   \n", vec![3, 4]),
            ("{\"shape\": (), 'descr': '|b1', 'fortran_order': True}", vec![]),
            (" {'descr':'<f8','shape':(10,),'fortran_order':False}", vec![10]),
        ] {
            let entries = entries(text).unwrap();
            assert_eq!(entries.len(), 3, "{text}");
            let tuple = entries.iter().find(|(key, _)| *key == "shape").unwrap().1;
            assert_eq!(lengths(tuple).unwrap(), shape);
        }
    }

    /// Each of these makes `numpy.load` raise an error.
    #[test]
    fn damaged_headers_are_refused() {
        for text in [
            "",
            "{",
            "'descr': '<f8'",
            "{'descr': '<f8' 'shape': (3,)}",
            "{'descr': '<f8', 'shape': (3,)} 1",
            "{'descr': '<f8', 'shape': (3,)",
            "{'descr': , 'shape': (3,)}",
            "{descr: '<f8'}",
            "{,}",
            "['descr']",
        ] {
            assert!(entries(text).is_err(), "{text}");
        }
        for tuple in
            ["(3)", "3", "(3 4)", "(-1,)", "(3,,4)", "(03,)", "(3,4", "(1e3,)", "(,)", "[3, 4]", "(0x3,)"]
        {
            assert_eq!(lengths(tuple), None, "{tuple}");
        }
        assert_eq!(lengths("(0, 5)"), Some(vec![0, 5]));
    }
}
