#!/usr/bin/env python3
"""Fails unless everything that names a version names that of `[workspace.package]` in Cargo.toml; prints the version."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def toml(name):
    return tomllib.loads((ROOT / name).read_text())


def first(name, pattern):
    """The first match of a pattern in a file; `None` without one."""
    match = re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)
    return match and match[1]


def named_versions():
    """Each place that names a version, and the version."""
    root, program, python = toml("Cargo.toml"), toml("cli/Cargo.toml"), toml("python/Cargo.toml")
    project = toml("python/pyproject.toml")["project"]
    yield "Cargo.toml, dependency rowloom-cpu", root["dependencies"]["rowloom-cpu"]["version"]
    yield "cli/Cargo.toml, dependency rowloom", program["dependencies"]["rowloom"]["version"]
    yield "python/Cargo.toml", python["package"]["version"]
    # Maturin takes it from python/Cargo.toml.
    is_dynamic = "version" in project.get("dynamic", [])
    yield "python/pyproject.toml", python["package"]["version"] if is_dynamic else project.get("version")
    yield "python/Cargo.lock", first("python/Cargo.lock", r'^name = "rowloom"\nversion = "(.*)"$')
    yield "CITATION.cff", first("CITATION.cff", r"^version: (\S+)$")
    # The newest release; changes after it are under Unreleased.
    yield "CHANGELOG.md", first("CHANGELOG.md", r"^## \[(\d[^\]]*)\]")


version = toml("Cargo.toml")["workspace"]["package"]["version"]
wrong = [f"{place} names {named}" for place, named in named_versions() if named != version]
if wrong:
    sys.exit(f"Cargo.toml has the version {version}, but " + "; ".join(wrong))
print(version)
