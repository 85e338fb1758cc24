//! Finds the kernel entries in preprocessed source. The build script uses this file too.

/// The name and number of parameters of each entry, in source order.
pub fn entries(text: &str) -> Vec<(String, usize)> {
    // Lines that start with # are line markers of the preprocessor.
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text: String = lines.flat_map(|line| [line, " "]).collect();
    let definition = |after: &str| {
        let (head, rest) = after.split_once('(')?;
        let (parameters, rest) = rest.split_once(')')?;
        let name = head.trim_end().strip_prefix("void")?.trim();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let count = if parameters.trim().is_empty() { 0 } else { parameters.split(',').count() };
        (is_name && rest.trim_start().starts_with('{')).then(|| (name.to_owned(), count))
    };
    text.split("extern \"C\"").skip(1).filter_map(|after| definition(after.trim_start())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_entries_and_declarations_are_not() {
        let text = "# 1 \"a.cu\"\nextern \"C\" { void helper(int a); }\nextern \"C\" void declared(int a);\n\
                    extern \"C\" void  first(unsigned long long a,\n# 9 \"a.cu\"\n const double *b) { }\n\
                    extern \"C\" void second() {}\n";
        assert_eq!(entries(text), [("first".to_owned(), 2), ("second".to_owned(), 0)]);
    }
}
