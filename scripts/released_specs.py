"""Prepares a copy of the collection for release: usage: released_specs.py FOLDER.

The tools that render Ansible's documentation take a default only in its option's own type, and the default of many
options is a template, which is text. In the roles' argument_specs.yml such a default becomes part of the description.

The exceptions of `ansible-test sanity` are written: it takes scripts that roles install for programs of the collection.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

TEXT = {"str", "path", "raw"}
RELEASES = ("2.19", "2.20", "2.21")
# Lines that ansible-test takes anywhere: ansible_test/_util/controller/sanity/code-smell/shebang.py.
TAKEN = {b"#!/bin/sh", b"#!/usr/bin/env bash", b"#!/usr/bin/env python"}
# One action for several modules, named in meta/runtime.yml.
EXCEPTIONS = ["plugins/action/package_manager.py action-plugin-docs"]


def described(options: dict[str, dict[str, Any]]) -> None:
    """Move the templates among the defaults of options, and of their options, into the descriptions."""
    for option in options.values():
        default = option.get("default")
        if isinstance(default, str) and "{{" in default and option.get("type", "str") not in TEXT:
            del option["default"]
            lines = option["description"]
            # Without its braces: Ansible fills in what stands in a description, too, when it checks the options.
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
