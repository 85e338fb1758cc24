//! Help, completions, manual page, usage errors and notes.

use std::process::Command;

use crate::support::Place;

const COMMANDS: [&str; 17] = [
    "run",
    "gemm",
    "colmean",
    "plan",
    "bench",
    "study",
    "calibrate",
    "report",
    "inspect",
    "convert",
    "fetch",
    "generate",
    "trace",
    "devices",
    "demo",
    "completions",
    "man",
];

#[test]
fn help_of_every_command_goes_to_standard_output() {
    let place = Place::new();
    let root = place.succeed("--help").stdout;
    for command in COMMANDS {
        assert!(root.contains(&format!("\n  {command} ")), "{command}");
        let help = place.succeed(&format!("{command} --help")).stdout;
        for flag in ["--json", "--quiet", "--color"] {
            assert!(help.contains(flag), "{command} {flag}");
        }
    }
    assert_eq!(place.succeed("--version").stdout, format!("rowloom {}\n", env!("CARGO_PKG_VERSION")));
}

/// Lines of help, in columns of characters.
fn widest(help: &str) -> usize {
    help.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn short_help_fits_one_screen_and_long_help_says_more() {
    let place = Place::new();
    for command in COMMANDS.into_iter().chain([""]) {
        let short = place.succeed(&format!("{command} -h")).stdout;
        let long = place.succeed(&format!("{command} --help")).stdout;
        assert!(short.lines().count() <= 40, "{command} -h has {} lines", short.lines().count());
        assert!(widest(&short) <= 80, "{command} -h is {} columns wide", widest(&short));
        assert!(widest(&long) <= 100, "{command} --help is {} columns wide", widest(&long));
        assert!(long.len() >= short.len(), "{command}");
    }
    let (short, long) = (place.succeed("run -h").stdout, place.succeed("run --help").stdout);
    assert!(long.lines().count() > 2 * short.lines().count());
    assert!(long.contains("csr_vector_subwarp") && !short.contains("csr_vector_subwarp"));
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let place = Place::new();
    let matrix = "gen:stencil5,n=9";
    for (words, meant) in [
        (format!("run {matrix} --kernel cpu_scr"), "cpu_csr"),
        (format!("plan {matrix} --kernel csr_vektor"), "csr_vector"),
        (format!("bench {matrix} --kernels csr_vektor"), "csr_vector"),
        (format!("run {matrix} --devices gpu:0"), "cuda:0"),
        (format!("plan {matrix} --devices sim:h20"), "sim:h200"),
        ("run gen:stencl5,n=9".into(), "stencil5"),
        ("generate stencil5,m=9 a.mtx".into(), "n"),
        (format!("run {matrix} --mode residnt"), "resident"),
        ("rum".into(), "run"),
    ] {
        let outcome = place.run(&words);
        assert_eq!(outcome.code, 2, "{words}");
        let said = outcome.stderr;
        let suggested = said.contains(&format!("did you mean '{meant}'?")) || said.contains("similar");
        assert!(suggested && said.contains(meant), "{words}: {said}");
    }
}

#[test]
fn what_was_probably_meant_is_said() {
    let place = Place::new();
    place.write("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1\n");
    place.write("xt.mtx", "%%MatrixMarket matrix array real general\n2 3\n1\n1\n1\n1\n1\n1\n");
    place.write("notes.mtx", "# Rowloom\n");
    place.succeed("gemm gen:dense,rows=3,cols=2 gen:dense,rows=2,cols=2 --output d.npy");
    for (words, code, said) in [
        ("run a.mtx --x rand", 3, "did you mean random?"),
        ("run a.mtx --x xt.mtx", 3, "X is 2 x 3; transpose it, since A has 3 columns"),
        ("run stencil27,n=8", 3, "did you mean gen:stencil27,n=8?"),
        ("bench stencil27,n=8", 3, "did you mean gen:stencil27,n=8?"),
        ("run bcsstk18", 3, "write suitesparse:bcsstk18"),
        ("run d.npy", 3, "give a sparse matrix; `rowloom gemm` multiplies dense matrices"),
        ("run notes.mtx", 3, "the first line is '# Rowloom'"),
        ("gemm d.npy d.npy c.npy", 2, "use '--output c.npy'"),
        ("multiply a.mtx", 2, "'run'"),
        ("mul a.mtx", 2, "'run'"),
        ("info a.mtx", 2, "'inspect'"),
        ("plan a.mtx --devices sim:h200x1000", 2, "a machine has from 1 to 64 GPUs of kind h200, not 1000"),
    ] {
        let outcome = place.run(words);
        let stderr = outcome.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(outcome.code == code && stderr.contains(said), "{words}: {stderr}");
    }
}

#[test]
fn no_command_takes_zero_columns() {
    let place = Place::new();
    for command in ["run", "plan", "bench"] {
        place.fail(&format!("{command} gen:stencil5,n=9 -k 0"), 2, "at least 1");
    }
}

#[test]
fn a_flag_without_effect_is_noted_once() {
    let place = Place::new();
    place.write("a.mtx", crate::support::SMALL);
    for (words, flags) in [
        (
            "run a.mtx --devices cpu --mode stream --transfer staged --mem-limit 1GiB --cpu-share 0.5 --x ones --seed 2",
            &["mode", "transfer", "mem-limit", "cpu-share", "seed"][..],
        ),
        (
            "run gen:stencil5,n=9 --devices sim:h200 --warmup 3 --schedule balanced --model none --tune --no-refine \
             --threads 1 --finite --x ones",
            &["warmup", "schedule", "model", "tune", "no-refine", "threads", "finite", "x"],
        ),
        ("run gen:stencil5,n=9 --devices emu:0 --schedule equal-rows --repeat 1", &["schedule"]),
        ("plan a.mtx --devices cpu --mode resident --seed 3", &["mode", "seed"]),
        ("inspect a.mtx --seed 3", &["seed"]),
        ("inspect gen:stencil5,n=9 --finite", &["finite"]),
        ("convert a.mtx b.rlm --seed 3", &["seed"]),
        ("bench gen:stencil5,n=9 --devices cpu -k 1 --repeat 3 --json=b.json", &[]),
        ("calibrate --from b.json --devices cpu --output m.toml --seed 3", &["seed"]),
    ] {
        let said = place.succeed(words).stderr;
        for flag in flags {
            let note = format!("note: --{flag} has no effect: ");
            assert_eq!(said.matches(&note).count(), 1, "{words}: {flag}: {said}");
        }
        assert_eq!(said.matches("has no effect").count(), flags.len(), "{words}: {said}");
    }
    let quiet =
        "run gen:stencil5,n=9 --devices cpu,emu:0 --mode resident --cpu-share 0.5 --repeat 1 --seed 2";
    assert!(!place.succeed(quiet).stderr.contains("no effect"));
}

#[test]
fn wrong_words_are_a_usage_error() {
    let place = Place::new();
    for words in
        ["weave", "run", "run --sideways a.mtx", "convert a.mtx", "completions klingon", "devices extra"]
    {
        place.fail(words, 2, "--help");
    }
    assert_eq!(place.run("").code, 2);
    assert!(place.names().is_empty());
}

#[test]
fn help_says_what_to_do_first_and_where_names_are_listed() {
    let place = Place::new();
    let completions = place.succeed("completions --help").stdout;
    for folder in ["~/.local/share/bash-completion/completions", "~/.config/fish/completions"] {
        assert!(completions.contains(&format!("mkdir -p {folder}\n")), "{completions}");
    }
    let run = place.succeed("run --help").stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(run.contains("listed below") && !run.contains("see --help"), "{run}");
    assert!(run.contains("if the remaining products save more time"), "{run}");
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.succeed(&format!("completions {shell}")).stdout;
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} {command}");
        }
    }
    let report = place.json("completions fish --json");
    assert!(report["script"].as_str().unwrap().contains("rowloom"));
}

