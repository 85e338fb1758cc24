"""Writes many mutants of a Rust file into one text, each behind a switch: one build serves all of them.

A mutant is what `cargo mutants --list --json` prints. Which one is active is read when the program runs:

    replaced body      `if crate::mutant::active(7) { return false; }` before the body
    binary operator    `(if crate::mutant::active(7) { a - b } else { a + b })`
    unary operator     `(if crate::mutant::active(7) { a } else { !a })`
    match guard        `_ if (if crate::mutant::active(7) { true } else { guard }) =>`
    deleted arm        `_ if !crate::mutant::active(7) =>`
    deleted field      `field: (if crate::mutant::active(7) { (base).field } else { value })`

Some places cannot have a switch (constants, macros); there the mutant is left out, here or after the compiler refused it.
"""

import tree_sitter
import tree_sitter_rust

SWITCHES = '''//! Which mutant is active: the number in ROWLOOM_MUTANT.

use std::sync::OnceLock;

static ACTIVE: OnceLock<usize> = OnceLock::new();

/// Whether a mutant is active.
#[inline]
pub fn active(number: usize) -> bool {
    let read = || std::env::var("ROWLOOM_MUTANT").ok().and_then(|text| text.parse().ok());
    *ACTIVE.get_or_init(|| read().unwrap_or(usize::MAX)) == number
}
'''
PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))


def span_of(node):
    return node.start_byte, node.end_byte


class Schemata:
    """One file and its switches."""

    def __init__(self, text):
        self.text = text.encode()
        self.root = PARSER.parse(self.text).root_node
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line.encode()) + 1)
        # The byte range of an expression, with its parts, to the alternatives of that expression; and texts that are only added.
        self.wraps, self.insertions = {}, {}
        # What stands before the switch of a field that has only a name.
        self.names = {}

    def add(self, number, mutant):
        """Adds a mutant; returns whether its place can have a switch."""
        begin, end = self.byte(mutant["span"]["start"]), self.byte(mutant["span"]["end"])
        active = f"crate::mutant::active({number})"
        replacement = mutant["replacement"]
        node = self.root.descendant_for_byte_range(begin, end)
        match mutant["genre"]:
            case "FnValue":
                value = "" if replacement == "()" else f" {replacement}"
                self.insertions[begin] = self.insertions.get(begin, "") + f"if {active} {{ return{value}; }}\n"
            case "BinaryOperator":
                whole = node.parent if node else None
                if whole is None or whole.type not in ("binary_expression", "compound_assignment_expr"):
                    return False
                left, right = whole.child_by_field_name("left"), whole.child_by_field_name("right")
                self.wrap(span_of(whole), [left, f" {replacement} ", right], active)
            case "UnaryOperator":
                whole = node if node.type == "unary_expression" else node.parent
                if whole.type != "unary_expression":
                    return False
                self.wrap(span_of(whole), [whole.named_children[-1]], active)
            case "MatchArmGuard":
                self.wrap((begin, end), [replacement], active)
            case "MatchArm":
                while node is not None and node.type != "match_arm":
                    node = node.parent
                pattern = node.child_by_field_name("pattern") if node else None
                if pattern is None:
                    return False
                guard = pattern.child_by_field_name("condition")
                if guard is None:
                    self.insertions[pattern.end_byte] = f" if !{active}"
                else:
                    self.wrap(span_of(guard), ["false"], active)
            case "StructField":
                return self.delete_field(self.root.descendant_for_byte_range(begin, begin + 1), active)
            case _:
                return False
        return True

    def delete_field(self, node, active):
        while node is not None and node.type not in ("field_initializer", "shorthand_field_initializer"):
            node = node.parent
        base = [other for other in node.parent.named_children if other.type == "base_field_initializer"] if node else []
        if not base:
            return False
        base = self.of(base[0].named_children[0])
        if node.type == "shorthand_field_initializer":
            name, value = self.of(node), node
            self.names[span_of(value)] = f"{name}: "
        else:
            name, value = self.of(node.child_by_field_name("field")), node.child_by_field_name("value")
        self.wrap(span_of(value), [f"({base}).{name}"], active)
        return True

    def byte(self, place):
        """The offset of a line and a column, which count characters from 1."""
        line = self.lines[place["line"] - 1]
        return self.starts[place["line"] - 1] + len(line[: place["column"] - 1].encode())

    def of(self, node):
        return self.text[node.start_byte : node.end_byte].decode()

    def wrap(self, span, parts, active):
        self.wraps.setdefault(span, []).append((active, parts))

    def written(self):
        """The text with all switches."""
        return self.render(0, len(self.text), None)

    def render(self, begin, end, outer):
        """The range with its switches; `outer` is the expression whose switches are written around it."""
        inner = [span for span in self.wraps if begin <= span[0] and span[1] <= end and span != outer]
        at, written = begin, ""
        for span in sorted(inner, key=lambda span: (span[0], -span[1])):
            if span[0] < at:
                continue
            written += self.plain(at, span[0]) + self.switched(span)
            at = span[1]
        return written + self.plain(at, end)

    def switched(self, span):
        text = self.names.get(span, "") + "("
        for active, parts in self.wraps[span]:
            rendered = [part if isinstance(part, str) else self.part(part) for part in parts]
            text += f"if {active} {{ {''.join(rendered)} }} else "
        return f"{text}{{ {self.render(*span, span)} }})"

    def part(self, node):
        return self.render(node.start_byte, node.end_byte, None)

    def plain(self, begin, end):
        """Source text with the insertions in it; one at `end` belongs to the text after it."""
        written, at = "", begin
        for place in sorted(place for place in self.insertions if begin <= place < end):
            written += self.text[at:place].decode() + self.insertions[place]
            at = place
        return written + self.text[at:end].decode()
