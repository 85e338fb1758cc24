//! The reason of an error: plain words that hold for every client, and what would help.

use std::fmt;

use super::advice::{Advice, with_advice};

/// Why something is not possible, in plain words, and what would help. The words name no flag, argument or method.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reason {
    words: String,
    advice: Vec<Advice>,
}

impl Reason {
    /// The words, without advice.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// What would help.
    #[doc(hidden)]
    pub fn advice(&self) -> &[Advice] {
        &self.advice
    }

    /// The same with more advice.
    #[doc(hidden)]
    pub fn advise(mut self, advice: impl IntoIterator<Item = Advice>) -> Self {
        self.advice.extend(advice);
        self
    }

    /// The same advice after words that are made from these.
    #[doc(hidden)]
    pub fn map_words(self, words: impl FnOnce(&str) -> String) -> Self {
        Self { words: words(&self.words), advice: self.advice }
    }
}

impl From<String> for Reason {
    fn from(words: String) -> Self {
        Self { words, advice: Vec::new() }
    }
}

impl From<&str> for Reason {
    fn from(words: &str) -> Self {
        words.to_owned().into()
    }
}

impl From<Vec<Advice>> for Reason {
    fn from(advice: Vec<Advice>) -> Self {
        Self { words: String::new(), advice }
    }
}

impl From<Advice> for Reason {
    fn from(advice: Advice) -> Self {
        vec![advice].into()
    }
}

impl fmt::Display for Reason {
    /// The words, and the advice in those of Rust.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_advice(&self.words, &self.advice, |advice| Some(advice.in_rust())))
    }
}
