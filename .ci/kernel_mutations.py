"""Mutants of a CUDA kernel: single changes in its text.

Comments, preprocessor lines and code that the emulator does not compile are not changed. Fences are not dropped: they have no effect in
the emulator, which shows every store at once.
"""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    path: Path
    # The line's number from 1, the columns of the change in it, and the new text.
    line: int
    start: int
    end: int
    new: str

    @property
    def file(self):
        return self.path.name

    def text(self):
        """The file's text with the change; all lines keep their numbers."""
        lines = self.path.read_text().split("\n")
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.start] + self.new + line[self.end :]
        return "\n".join(lines)

    def name(self):
        """The mutant without its line number: the line, with the change as [-old-]{+new+}. Equal lines of a file are numbered."""
        lines = self.path.read_text().split("\n")
        line = lines[self.line - 1]
        place = sum(other.strip() == line.strip() for other in lines[: self.line])
        changed = line[: self.start] + f"[-{line[self.start : self.end]}-]{{+{self.new}+}}" + line[self.end :]
        return f"{self.file}: {changed.strip()}" + (f" @{place}" if place > 1 else "")


# Binary operators have spaces on both sides, so that neither templates nor pointers match.
OPERATORS = {
    "<": ["<="],
    "<=": ["<"],
    ">": [">="],
    ">=": [">"],
    "==": ["!="],
    "!=": ["=="],
    "+": ["-"],
    "-": ["+"],
    "*": ["+"],
    "/": ["*"],
    "%": ["/"],
    "&": ["|"],
    "|": ["&"],
    "&&": ["||"],
    "||": ["&&"],
    "+=": ["="],
    "-=": ["+="],
    "|=": ["="],
}
OPERATOR = re.compile(r" (" + "|".join(re.escape(o) for o in sorted(OPERATORS, key=len, reverse=True)) + r") ")
NUMBER = re.compile(r"(?<![\w.])(\d+)(?=[uUlL]*(?![\w.]))")
SHUFFLES = {"__shfl_down_sync": "__shfl_up_sync", "__shfl_up_sync": "__shfl_down_sync", "__shfl_xor_sync": "__shfl_down_sync"}
SHUFFLE = re.compile("|".join(SHUFFLES))
EXTREME = re.compile(r"(?<!\w)(min|max)(?=\()")
BARRIER = re.compile(r"__sync(threads|warp)\([^;]*\);")
# A store to an element, or a call of a function that has no result.
STORE = re.compile(r"(?<![\w>] )(?<=\s)(\*?[A-Za-z_][\w.]*(\[[^;]*\])+|\*[a-z_]\w*) [-+|]?= [^;]*;")
CALL = re.compile(r"(?<=\s)(?<!= )(?<!: )(?<!return )(?!return|__sync|__threadfence|static_assert)[a-z_]\w*(<[^;=]*>)?\([^;=]*\);\s*$")
CONDITION = re.compile(r"\bif \(")


def mutants_of(path):
    """All mutants of a kernel's file."""
    found = []
    for number, code in enumerate(code_lines(path.read_text()), 1):
        changes = changes_of(code)
        found += [Mutant(path, number, start, end, new) for start, end, new in changes]
    return found


def changes_of(code):
    """The changes of a line: first column, end, new text."""
    declares = code.strip().startswith(("template", "static __device__", "static_assert", "extern", "struct")) and "{" not in code
    # At the start of a line, a macro's name makes the entries of forms.
    if declares or re.match(r"[A-Z]", code):
        return []
    changes = []
    # An operator's last space may be the next one's first.
    for match in re.finditer(r"(?=" + OPERATOR.pattern + ")", code):
        start, old = match.start(1), match.group(1)
        # A step of a loop that is not added leaves an endless loop.
        if old == "+=" and in_loop_header(code, start):
            continue
        changes += [(start, start + len(old), new) for new in OPERATORS[old]]
    for match in NUMBER.finditer(code):
        number = int(match.group(1))
        # Other widths of a warp than 32, and sizes of whole types, are changed too: they must be noticed.
        changes += [(match.start(1), match.end(1), str(new)) for new in (number + 1, number - 1) if new >= 0]
    changes += [(match.start(), match.end(), SHUFFLES[match.group()]) for match in SHUFFLE.finditer(code)]
    for match in EXTREME.finditer(code):
        changes.append((match.start(1), match.end(1), "max" if match.group(1) == "min" else "min"))
    for pattern in (BARRIER, STORE, CALL):
        changes += [(match.start(), match.end(), ";") for match in pattern.finditer(code)]
    for match in CONDITION.finditer(code):
        end = closing(code, match.end() - 1)
        if end is not None:
            condition = code[match.end() : end]
            changes.append((match.end(), end, f"!({condition})"))
    return changes


def in_loop_header(code, at):
    header = code.find("for (")
    if header < 0:
        return False
    end = closing(code, header + 4)
    return end is None or at < end


def closing(code, opening):
    """The column of the parenthesis that closes the one at `opening`, if it is in this line."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return None


def code_lines(text):
    """The lines with comments, preprocessor lines and code of other compilers as spaces."""
    active, continued = [], False
    for line in text.split("\n"):
        directive = line.strip().startswith("#")
        if directive or continued:
            # Only this name is defined in the emulator. The other conditions select exact forms and instructions of cards.
            if line.startswith("#if"):
                active.append("ROWLOOM_EMULATED" in line and "!defined" not in line)
            elif line.startswith("#else"):
                active[-1] = not active[-1]
            elif line.startswith("#endif"):
                active.pop()
            continued = line.endswith("\\")
            yield ""
        elif not all(active):
            yield ""
        else:
            yield re.sub(r"//.*", lambda comment: " " * len(comment.group()), line)
