//! Hints for words that the grammar refuses: the nearest command, and the flag that a surplus file belongs to.

use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::command::Arguments;
use rowloom::internal::suggest::nearest;

/// Endings of files that hold X.
const X_ENDINGS: [&str; 2] = [".npy", ".mtx"];

/// Adds to a refusal what was probably meant, where nothing is suggested yet. `command` is the command that was typed.
pub fn add(error: &mut clap::Error, command: Option<&str>) {
    let typed = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand if error.get(ContextKind::SuggestedSubcommand).is_none() => {
            let Some(word) = typed(error, ContextKind::InvalidSubcommand) else { return };
            let program = Arguments::command();
            let names = program.get_subcommands().map(clap::Command::get_name);
            if let Some(name) = nearest(&word, names) {
                let suggested = ContextValue::Strings(vec![name.to_owned()]);
                error.insert(ContextKind::SuggestedSubcommand, suggested);
            }
        }
        ErrorKind::UnknownArgument if matches!(command, Some("run" | "plan")) => {
            let Some(word) = typed(error, ContextKind::InvalidArg) else { return };
            if X_ENDINGS.iter().any(|ending| word.ends_with(ending)) {
                let hint = StyledStr::from(format!("X is a flag: write '--x {word}'"));
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint]));
            }
        }
        _ => {}
    }
}
