//! TOML files that a user writes: every error names the file and the line.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, DeserializeOwned, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Place};
use crate::files::read_text;
use crate::suggest::did_you_mean;

/// What is wrong with a TOML file, and where.
#[derive(Debug)]
pub struct TomlError {
    /// File and line.
    pub place: Place,
    /// The reason, and the nearest name where a name is unknown.
    pub reason: String,
    /// Whether the file is sound but for a key or a word that does not exist.
    pub is_unknown_name: bool,
}

impl TomlError {
    /// An unknown name asks for something that does not exist, which is wrong usage; everything else is a damaged input.
    pub fn into_error(self) -> Error {
        let Self { place, reason, is_unknown_name } = self;
        if is_unknown_name { Error::usage(format!("{place}: {reason}")) } else { Error::input(place, reason) }
    }
}

/// A TOML file's text, kept to find the line of a value that turns out to be wrong later.
#[derive(Debug, Clone)]
pub struct TomlFile {
    source: String,
    text: String,
}

impl TomlFile {
    /// The text of the file or other source of that name.
    pub fn new(source: impl Into<String>, text: impl Into<String>) -> Self {
        Self { source: source.into(), text: text.into() }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_text(path)?;
        Ok(Self::new(path.display().to_string(), text))
    }

    /// The values of the file. For an unknown key or word the error suggests the nearest.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, TomlError> {
        toml::from_str(&self.text).map_err(|error| {
            let place = self.place(error.span().map(|span| span.start));
            match unknown_name(error.message()) {
                Some(reason) => TomlError { place, reason, is_unknown_name: true },
                None => {
                    let reason = error.message().replace('\n', ", ");
                    TomlError { place, reason, is_unknown_name: false }
                }
            }
        })
    }

    /// Where the value at `path` is, such as `["sweep", "0", "k"]`: numbers count the elements of a list from 0. Where the
    /// file has no such value, the place of the innermost table or list on the path that it has.
    pub fn place_of(&self, path: &[&str]) -> Place {
        self.place(self.offset_of(path))
    }

    fn place(&self, offset: Option<usize>) -> Place {
        let newlines = |offset: usize| self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
        let line = offset.map(|offset| newlines(offset) as u64 + 1);
        Place { source: self.source.clone(), line, column: None }
    }

    fn offset_of(&self, path: &[&str]) -> Option<usize> {
        let document = DeTable::parse(&self.text).ok()?;
        let (first, rest) = path.split_first()?;
        let (mut offset, mut value) = entry(document.get_ref(), first)?;
        for step in rest {
            if let Some((start, inner)) = child(value.get_ref(), step) {
                (offset, value) = (start, inner);
            }
        }
        Some(offset)
    }
}

type Found<'a, 'i> = (usize, &'a Spanned<DeValue<'i>>);

/// A table's value, with the offset of its key.
fn entry<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<Found<'a, 'i>> {
    let mut entries = table.iter().filter(|(name, _)| name.get_ref() == key);
    entries.next().map(|(name, value)| (name.span().start, value))
}

/// A table's value or a list's element, with its offset.
fn child<'a, 'i>(value: &'a DeValue<'i>, step: &str) -> Option<Found<'a, 'i>> {
    match value {
        DeValue::Table(table) => entry(table, step),
        DeValue::Array(list) => {
            list.get(step.parse::<usize>().ok()?).map(|value| (value.span().start, value))
        }
        _ => None,
    }
}

/// A sentence for serde's ``unknown field `thread`, expected one of `title`, `threads` `` and its `unknown variant`.
fn unknown_name(message: &str) -> Option<String> {
    let (kind, rest) = match message.strip_prefix("unknown field ") {
        Some(rest) => ("key", rest),
        None => ("value", message.strip_prefix("unknown variant ")?),
    };
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let name = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    let nearest = match did_you_mean(name, known.iter().copied()) {
        nothing if nothing.is_empty() => format!("; the {kind}s are {}", known.join(", ")),
        nearest => nearest,
    };
    Some(format!("unknown {kind} '{name}'{nearest}"))
}

/// A list, or one value that stands for a list of one: `k = 8` is `k = [8]`. For `#[serde(deserialize_with = ...)]`.
pub fn one_or_many<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_any(OneOrMany(PhantomData))
}

struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Vec<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(table)).map(|value| vec![value])
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        T::deserialize(text.into_deserializer()).map(|value| vec![value])
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Vec<T>, E> {
        T::deserialize(number.into_deserializer()).map(|value| vec![value])
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Vec<T>, E> {
        T::deserialize(number.into_deserializer()).map(|value| vec![value])
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Vec<T>, E> {
        T::deserialize(value.into_deserializer()).map(|value| vec![value])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Example {
        threads: u32,
        #[serde(default, deserialize_with = "one_or_many")]
        k: Vec<usize>,
        #[serde(default, deserialize_with = "one_or_many")]
        share: Vec<f64>,
        #[serde(default, deserialize_with = "one_or_many")]
        name: Vec<String>,
    }

    #[test]
    fn one_value_is_a_list_of_one() {
        let parse = |text: &str| TomlFile::new("a.toml", text).parse::<Example>();
        let list = parse("threads = 2\nk = [8]\nshare = [1.0]\nname = ['a']").unwrap();
        assert_eq!(parse("threads = 2\nk = 8\nshare = 1\nname = 'a'").unwrap(), list);
        for wrong in ["k = -1", "k = 'a'", "k = [1, 'a']", "k = 1.5", "name = 1"] {
            let error = parse(&format!("threads = 2\n{wrong}")).unwrap_err().into_error().to_string();
            assert!(error.starts_with("a.toml:2: invalid"), "{error}");
        }
    }

    fn line_of(text: &str, path: &[&str]) -> Option<u64> {
        TomlFile::new("a.toml", text).place_of(path).line
    }

    #[test]
    fn every_error_names_the_file_and_the_line() {
        for (text, line, part) in [
            ("\n\nthread = 2", 3, "did you mean 'threads'?"),
            ("\nthreads = 'two'", 2, "invalid type"),
            ("threads = 2\n\n= 3", 3, ""),
            ("\nzzzzzzzz = 2", 2, "the keys are threads"),
        ] {
            let error =
                TomlFile::new("a.toml", text).parse::<Example>().unwrap_err().into_error().to_string();
            assert!(error.starts_with(&format!("a.toml:{line}: ")) && error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_value_is_found_by_its_path() {
        let text = "title = 'a'\n[[sweep]]\nname = 's'\n[[sweep]]\nname = 't'\nk = [\n1,\n0]\n";
        assert_eq!(line_of(text, &["title"]), Some(1));
        assert_eq!(line_of(text, &["sweep", "1", "name"]), Some(5));
        assert_eq!(line_of(text, &["sweep", "1", "k", "1"]), Some(8));
        assert_eq!(line_of(text, &["none"]), None);
    }

    #[test]
    fn a_missing_value_is_placed_at_the_table_that_lacks_it() {
        let text = "title = 'a'\n[[sweep]]\nname = 's'\n[[sweep]]\nname = 't'\n";
        assert_eq!(line_of(text, &["sweep", "1", "k"]), Some(4));
    }
}
