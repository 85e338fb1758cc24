//! Names of matrices: the argument that names one, its group, and words quoted for a shell.

use std::path::Path;

/// The group of files whose folder has no name.
const NO_GROUP: &str = "other files";

/// The argument among those of a command that names the matrix `name`.
pub fn argument_of<'a>(name: &str, arguments: &'a [String]) -> Option<&'a String> {
    arguments.iter().find(|argument| {
        if let Some(generated) = argument.strip_prefix("gen:") {
            return generated == name;
        }
        let file = argument.rsplit(['/', ':']).next().unwrap_or_default();
        file == name || file.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// The group of a matrix of the collection, the kind of a generated one, or the folder of a file.
pub fn group(name: &str, argument: Option<&str>) -> String {
    let Some(argument) = argument else {
        let kind = name.split_once(',').filter(|(_, keys)| keys.contains('='));
        return kind.map_or(NO_GROUP.into(), |(kind, _)| format!("gen:{kind}"));
    };
    if let Some(generated) = argument.strip_prefix("gen:") {
        return format!("gen:{}", generated.split(',').next().unwrap_or_default());
    }
    if let Some(collection) = argument.strip_prefix("suitesparse:") {
        return collection.split_once('/').map_or(NO_GROUP, |(group, _)| group).into();
    }
    let folder = Path::new(argument).parent().and_then(|folder| folder.file_name());
    folder.map_or(NO_GROUP.into(), |folder| folder.to_string_lossy().into_owned())
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-:,=@%+".contains(character);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_found_among_the_arguments_by_its_name() {
        let arguments = ["gen:stencil5,n=9", "m/cant.mtx.gz", "suitesparse:HB/bcsstk01", "canty.mtx"];
        let arguments = arguments.map(String::from);
        let found = |name| argument_of(name, &arguments).map(String::as_str);
        assert_eq!(found("stencil5,n=9"), Some("gen:stencil5,n=9"));
        assert_eq!((found("cant"), found("canty")), (Some("m/cant.mtx.gz"), Some("canty.mtx")));
        assert_eq!((found("bcsstk01"), found("can")), (Some("suitesparse:HB/bcsstk01"), None));
    }

    #[test]
    fn the_group_is_that_of_the_collection_the_kind_or_the_folder() {
        assert_eq!(group("bcsstk01", Some("suitesparse:HB/bcsstk01")), "HB");
        assert_eq!(group("stencil5,n=9", Some("gen:stencil5,n=9")), "gen:stencil5");
        assert_eq!(group("cant", Some("matrices/Williams/cant.mtx")), "Williams");
        assert_eq!(group("cant", Some("cant.mtx")), "other files");
        assert_eq!((group("a", None), group("hub,rows=9", None)), ("other files".into(), "gen:hub".into()));
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        assert_eq!(quoted("gen:stencil5,n=9"), "gen:stencil5,n=9");
        assert_eq!(quoted("my file's.mtx"), "'my file'\\''s.mtx'");
        assert_eq!((quoted("emu:0?a=1"), quoted("")), ("'emu:0?a=1'".into(), "''".into()));
    }
}