/// What bash offers for the last word of a line.
fn bash_completions(script: &std::path::Path, line: &str) -> Option<Vec<String>> {
    let ask = r#"
        source "$1" || exit 1
        COMP_LINE="$2" COMP_POINT="${#2}"
        # As bash splits the line: at blanks, and at colons and equals signs, which are words of their own.
        read -ra COMP_WORDS <<< "$(sed 's/[:=]/ & /g' <<< "$2")"
        [[ "$2" == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
        complete -p rowloom | grep -o -- '-F [^ ]*' | tail -n 1 > "$1.function"
        read -r _ function < "$1.function"
        "$function" rowloom "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}" 2> /dev/null
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = Command::new("bash")
        .args(["--norc", "-c", ask, "bash"])
        .arg(script)
        .arg(line)
        .current_dir(script.parent()?)
        .output()
        .ok()?;
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn bash_completes_names_of_devices_kernels_and_generators() {
    let place = Place::new();
    place.write("script.bash", place.succeed("completions bash").stdout);
    place.write("generic.mtx", crate::support::SMALL);
    for (line, wanted) in [
        ("rowloom run a.mtx --kernel csr_vec", "csr_vector"),
        ("rowloom bench a.mtx --kernels cpu_csr,csr_vec", "cpu_csr,csr_vector"),
        ("rowloom gemm a.npy b.npy --kernel gemm_t", "gemm_tiled_t16"),
        ("rowloom colmean a.npy --kernel col", "colmean_warp"),
        ("rowloom gemm a.npy gen:de", "dense,rows="),
        ("rowloom run a.mtx --devices cu", "cuda:0"),
        ("rowloom run a.mtx --devices cpu,em", "cpu,emu:0"),
        // Bash replaces what stands behind the colon.
        ("rowloom run a.mtx --devices sim:h2", "h200"),
        ("rowloom run a.mtx --devices cpu,sim:h2", "h200"),
        ("rowloom run ge", "gen:stencil27,n="),
        ("rowloom run ge", "generic.mtx"),
        ("rowloom run gen:sten", "stencil27,n="),
        ("rowloom generate sten", "stencil27,n="),
        ("rowloom run a.mtx --mode res", "resident"),
        ("rowloom be", "bench"),
        ("rowloom study qui", "quick"),
        ("rowloom study --save source-c", "source-cuda"),
        ("rowloom study ", "generic.mtx"),
        ("rowloom study --l", "--list"),
        ("rowloom run --ver", "--verify"),
    ] {
        let Some(offered) = bash_completions(&place.path("script.bash"), line) else {
            crate::skip::skip("bash", "there is no bash");
            return;
        };
        assert!(offered.iter().any(|word| word == wanted), "{line}: {offered:?}");
    }
    for (shell, part) in [("zsh", "_rowloom_matrix"), ("fish", "gen:stencil27,n=")] {
        let script = place.succeed(&format!("completions {shell}")).stdout;
        for name in ["csr_vector", "sim", "stencil27,n", "cluster-weak-scaling", part] {
            assert!(script.contains(name), "{shell} {name}");
        }
    }
}

#[test]
fn the_manual_names_every_command() {
    let place = Place::new();
    let page = place.succeed("man").stdout;
    assert!(page.contains(".TH rowloom 1"));
    let written = place.succeed("man pages");
    assert_eq!(written.stdout, "");
    assert!(written.stderr.ends_with(" manual pages into pages\n"), "{}", written.stderr);
    let quiet = place.succeed("man pages --quiet");
    assert_eq!((quiet.stdout, quiet.stderr), (String::new(), String::new()));
    for command in COMMANDS {
        assert!(page.contains(&format!("rowloom\\-{command}(1)")), "{command}");
        let own = place.read(&format!("pages/rowloom-{command}.1"));
        assert!(
            own.contains(&format!(".TH rowloom-{command} 1  \"rowloom {}\"", env!("CARGO_PKG_VERSION"))),
            "{own}"
        );
        for text in ["Replace existing files even if", "Print results and errors only"] {
            assert!(own.contains(text), "{command}: {text}");
        }
    }
    assert!(place.read("pages/rowloom-run.1").contains("\\-\\-verify"));
}

#[test]
fn a_full_disk_is_exit_code_1() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rowloom")).arg("man").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write standard output"));
}

