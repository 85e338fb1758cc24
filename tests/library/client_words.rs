//! Texts of the library name no flag, command or Cargo feature: a Rust or Python program could not follow such advice. The library
//! returns an `Advice`, and each client names its own flag, argument or method.

use std::fs;
use std::path::{Path, PathBuf};

use rowloom::internal::error::Advice;

/// Files with flags of other programs, such as compilers.
const FLAGS_OF_OTHER_PROGRAMS: [&str; 2] = ["device/cuda/forms.rs", "device/emulated/build.rs"];

/// The first line of a cost model, by which commands recognise the file.
const MARK_OF_MODELS: &str = "# Measured by rowloom calibrate";

/// The file with the advice in the words of Rust.
const WORDS_OF_RUST: &str = "error/advice.rs";

/// The sources of the library without files of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The source up to its module of tests.
fn without_tests(source: &str) -> &str {
    source.find("mod tests {").map_or(source, |at| &source[..at])
}

/// The string literals of a source with their lines. Comments are left out; a line that is continued is joined.
fn literals(source: &str) -> Vec<(usize, String)> {
    let bytes = source.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let line = |at: usize| 1 + source[..at].matches('\n').count();
    let find = |text: &str, from: usize| source[from..].find(text).map_or(source.len(), |at| from + at);
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            at = find("\n", at);
        } else if rest.starts_with("/*") {
            at = find("*/", at) + 2;
        } else if rest.starts_with('r') && (at == 0 || !is_word(bytes[at - 1]) || bytes[at - 1] == b'b') {
            let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
            if !rest[1 + hashes..].starts_with('"') {
                at += 1;
                continue;
            }
            let begin = at + hashes + 2;
            let end = find(&format!("\"{}", "#".repeat(hashes)), begin);
            found.push((line(at), source[begin..end].to_owned()));
            at = end + 1 + hashes;
        } else if rest.starts_with('"') {
            let begin = at + 1;
            at = begin;
            while bytes[at] != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            let parts = source[begin..at].split("\\\n");
            let joined: Vec<&str> = parts
                .enumerate()
                .map(|(number, part)| if number == 0 { part } else { part.trim_start() })
                .collect();
            found.push((line(begin), joined.concat()));
            at += 1;
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            // A quotation mark or an escape as a character.
            at = find("'", at + 2) + 1;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

/// The first word of a client in a text.
fn word_of_a_client(text: &str) -> Option<&str> {
    const COMMANDS: [&str; 12] = [
        "run",
        "plan",
        "inspect",
        "bench",
        "study",
        "trace",
        "devices",
        "calibrate",
        "generate",
        "convert",
        "fetch",
        "gemm",
    ];
    let words = || text.split(|c: char| c.is_whitespace() || "`'\"(),;:".contains(c));
    let is_flag = |word: &&str| {
        let long =
            word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
        let short = word
            .strip_prefix('-')
            .is_some_and(|name| name.len() == 1 && name.chars().all(char::is_alphabetic));
        long || short
    };
    let is_command = |(program, command): &(&str, &str)| *program == "rowloom" && COMMANDS.contains(command);
    words()
        .find(is_flag)
        .or_else(|| words().zip(words().skip(1)).find(is_command).map(|(_, command)| command))
        .or_else(|| text.contains("the feature `").then_some("the feature"))
        .or_else(|| text.contains("--features").then_some("--features"))
}

#[test]
fn texts_of_the_library_name_no_flag_command_or_feature() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut wrong, mut count) = (Vec::new(), Vec::new(), 0);
    sources(&root, &mut files);
    for path in files {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        if FLAGS_OF_OTHER_PROGRAMS.contains(&name) || name == WORDS_OF_RUST {
            continue;
        }
        for (line, text) in literals(without_tests(&fs::read_to_string(&path).unwrap())) {
            count += 1;
            if let Some(word) = word_of_a_client(&text).filter(|_| text != MARK_OF_MODELS) {
                wrong.push(format!("src/{name}:{line}: '{word}' in \"{text}\""));
            }
        }
    }
    assert!(count > 3000, "only {count} texts were found");
    assert!(wrong.is_empty(), "return an Advice instead:\n{}", wrong.join("\n"));
}

#[test]
fn words_of_clients_are_found_in_texts() {
    for (text, word) in [
        ("no CUDA driver found, or use --devices cpu", Some("--devices")),
        ("choose a smaller -k", Some("-k")),
        ("make it again with `rowloom convert`", Some("convert")),
        ("this build has no emulator; the feature `emulator` of the crate adds it", Some("the feature")),
        ("a minus - sign, -1, a --, and a range 1--2", None),
        ("written by rowloom 0.1", None),
    ] {
        assert_eq!(word_of_a_client(text), word, "{text}");
    }
}

#[test]
fn literals_are_found_and_comments_are_not() {
    let source = "let a = \"one\"; // \"no\"\n/* \"no\" */ let b = r#\"two \"2\"\"#;\nlet c = '\"'; /// \"no\"\nlet d = \"th\\\n    ree\\\"\";";
    let texts: Vec<(usize, String)> = literals(source);
    assert_eq!(texts, [(1, "one".into()), (2, "two \"2\"".into()), (4, "three\\\"".into())]);
}

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap()
}

#[test]
fn the_words_of_rust_name_public_items() {
    let (public, mut count) = (document("public-api.txt"), 0);
    for &advice in Advice::ALL {
        // Every second part is between backquotes.
        for code in advice.in_rust().split('`').skip(1).step_by(2) {
            let called = code.split('(').next().unwrap();
            let item = match (called.strip_prefix('.'), called.split_once('.')) {
                _ if code.starts_with("rowloom ") || !code.contains('(') => continue,
                (Some(method), _) | (None, Some((_, method))) => format!("::{method}("),
                (None, None) => format!("::{}", called.replace("::<f64>", "")),
            };
            assert!(public.contains(&item), "{advice:?}: {item} is not public");
            count += 1;
        }
    }
    assert!(count > 15, "only {count} items were found");
}

#[test]
fn the_document_lists_every_advice() {
    let document = document("programs.md");
    for advice in Advice::ALL {
        assert!(document.contains(&format!("| `{}` |", advice.name())), "{advice:?}");
    }
}
