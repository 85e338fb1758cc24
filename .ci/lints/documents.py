"""What documents say of other files is so: links, commands of results, constants."""

import pathlib
import re

from texts import ROOT, expect, files, read

READMES = ["README.md", "CONTRIBUTING.md", "configs/README.md", "kernels/README.md", "traces/README.md", "benches/fit/README.md"]
# The code of automatic devices, whose constants docs/planner.md lists.
AUTOMATIC_DEVICES = ["adapt/processor_choice", "runtime/product/adaptation/mod", "runtime/product/adaptation/opening", "runtime/product/adaptation/sharing"]


def documents():
    """Path and text of every document."""
    paths = [path for path in files("docs", "benches/results") if path.endswith(".md")]
    return [(path, read(path)) for path in READMES + paths]


def links(text):
    """The files that a text links to, without those of other sites."""
    targets = [part.split(")")[0] for part in text.split("](")[1:]]
    return [file for target in targets if "://" not in target and (file := target.split("#")[0])]


def commands(text):
    """Lines of code that call the program, and calls inside of sentences, without the program's name."""
    called, in_code, whole = [], False, ""
    for line in text.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif in_code:
            whole += line.rstrip("\\")
            if not line.endswith("\\"):
                called.append(re.sub(r"^(\$ )*", "", whole))
                whole = ""
        else:
            called += line.split("`")[1::2]
    return [line.removeprefix("rowloom ") for line in called if line.startswith("rowloom ")]


def placeholder(command):
    """The first word in place of an argument, such as MATRIX or (FILE); a variable of the shell is none."""
    for word in command.split():
        letters = re.sub(r"^[^A-Za-z]*|[^A-Za-z]*$", "", word)
        if word.startswith("(") or re.fullmatch("[A-Z]{2,}", letters):
            return None if word.startswith("$") else word
    return None


def constants(code):
    """The constants of a source that stand at the start of a line: name -> value."""
    return dict(re.findall(r"^(?:pub\(super\) )?const ([A-Z_]+): .*? = (.*?);*$", code, re.M))


def rule_links_lead_to_files():
    """Links of documents lead to files that exist."""
    found = [(path, file) for path, text in documents() for file in links(text)]
    expect(len(found) > 20, f"only {len(found)} links were found")
    return [f"{path}: {file}" for path, file in found if not (ROOT / pathlib.Path(path).parent / file).exists()]


def rule_commands_of_results():
    """Commands of results have no words in place of arguments: everyone can run them as they are."""
    called = [(path, command) for path, text in documents() if path.startswith("benches/results/") for command in commands(text)]
    expect(len(called) > 10, f"only {len(called)} commands of results were found")
    return [f"{path}: rowloom {command}: {word}" for path, command in called if (word := placeholder(command))]


def rule_constants_of_automatic_devices():
    """The constants of automatic devices in docs/planner.md are those of the code."""
    code = constants("\n".join(read(f"src/{file}.rs") for file in AUTOMATIC_DEVICES))
    rows = re.findall(r"^\| `([A-Z_]+)` *\| *(.*?) *\|", read("docs/planner.md"), re.M)
    expect(len(rows) > 10, f"only {len(rows)} constants were compared")
    return [f"docs/planner.md: {name}: {value}, in the code: {code.get(name)}" for name, value in rows if code.get(name) != value]


def check_commands_are_found_in_code_and_sentences():
    text = "Call `rowloom run a` or `ls`.\n```sh\n$ rowloom plan \\\n  b\nls\nrowloom bench c\n```\n"
    wanted = ["run a", "plan   b", "bench c"]
    expect(commands(text) == wanted, f"commands: {commands(text)}, not {wanted}")


def check_links_are_found():
    wanted = ["a.md", "b/c.md"]
    found = links("[a](a.md), [b](https://b.org/a.md), [c](b/c.md#part), [d](#part)")
    expect(found == wanted, f"links: {found}, not {wanted}")


def check_placeholders_are_found():
    for command, word in [("run MATRIX -k 8", "MATRIX"), ("run (a file)", "(a"), ("run $MATRIX", None), ("run A.mtx -k 8", None)]:
        expect(placeholder(command) == word, f"{command}: {placeholder(command)}, not {word}")


def check_constants_are_found():
    found = constants("// const A: u32 = 1;\npub(super) const MOST: u64 = 1 << 20;\nconst LEAST_S: f64 = 0.5;\n    const B: u32 = 2;\n")
    expect(found == {"MOST": "1 << 20", "LEAST_S": "0.5"}, f"constants: {found}")