#[test]
fn json_goes_to_a_file_whole_or_not_at_all() {
    let place = Place::new();
    let table = place.succeed("devices --json=report.json").stdout;
    assert!(!table.is_empty(), "the table is still shown");
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(report["command"], "devices");
    assert_eq!(place.names(), ["report.json"]);
    place.fail("devices --json=none/report.json", 1, "cannot write none/report.json");
}

#[test]
fn colors_are_only_used_when_asked_for() {
    let place = Place::new();
    assert!(!place.succeed("devices").stdout.contains('\x1b'));
    assert!(place.succeed("devices --color always").stdout.contains('\x1b'));
    assert!(place.run("inspect none.mtx --color always").stderr.contains("\x1b[1;31merror:"));
}

#[test]
fn sentences_are_wrapped_at_the_width_of_the_terminal() {
    let place = Place::new();
    for columns in [50, 80, 120] {
        for words in [
            "plan gen:stencil5,n=30 -k 4 --devices sim:h200x2",
            "bench gen:stencil5,n=30 -k 4 --kernels cpu_csr,cpu_sell --devices cpu --repeat 3",
        ] {
            let output = place.command(words).env("COLUMNS", columns.to_string()).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let first = text.lines().take_while(|line| !line.is_empty() && !line.contains("rank"));
            for line in first {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
    }
    // Notes and errors are wrapped on a terminal only, so that scripts find them.
    let refused = "study quik";
    let error = place.run(refused).stderr;
    assert_eq!(error.lines().count(), 1, "{error}");
    let Some(python) = crate::support::python::python("pty") else { return };
    let output = Command::new(python)
        .args(["-c", IN_A_TERMINAL, env!("CARGO_BIN_EXE_rowloom")])
        .args(refused.split(' '))
        .args(["--color", "never"])
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    assert!(shown.lines().count() > 2 && shown.lines().all(|line| line.chars().count() <= 50), "{shown}");
    assert_eq!(shown.replace('\n', " "), error.replace('\n', " "));
}

/// Runs a command in a terminal of 50 columns and prints what it shows.
const IN_A_TERMINAL: &str = "
import fcntl, os, pty, struct, sys, termios
process, terminal = pty.fork()
if process == 0:
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 50, 0, 0))
    os.environ.pop('COLUMNS', None)
    os.execv(sys.argv[1], sys.argv[1:])
shown = b''
try:
    while data := os.read(terminal, 4096):
        shown += data
except OSError:
    pass
sys.stdout.write(shown.decode())
";
