#!/usr/bin/env python3
"""Compares the public items of the library with docs/public-api.txt, the list that the repository keeps.

    .ci/public_api.py            fails if the list and the library differ, or if there are too many items
    .ci/public_api.py --write    accepts the change: writes the list

An item is a module, type, trait, function, method, constant, variant (with its fields) or public field that a program can name. Items of hidden
modules (`#[doc(hidden)]`) and implementations of traits do not count. The list has every signature, so a changed one is a change.
"""

import difflib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "docs" / "public-api.txt"
FEATURES = "hwloc,mpi,faer,ndarray,sprs"
MOST_ITEMS = 300


def rustdoc():
    """The library as rustdoc describes it in JSON, which needs a switch for unstable options.

    Only rustdoc gets the switch: with it, cargo would compile the dependencies again."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    target.mkdir(exist_ok=True)
    wrapper = target.resolve() / "rustdoc-unstable"
    wrapper.write_text('#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc "$@"\n')
    wrapper.chmod(0o755)
    command = ["cargo", "rustdoc", "--quiet", "--package", "rowloom", "--lib", "--features", FEATURES, "--"]
    command += ["-Z", "unstable-options", "--output-format", "json", "--document-hidden-items", "--cap-lints", "allow"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "RUSTDOC": str(wrapper)}, check=True)
    return json.loads((target / "doc" / "rowloom.json").read_text())


def generics_of(kind, data):
    return data["generics"] if "generics" in data else {"params": [], "where_predicates": []}


class Writer:
    """Writes types as Rust does."""

    def type(self, it):
        kind, data = next(iter(it.items()))
        match kind:
            case "primitive" | "generic":
                return data
            case "resolved_path":
                return self.path(data)
            case "tuple":
                return "(" + ", ".join(map(self.type, data)) + ("," if len(data) == 1 else "") + ")"
            case "slice":
                return f"[{self.type(data)}]"
            case "array":
                return f"[{self.type(data['type'])}; {data['len']}]"
            case "borrowed_ref":
                lifetime = data["lifetime"] + " " if data["lifetime"] else ""
                mutable = "mut " if data["is_mutable"] else ""
                return f"&{lifetime}{mutable}{self.type(data['type'])}"
            case "raw_pointer":
                return ("*mut " if data["is_mutable"] else "*const ") + self.type(data["type"])
            case "impl_trait":
                return "impl " + self.bounds(data)
            case "dyn_trait":
                traits = [self.path(each["trait"]) for each in data["traits"]]
                return "dyn " + " + ".join(traits + ([data["lifetime"]] if data["lifetime"] else []))
            case "qualified_path":
                if data["trait"] is None:
                    return f"{self.type(data['self_type'])}::{data['name']}"
                return f"<{self.type(data['self_type'])} as {self.path(data['trait'])}>::{data['name']}"
            case "function_pointer":
                return "fn" + self.inputs(data["sig"])
        return kind

    def path(self, it):
        name = it["path"].split("::")[-1]
        arguments = it.get("args") or {}
        if "angle_bracketed" in arguments:
            words = [self.argument(each) for each in arguments["angle_bracketed"]["args"]]
            for bound in arguments["angle_bracketed"]["constraints"]:
                value = bound["binding"]
                if "equality" in value:
                    words.append(f"{bound['name']} = {self.argument(value['equality'])}")
                else:
                    words.append(f"{bound['name']}: {self.bounds(value['constraint'])}")
            return name + (f"<{', '.join(words)}>" if words else "")
        if "parenthesized" in arguments:
            inner = arguments["parenthesized"]
            output = f" -> {self.type(inner['output'])}" if inner["output"] else ""
            return f"{name}({', '.join(map(self.type, inner['inputs']))}){output}"
        return name

    def argument(self, it):
        if it == "infer":
            return "_"
        kind, data = next(iter(it.items()))
        match kind:
            case "lifetime":
                return data
            case "type":
                return self.type(data)
            case "const" | "constant":
                return data["expr"]
        return kind

    def bounds(self, bounds):
        written = []
        for bound in bounds:
            kind, data = next(iter(bound.items()))
            if kind == "trait_bound":
                written.append(("?" if data["modifier"] == "maybe" else "") + self.path(data["trait"]))
            elif kind == "outlives":
                written.append(data)
        return " + ".join(written)

    def generics(self, it):
        words = []
        for parameter in it["params"]:
            kind, data = next(iter(parameter["kind"].items()))
            if kind == "type" and data["is_synthetic"]:
                continue
            if kind == "type":
                bounds = self.bounds(data["bounds"])
                words.append(parameter["name"] + (f": {bounds}" if bounds else ""))
            elif kind == "const":
                words.append(f"const {parameter['name']}: {self.type(data['type'])}")
            else:
                words.append(parameter["name"])
        return f"<{', '.join(words)}>" if words else ""

    def inputs(self, signature):
        words = []
        for name, kind in signature["inputs"]:
            written = self.type(kind)
            short = {"Self": "self", "&Self": "&self", "&mut Self": "&mut self"}
            words.append(short[written] if name == "self" and written in short else f"{name}: {written}")
        output = f" -> {self.type(signature['output'])}" if signature["output"] else ""
        return f"({', '.join(words)}){output}"

    def function(self, name, data):
        prefix = "unsafe " if data["header"]["is_unsafe"] else ""
        return f"{prefix}fn {name}{self.generics(data['generics'])}{self.inputs(data['sig'])}"


class Face:
    """The public items, by the path of each."""

    def __init__(self, crate):
        self.index = crate["index"]
        self.writer = Writer()
        self.lines = set()
        self.places = {}
        self.module(self.index[str(crate["root"])], "rowloom")

    def add(self, path, text, item=None):
        marked = item is not None and any("non_exhaustive" in str(each) for each in item["attrs"])
        self.lines.add((path, text + (" (non-exhaustive)" if marked else "")))

    def item(self, key):
        """The item, unless it is hidden. Rustdoc leaves out what is public in a hidden module, so it is asked for everything."""
        item = self.index.get(str(key))
        is_hidden = item is not None and any("hidden" in str(each) for each in item["attrs"])
        return None if is_hidden else item

    def module(self, module, path):
        self.add(path, f"mod {path}")
        for key in module["inner"]["module"]["items"]:
            item = self.item(key)
            if item is None:
                continue
            kind, data = next(iter(item["inner"].items()))
            name = item["name"]
            if kind == "use":
                item, name = self.item(data["id"]), data["name"]
                if item is None:
                    continue
                kind, data = next(iter(item["inner"].items()))
            if kind == "module":
                self.module(item, f"{path}::{name}")
            elif item["id"] in self.places:
                self.add(f"{path}::{name}", f"use {self.places[item['id']]} as {path}::{name}")
            else:
                self.places[item["id"]] = f"{path}::{name}"
                self.named(kind, data, item, f"{path}::{name}")

    def named(self, kind, data, item, path):
        writer = self.writer
        generics = writer.generics(generics_of(kind, data))
        match kind:
            case "function":
                self.add(path, f"{writer.function(path, data)}")
            case "struct" | "union":
                self.add(path, f"{kind} {path}{generics}", item)
                shape = data["kind"]
                fields = [] if shape == "unit" else shape["plain"]["fields"] if "plain" in shape else shape["tuple"]
                self.fields(fields, path)
                self.methods(data["impls"], path)
            case "enum":
                self.add(path, f"enum {path}{generics}", item)
                for key in data["variants"]:
                    variant = self.item(key)
                    if variant is None:
                        continue
                    name = f"{path}::{variant['name']}"
                    self.add(name, f"variant {name}{self.variant_fields(variant)}", variant)
                self.methods(data["impls"], path)
            case "trait":
                bounds = writer.bounds(data["bounds"])
                self.add(path, f"trait {path}{generics}" + (f": {bounds}" if bounds else ""))
                self.members(data["items"], path)
            case "type_alias":
                self.add(path, f"type {path}{generics} = {writer.type(data['type'])}")
            case "constant" | "static":
                self.add(path, f"{kind} {path}: {writer.type(data['type'])}")

    def fields(self, keys, path):
        for key in keys:
            field = self.item(key) if key is not None else None
            if field is not None:
                name = f"{path}.{field['name']}"
                self.add(name, f"field {name}: {self.writer.type(field['inner']['struct_field'])}")

    def variant_fields(self, variant):
        shape = variant["inner"]["variant"]["kind"]
        if shape == "plain":
            return ""
        named = "struct" in shape
        fields = filter(None, map(self.item, shape["struct"]["fields"] if named else shape["tuple"]))
        written = [(field["name"], self.writer.type(field["inner"]["struct_field"])) for field in fields]
        if named:
            return " { " + ", ".join(f"{name}: {kind}" for name, kind in written) + " }"
        return "(" + ", ".join(kind for _, kind in written) + ")"

    def methods(self, impls, path):
        for key in impls:
            found = self.item(key)
            if found is not None and found["inner"]["impl"]["trait"] is None:
                self.members(found["inner"]["impl"]["items"], path)

    def members(self, keys, path):
        for key in keys:
            member = self.item(key)
            if member is None:
                continue
            kind, data = next(iter(member["inner"].items()))
            name = f"{path}::{member['name']}"
            if kind == "function":
                self.add(name, self.writer.function(name, data))
            elif kind in ("assoc_const", "assoc_type"):
                self.add(name, f"{'const' if kind == 'assoc_const' else 'type'} {name}")


def main():
    lines = [text for _, text in sorted(Face(rustdoc()).lines)]
    text = "".join(f"{line}\n" for line in lines)
    if len(lines) > MOST_ITEMS:
        sys.exit(f"the library has {len(lines)} public items; at most {MOST_ITEMS} are allowed. Hide what programs do not need")
    if sys.argv[1:] == ["--write"]:
        LIST.write_text(text)
        print(f"{LIST.relative_to(ROOT)}: {len(lines)} items")
        return
    kept = LIST.read_text() if LIST.exists() else ""
    if kept != text:
        sys.stdout.writelines(difflib.unified_diff(kept.splitlines(True), text.splitlines(True), "docs/public-api.txt", "library"))
        sys.exit("the public items have changed; if the change is meant, run .ci/public_api.py --write and commit the list")
    print(f"{len(lines)} public items, as in {LIST.relative_to(ROOT)}")


main()
