"""Prepares a copy of the collection for release: usage: released_specs.py FOLDER.

Ansible's documentation tools accept only defaults that have the type of the option, but many defaults are templates,
which are strings. The program moves such defaults in the roles' argument_specs.yml into the description. It also writes
the exceptions for `ansible-test sanity`, which treats scripts that roles install as programs of the collection.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

TEXT = {"str", "path", "raw"}
RELEASES = ("2.19", "2.20", "2.21")
# Shebangs that ansible-test accepts anywhere: ansible_test/_util/controller/sanity/code-smell/shebang.py.
TAKEN = {b"#!/bin/sh", b"#!/usr/bin/env bash", b"#!/usr/bin/env python"}
# An action for several modules, declared in meta/runtime.yml.
EXCEPTIONS = ["plugins/action/package_manager.py action-plugin-docs"]


def described(options: dict[str, dict[str, Any]]) -> None:
    """Move template defaults of options and suboptions into the descriptions."""
    for option in options.values():
        default = option.get("default")
        if isinstance(default, str) and "{{" in default and option.get("type", "str") not in TEXT:
            del option["default"]
            lines = option["description"]
            # Without braces, because Ansible also evaluates templates in descriptions when it validates the options.
            shown = re.sub(r"([\\)])", r"\\\1", " ".join(default.replace("{{", "").replace("}}", "").split()))
            option["description"] = [*([lines] if isinstance(lines, str) else lines), f"By default V({shown})."]
        described(option.get("options") or {})


def main(folder: Path) -> None:
    """Rewrite the specifications of all roles of a collection and write the exceptions."""
    for path in folder.glob("roles/*/meta/argument_specs.yml"):
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))
        for entry in specs["argument_specs"].values():
            described(entry.get("options") or {})
        text = yaml.safe_dump(specs, sort_keys=False, width=120, allow_unicode=True)
        path.write_text(f"---\n{text}", encoding="utf-8")
    lines = list(EXCEPTIONS)
    for path in sorted(path for path in folder.glob("roles/*/*/**/*") if path.is_file()):
        first = path.read_bytes().partition(b"\n")[0]
        if first.startswith(b"#!") and first not in TAKEN:
            lines.append(f"{path.relative_to(folder)} shebang")
    target = folder / "tests" / "sanity"
    target.mkdir(parents=True)
    for release in RELEASES:
        (target / f"ignore-{release}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
