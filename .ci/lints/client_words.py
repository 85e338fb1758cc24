"""Texts of the library name no flag, command or Cargo feature: a Rust or Python program could not follow such advice. The library
returns an `Advice`, and each client names its own flag, argument or method."""

import re

from texts import expect, files, line_of, read

# Files with flags of other programs, such as compilers, and the file with the advice in the words of Rust.
EXEMPT = ["src/device/cuda/forms.rs", "src/device/emulated/build.rs", "src/error/advice.rs"]

# The first line of a cost model, by which commands recognise the file.
MARK_OF_MODELS = "# Measured by rowloom calibrate"

COMMANDS = "run plan inspect bench study trace devices calibrate generate convert fetch gemm".split()

# Comments, raw strings, strings, and quotation marks or escapes as characters.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?<![A-Zac-z0-9_])r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)|"(?P<text>(?:\\.|[^"\\])*)"|'"'|'\\(?:'|[^']*)'""",
    re.DOTALL,
)
FLAG = re.compile(r"--[a-z].*|-[^\W\d_]", re.DOTALL)


def literals(source):
    """The string literals of a source with their lines. Comments are left out; a line that is continued is joined."""
    found = []
    for token in TOKEN.finditer(source):
        if token["raw"] is not None:
            found.append((line_of(source, token.start()), token["raw"]))
        elif token["text"] is not None:
            found.append((line_of(source, token.start()), re.sub(r"\\\n\s*", "", token["text"])))
    return found


def word_of_a_client(text):
    """The first word of a client in a text; none if there is none."""
    parts = re.split(r"[\s`'\"(),;:]", text)
    found = [word for word in parts if FLAG.fullmatch(word)]
    found += [command for program, command in zip(parts, parts[1:]) if program == "rowloom" and command in COMMANDS]
    found += [words for words, mark in [("the feature", "the feature `"), ("--features", "--features")] if mark in text]
    return found[0] if found else None


def is_source(path):
    """Whether a file of the library is not one of tests."""
    return path.endswith(".rs") and not path.endswith("tests.rs") and "/tests/" not in path


def rule_texts_of_the_library():
    """Texts of the library name no flag, command or feature; return an Advice instead."""
    found, count = [], 0
    for path in files("src"):
        if is_source(path) and path not in EXEMPT:
            texts = literals(read(path).split("mod tests {")[0])
            count += len(texts)
            texts = [(line, text, word_of_a_client(text)) for line, text in texts if text != MARK_OF_MODELS]
            found += [f"{path}:{line}: '{word}' in \"{text}\"" for line, text, word in texts if word]
    expect(count > 3000, f"only {count} texts of the library were found")
    return found


def check_words_of_clients_are_found():
    for text, word in [
        ("no CUDA driver found, or use --devices cpu", "--devices"),
        ("choose a smaller -k", "-k"),
        ("make it again with `rowloom convert`", "convert"),
        ("this build has no emulator; the feature `emulator` of the crate adds it", "the feature"),
        ("a minus - sign, -1, a --, and a range 1--2", None),
        ("written by rowloom 0.1", None),
    ]:
        expect(word_of_a_client(text) == word, f"{text}: {word_of_a_client(text)}, not {word}")


def check_literals_are_found_and_comments_are_not():
    source = (
        'let a = "one"; // "no"\n/* "no" */ let b = r#"two "2""#;\nlet c = \'"\'; /// "no"\n'
        'let d = "th\\\n    ree\\"";'
    )
    wanted = [(1, "one"), (2, 'two "2"'), (4, 'three\\"')]
    expect(literals(source) == wanted, f"literals: {literals(source)}, not {wanted}")
