//! Parses the specification of a generated matrix, `kind,key=value,...`; errors list the valid words.

use crate::error::{Error, Result};
use crate::suggest::did_you_mean;

/// One kind of generated matrix: its name, keys and description.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The word before the first comma.
    pub name: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// A description in one line.
    pub about: &'static str,
}

/// One key of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The word before `=`.
    pub name: &'static str,
    /// Whether it must be given.
    pub required: bool,
}

impl Kind {
    /// Its syntax, such as `rmat,scale=N,degree=N`, with optional keys in brackets.
    pub fn usage(&self) -> String {
        let mut usage = self.name.to_string();
        for key in self.keys {
            let value = if key.name == "name" { "NAME" } else { "N" };
            usage += &match key.required {
                true => format!(",{}={value}", key.name),
                false => format!("[,{}={value}]", key.name),
            };
        }
        usage
    }
}

/// A parsed specification: a kind with its required keys.
pub struct Spec<'a> {
    /// The text of the specification without the leading `gen:`.
    pub text: &'a str,
    /// The kind.
    pub kind: &'static Kind,
    values: Vec<(&'static str, &'a str)>,
}

impl<'a> Spec<'a> {
    /// Parses `text`, with or without a leading `gen:`; a usage error if the kind or a key is not in `kinds`.
    pub fn parse(text: &'a str, kinds: &'static [Kind]) -> Result<Self> {
        let text = text.strip_prefix("gen:").unwrap_or(text).trim();
        let mut words = text.split(',').map(str::trim);
        let asked = words.next().unwrap_or_default();
        let Some(kind) = kinds.iter().find(|kind| kind.name == asked) else {
            let names = kinds.iter().map(|kind| kind.name);
            return Err(Error::usage(format!(
                "unknown generator '{asked}'{}; the generators are {}",
                did_you_mean(asked, names.clone()),
                names.collect::<Vec<_>>().join(", ")
            )));
        };
        let mut spec = Self { text, kind, values: Vec::new() };
        for word in words {
            spec.add(word)?;
        }
        match kind.keys.iter().find(|key| key.required && spec.text_of(key.name).is_none()) {
            Some(missing) => Err(spec.usage_error(&format!("{}= is missing", missing.name))),
            None => Ok(spec),
        }
    }

    fn add(&mut self, word: &'a str) -> Result<()> {
        let Some((name, value)) = word.split_once('=') else {
            return Err(self.usage_error(&format!("'{word}' is not key=value")));
        };
        let (name, value) = (name.trim(), value.trim());
        let Some(key) = self.kind.keys.iter().find(|key| key.name == name) else {
            let names = self.kind.keys.iter().map(|key| key.name);
            return Err(self.usage_error(&format!("unknown key '{name}'{}", did_you_mean(name, names))));
        };
        if self.text_of(name).is_some() {
            return Err(self.usage_error(&format!("{name}= is given twice")));
        }
        self.values.push((key.name, value));
        Ok(())
    }

    /// A usage error with `reason` and the syntax of the kind.
    pub fn usage_error(&self, reason: &str) -> Error {
        Error::usage(format!("gen:{}: {reason}; write gen:{}", self.text, self.kind.usage()))
    }

    /// The value of the key `name` as text, if it was given.
    pub fn text_of(&self, name: &str) -> Option<&'a str> {
        self.values.iter().find(|(key, _)| *key == name).map(|&(_, value)| value)
    }

    /// The value of the key `name` as a number; `None` if it was not given.
    pub fn optional(&self, name: &str) -> Result<Option<u64>> {
        self.text_of(name)
            .map(|text| {
                text.parse()
                    .map_err(|_| self.usage_error(&format!("{name}={text} is not a whole number below 2^64")))
            })
            .transpose()
    }

    /// The value of the key `name` as a number; an error if it was not given.
    pub fn number(&self, name: &str) -> Result<u64> {
        self.optional(name)?.ok_or_else(|| self.usage_error(&format!("{name}= is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: &[Kind] = &[
        Kind {
            name: "uniform",
            keys: &[Key { name: "rows", required: true }, Key { name: "cols", required: false }],
            about: "",
        },
        Kind { name: "arrow", keys: &[], about: "" },
    ];

    fn refused(text: &str) -> String {
        Spec::parse(text, KINDS).err().unwrap().to_string()
    }

    #[test]
    fn an_unknown_kind_names_the_nearest_and_all() {
        let message = refused("unifrom,rows=3");
        assert!(message.contains("did you mean 'uniform'?"), "{message}");
        assert!(message.contains("the generators are uniform, arrow"), "{message}");
        assert!(!refused("zzzzzzzz").contains("did you mean"));
    }

    #[test]
    fn an_unknown_missing_or_repeated_key_shows_how_to_write_it() {
        let message = refused("uniform,row=3");
        assert!(message.contains("unknown key 'row' (did you mean 'rows'?)"), "{message}");
        assert!(message.ends_with("write gen:uniform,rows=N[,cols=N]"), "{message}");
        assert!(refused("uniform").contains("rows= is missing"));
        assert!(refused("uniform,rows=1,rows=2").contains("rows= is given twice"));
        assert!(refused("uniform,rows").contains("'rows' is not key=value"));
    }

    #[test]
    fn a_value_that_is_not_a_number_is_a_usage_error() {
        for text in ["-1", "1.5", "1e6", "", "18446744073709551616"] {
            let text = format!("gen:uniform,rows={text}");
            let spec = Spec::parse(&text, KINDS).unwrap();
            assert!(matches!(spec.number("rows"), Err(Error::Usage(_))));
        }
        let spec = Spec::parse("gen:uniform,rows=18446744073709551615", KINDS).unwrap();
        assert_eq!(spec.number("rows").unwrap(), u64::MAX);
        assert_eq!(spec.optional("cols").unwrap(), None);
    }
}
