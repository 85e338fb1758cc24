//! Sentences, wrapped between words at the width of the terminal.

/// The text with every line of more than `width` characters wrapped between words. Further lines begin with the blanks of the first. A longer
/// word, such as a path, stays whole; without a width, so do lines.
pub fn wrapped(text: &str, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from) else { return text.into() };
    let wrapped: Vec<String> = text.split('\n').map(|line| wrapped_line(line, width)).collect();
    wrapped.join("\n")
}

fn wrapped_line(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.into();
    }
    let indent = &line[..line.len() - line.trim_start_matches(' ').len()];
    let mut lines = vec![String::new()];
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        if let Some(last) = lines.last_mut() {
            let begin = if last.is_empty() { indent } else { " " };
            if last.is_empty() || last.chars().count() + 1 + word.chars().count() <= width {
                last.extend([begin, word]);
            } else {
                lines.push(format!("{indent}{word}"));
            }
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_long_words_stay_whole() {
        let text = "one µs three\n  four five six\n/a/long/path/to/it and on\n";
        assert_eq!(
            wrapped(text, Some(10)),
            "one µs\nthree\n  four\n  five six\n/a/long/path/to/it\nand on\n"
        );
        assert_eq!(wrapped(text, Some(40)), text);
        assert_eq!(wrapped(text, None), text);
        assert_eq!(wrapped("  \n", Some(1)), "\n", "blanks alone are left out where they do not fit");
    }
}
