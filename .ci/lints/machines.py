"""The numbers of `configs/machines` name their sources."""

import re

from texts import expect, read

MACHINES = ["a100.toml", "h100.toml", "h200.toml", "node8.toml"]
SOURCES = ["measured", "data sheet", "assumed", "published", "scaled", "as in h100.toml", "the H200's"]
# Comments that say that a number is another machine's, and that machine.
OTHERS = {"assumed, as in h200.toml": "h200.toml", "as in h100.toml": "h100.toml"}


def values(text):
    """The lines of a machine description: section and key -> value and comment."""
    section, found = "", {}
    for line in text.splitlines():
        key, equals, rest = line.partition(" = ")
        if line.startswith("["):
            section = line
        elif equals:
            value, _, comment = rest.partition("#")
            found[f"{section} {key.strip()}"] = (value.strip(), comment.strip())
    return found


def machine(name):
    return values(read(f"configs/machines/{name}"))


def without_source(found):
    """The keys of numbers whose comment names no source."""
    return [
        f"{key} = {value}"
        for key, (value, comment) in found.items()
        if re.fullmatch(r"[0-9._]*", value) and key != " gpus" and not any(source in comment for source in SOURCES)
    ]


def rule_every_number_names_its_source():
    """Every number of a machine says whether it was measured, is from a data sheet, is assumed or is another machine's."""
    return [f"configs/machines/{name}: {place}" for name in MACHINES for place in without_source(machine(name))]


def rule_numbers_of_another_machine():
    """Numbers of a machine that are said to be another machine's are equal to its numbers."""
    found, compared = [], 0
    for name in ["a100.toml", "h100.toml", "node8.toml"]:
        for key, (value, comment) in machine(name).items():
            for claim, other in OTHERS.items():
                if comment.startswith(claim):
                    compared += 1
                    own = machine(other).get(key, ("no value", ""))[0]
                    found += [f"configs/machines/{name}: {key}: {value}, {claim}: {own}"] if value != own else []
    expect(compared > 15, f"only {compared} numbers of machines were compared")
    return found


def check_values_have_their_section_and_comment():
    text = "gpus = 8\n[host]\ncores = 2 # data sheet\nname = \"a\"\nmemory = 1_0.5\n"
    found = values(text)
    expect(found["[host] cores"] == ("2", "data sheet"), "a value has not its section and comment")
    expect(without_source(found) == ["[host] memory = 1_0.5"], "numbers without a source are not found")
