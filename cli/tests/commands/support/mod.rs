//! The real binary in a folder of its own.

pub mod python;
pub mod random;

use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;

/// A temporary folder to run `rowloom` in.
pub struct Place {
    folder: tempfile::TempDir,
    /// What runs learn is kept here, for all commands of the place.
    cache: tempfile::TempDir,
}

/// What a run left behind.
pub struct ProcessOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path in the folder of what runs learn.
    pub fn cache(&self, name: &str) -> PathBuf {
        self.cache.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Names of all files here, sorted.
    pub fn names(&self) -> Vec<String> {
        self.names_in("")
    }

    /// Names of all files in a folder here, sorted.
    pub fn names_in(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowloom"));
        command.current_dir(self.folder.path()).args(words.split_whitespace());
        // What was measured of the machine that tests run on is none of their business.
        command.env("XDG_CONFIG_HOME", self.path("config"));
        command.env("XDG_CACHE_HOME", self.cache.path());
        command
    }

    /// The same as [`Self::command`], to be spawned.
    pub fn process(&self, words: &str) -> std::process::Command {
        let mut process = std::process::Command::new(env!("CARGO_BIN_EXE_rowloom"));
        process.current_dir(self.folder.path()).args(words.split_whitespace());
        process.env("XDG_CONFIG_HOME", self.path("config")).env("XDG_CACHE_HOME", self.cache.path());
        process
    }

    pub fn run(&self, words: &str) -> ProcessOutput {
        let output = self.command(words).output().unwrap();
        ProcessOutput {
            code: output.status.code().expect("no signal ends the program"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed.
    pub fn succeed(&self, words: &str) -> ProcessOutput {
        let outcome = self.run(words);
        assert_eq!(outcome.code, 0, "{words}: {}", outcome.stderr);
        outcome
    }

    /// Runs a command whose standard output must be one JSON object and nothing else.
    pub fn json(&self, words: &str) -> Value {
        let outcome = self.succeed(words);
        serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{words}: {error}\n{}", outcome.stdout))
    }

    /// Runs a command that must fail with `code`, a single message that holds `part`, and no result. With `--json` standard output has the
    /// same message as an object, except where the words themselves are wrong.
    pub fn fail(&self, words: &str, code: i32, part: &str) {
        let outcome = self.run(words);
        assert_eq!(outcome.code, code, "{words}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{words}: '{part}' is not in: {}", outcome.stderr);
        assert!(outcome.stderr.starts_with("error: "), "{words}: {}", outcome.stderr);
        let is_refused_usage = code == 2 && outcome.stdout.is_empty();
        if words.split_whitespace().any(|word| word == "--json") && !is_refused_usage {
            let object: Value = serde_json::from_str(&outcome.stdout).unwrap();
            let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["command", "error", "rowloom"], "{words}");
            assert_eq!(object["error"]["exit_code"], code, "{words}");
            assert!(object["error"]["message"].as_str().unwrap().contains(part), "{words}: {object}");
        } else {
            assert_eq!(outcome.stdout, "", "{words}");
        }
    }
}

/// A small matrix: 3 x 4, six nonzeros, one empty row.
pub const SMALL: &str = "%%MatrixMarket matrix coordinate real general\n3 4 6\n\
                         1 1 1.5\n1 4 -2\n3 1 4\n3 2 5\n3 3 6\n3 4 7\n";
