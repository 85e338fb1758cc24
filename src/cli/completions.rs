//! `rowloom completions`: a script that teaches a shell the commands, flags and names.
//!
//! clap writes the script; names with colons, lists with commas and `gen:KIND` beside files are added here.

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::{Arguments, CompletionsArguments, GENERATORS};
use super::console::Console;
use super::report::Report;
use crate::error::Result;

/// Commands that take a matrix.
const MATRIX_COMMANDS: &str = "run plan bench inspect convert";

/// Flags whose values are names: those that bash completes inside lists and behind colons.
const NAME_FLAGS: [&str; 3] = ["devices", "kernel", "kernels"];

/// Prints the script.
pub fn run(arguments: &CompletionsArguments, console: &Console) -> Result<()> {
    let script = script(arguments.shell);
    console.text(&script)?;
    console
        .json(&Report::new("completions").with("shell", arguments.shell.to_string()).with("script", script))
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "rowloom", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => format!("{script}{}", bash_names()),
        Shell::Zsh => zsh_matrices(&script),
        Shell::Fish => {
            let names = matrix_names().join(" ");
            let condition = format!("__fish_seen_subcommand_from {MATRIX_COMMANDS}");
            format!("{script}complete -c rowloom -n \"{condition}\" -a \"{names}\"\n")
        }
        _ => script,
    }
}

/// Generated matrices as MATRIX takes them.
fn matrix_names() -> Vec<String> {
    GENERATORS.iter().map(|name| format!("gen:{name}")).collect()
}

/// The names that a flag offers, in any command that has it.
fn names_of(flag: &str) -> Vec<String> {
    let program = Arguments::command();
    let argument = |command: &clap::Command| {
        let own = command.get_arguments().find(|argument| argument.get_long() == Some(flag))?;
        Some(own.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect())
    };
    program.get_subcommands().find_map(argument).unwrap_or_default()
}

/// A function around clap's that completes names: bash splits words at colons, and clap takes no lists.
fn bash_names() -> String {
    let cases: Vec<String> = NAME_FLAGS
        .iter()
        .map(|flag| format!("        --{flag}) names=\"{}\" ;;", names_of(flag).join(" ")))
        .collect();
    BASH_NAMES
        .replace("FLAG_CASES", &cases.join("\n"))
        .replace("MATRIX_COMMANDS", &MATRIX_COMMANDS.replace(' ', "|"))
        .replace("MATRIX_NAMES", &matrix_names().join(" "))
}

const BASH_NAMES: &str = r#"
_rowloom_names() {
    local line="${COMP_LINE:0:COMP_POINT}" words cur prev names="" list="" reply
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    cur="${words[${#words[@]}-1]}"
    prev="${words[${#words[@]}-2]}"
    case "$prev" in
FLAG_CASES
    esac
    if [[ -n "$names" ]]; then
        # Complete the part of a list behind its last comma.
        [[ "$cur" == *,* ]] && list="${cur%,*},"
        COMPREPLY=( $(compgen -P "$list" -W "$names" -- "${cur#"$list"}") )
    elif [[ "${words[1]}" =~ ^(MATRIX_COMMANDS)$ && "$prev" != -* && -n "$cur" && ( gen: == "$cur"* || "$cur" == gen:* ) ]]; then
        COMPREPLY=( $(compgen -W "MATRIX_NAMES" -- "$cur") $(compgen -f -- "$cur") )
    else
        _rowloom "$@"
        return
    fi
    for reply in "${COMPREPLY[@]}"; do
        [[ "$reply" == *= ]] && compopt -o nospace 2> /dev/null
    done
    # Bash replaces only what stands behind the last colon.
    if [[ "$cur" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        COMPREPLY=( "${COMPREPLY[@]#"${cur%:*}:"}" )
    fi
}

complete -F _rowloom_names -o bashdefault -o default rowloom
"#;

/// clap's script with a function for MATRIX that offers files and generated matrices.
fn zsh_matrices(script: &str) -> String {
    let is_matrix = |line: &str| {
        let names = ["matrix", "matrices", "input"];
        let named = |name| line.trim_start_matches(['\'', '*', ':']).starts_with(&format!("{name} -- "));
        names.into_iter().any(named)
    };
    let mut lines: Vec<String> = Vec::new();
    for line in script.lines() {
        // In front of the first function, behind the `#compdef` line.
        if line.starts_with("_rowloom() {") {
            lines.push(format!(
                "_rowloom_matrix() {{\n    _files\n    compadd -S '' -- {}\n}}\n",
                matrix_names().join(" ")
            ));
        }
        lines.push(if is_matrix(line) { line.replace(":_files'", ":_rowloom_matrix'") } else { line.into() });
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_flag_offers_names() {
        for flag in NAME_FLAGS {
            assert!(names_of(flag).len() > 5, "{flag}");
        }
    }

    #[test]
    fn zsh_offers_files_and_generators_for_every_matrix() {
        let script = script(Shell::Zsh);
        assert_eq!(script.matches(":_rowloom_matrix'").count(), MATRIX_COMMANDS.split(' ').count());
        assert!(script.contains("_rowloom_matrix() {") && script.contains("gen:stencil27,n="));
    }
}
