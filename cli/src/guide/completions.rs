//! `rowloom completions`: a script that teaches a shell the commands, flags and names.
//!
//! clap writes the script; names with colons, lists with commas and `gen:KIND` beside files are added here.

use std::sync::LazyLock;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Arguments, CompletionsArguments, DENSE_GENERATORS, GENERATORS};
use crate::console::Console;
use crate::console::report::Report;
use crate::study::built_in::BUILT_IN;
use rowloom::internal::error::Result;

/// Commands that take matrices, which may be generated.
struct Inputs {
    commands: &'static str,
    /// The names of the arguments.
    arguments: &'static [&'static str],
    /// The function of the zsh script.
    function: &'static str,
    /// The kinds of generated matrices.
    generators: &'static LazyLock<Vec<String>>,
}

const INPUTS: [Inputs; 2] = [
    Inputs {
        commands: "run plan bench inspect convert",
        arguments: &["matrix", "matrices", "input"],
        function: "_rowloom_matrix",
        generators: &GENERATORS,
    },
    Inputs {
        commands: "gemm colmean",
        arguments: &["a", "b", "table"],
        function: "_rowloom_dense_matrix",
        generators: &DENSE_GENERATORS,
    },
];

impl Inputs {
    /// Generated matrices as the commands take them.
    fn names(&self) -> String {
        let names: Vec<String> = self.generators.iter().map(|name| format!("gen:{name}")).collect();
        names.join(" ")
    }
}

/// The function of the zsh script that offers studies.
const ZSH_STUDIES: &str = "_rowloom_study";

/// The names of the built-in studies.
fn studies() -> String {
    BUILT_IN.map(|study| study.name).join(" ")
}

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
        Shell::Zsh => zsh_names(&script),
        Shell::Fish => {
            let complete = |inputs: &Inputs| {
                let condition = format!("__fish_seen_subcommand_from {}", inputs.commands);
                format!("complete -c rowloom -n \"{condition}\" -a \"{}\"\n", inputs.names())
            };
            let studies = format!(
                "complete -c rowloom -n \"__fish_seen_subcommand_from study\" -a \"{}\"\n",
                studies()
            );
            script + &INPUTS.iter().map(complete).collect::<String>() + &studies
        }
        _ => script,
    }
}

/// The names that a flag offers in each command that has it.
fn names_of(flag: &str) -> Vec<(String, Vec<String>)> {
    let program = Arguments::command();
    let argument = |command: &clap::Command| {
        let own = command.get_arguments().find(|argument| argument.get_long() == Some(flag))?;
        let names = own.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        Some((command.get_name().to_owned(), names))
    };
    program.get_subcommands().filter_map(argument).collect()
}

/// A function around clap's that completes names: bash splits words at colons, and clap takes no lists.
fn bash_names() -> String {
    let mut cases = Vec::new();
    for flag in NAME_FLAGS {
        let mut lists = names_of(flag).into_iter();
        let Some((_, usual)) = lists.next() else { continue };
        for (command, names) in lists.filter(|(_, names)| *names != usual) {
            cases.push(format!("        \"{command} --{flag}\") names=\"{}\" ;;", names.join(" ")));
        }
        cases.push(format!("        *\" --{flag}\") names=\"{}\" ;;", usual.join(" ")));
    }
    let generated: Vec<String> = INPUTS
        .iter()
        .map(|inputs| {
            format!("        {}) generated=\"{}\" ;;", inputs.commands.replace(' ', "|"), inputs.names())
        })
        .collect();
    BASH_NAMES
        .replace("FLAG_CASES", &cases.join("\n"))
        .replace("INPUT_CASES", &generated.join("\n"))
        .replace("STUDIES", &studies())
}

const BASH_NAMES: &str = r#"
_rowloom_names() {
    local line="${COMP_LINE:0:COMP_POINT}" words cur prev names="" generated="" studies="" list="" reply
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    cur="${words[${#words[@]}-1]}"
    prev="${words[${#words[@]}-2]}"
    case "${words[1]} $prev" in
FLAG_CASES
    esac
    case "${words[1]}" in
INPUT_CASES
    esac
    [[ "${words[1]}" == study && ( "$prev" != -* || "$prev" == --save ) && "$cur" != -* ]] && studies="STUDIES"
    if [[ -n "$studies" ]]; then
        COMPREPLY=( $(compgen -W "$studies" -- "$cur") $(compgen -f -- "$cur") )
    elif [[ -n "$names" ]]; then
        # Complete the part of a list behind its last comma.
        [[ "$cur" == *,* ]] && list="${cur%,*},"
        COMPREPLY=( $(compgen -P "$list" -W "$names" -- "${cur#"$list"}") )
    elif [[ -n "$generated" && "$prev" != -* && -n "$cur" && ( gen: == "$cur"* || "$cur" == gen:* ) ]]; then
        COMPREPLY=( $(compgen -W "$generated" -- "$cur") $(compgen -f -- "$cur") )
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

/// clap's script with functions for matrices that offer files and generated ones, and for studies.
fn zsh_names(script: &str) -> String {
    let inputs_of = |line: &str| {
        let named =
            |name: &&str| line.trim_start_matches(['\'', '*', ':']).starts_with(&format!("{name} -- "));
        INPUTS.iter().find(|inputs| inputs.arguments.iter().any(named))
    };
    let mut lines: Vec<String> = Vec::new();
    for line in script.lines() {
        // In front of the first function, behind the `#compdef` line.
        if line.starts_with("_rowloom() {") {
            lines.extend(INPUTS.iter().map(|inputs| {
                let (function, names) = (inputs.function, inputs.names());
                format!("{function}() {{\n    _files\n    compadd -S '' -- {names}\n}}\n")
            }));
            lines.push(format!("{ZSH_STUDIES}() {{\n    _files\n    compadd -- {}\n}}\n", studies()));
        }
        let function = match inputs_of(line) {
            Some(inputs) => Some(inputs.function),
            None => line.starts_with("'::config -- ").then_some(ZSH_STUDIES),
        };
        lines.push(match function {
            Some(function) => line.replace(":_files'", &format!(":{function}'")),
            None => line.into(),
        });
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_flag_offers_names() {
        for flag in NAME_FLAGS {
            assert!(names_of(flag).iter().all(|(_, names)| names.len() > 4), "{flag}");
        }
    }

    #[test]
    fn zsh_offers_files_and_generators_for_every_matrix() {
        let script = script(Shell::Zsh);
        assert_eq!(script.matches(":_rowloom_matrix'").count(), INPUTS[0].commands.split(' ').count());
        assert_eq!(script.matches(":_rowloom_dense_matrix'").count(), 3);
        assert_eq!(script.matches(":_rowloom_study'").count(), 1);
        assert!(script.contains("_rowloom_matrix() {") && script.contains("gen:stencil27,n="));
    }
}
