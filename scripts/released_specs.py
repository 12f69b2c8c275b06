"""Prepares a copy of the collection for release: usage: released_specs.py FOLDER.

Ansible's documentation tools accept only defaults that have the type of the option, but many defaults are templates,
which are strings. The program moves such defaults in the roles' argument_specs.yml into the description. It also writes
the exceptions for `ansible-test sanity`, which treats scripts that roles install as programs of the collection.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import yaml

TEXT = {"str", "path", "raw"}
# The releases of ansible-core, each with the Python versions of its controller.
RELEASES = {"2.19": ("3.11", "3.12", "3.13"), "2.20": ("3.12", "3.13", "3.14"), "2.21": ("3.12", "3.13", "3.14")}
# Shebangs that ansible-test accepts anywhere: ansible_test/_util/controller/sanity/code-smell/shebang.py.
TAKEN = {b"#!/bin/sh", b"#!/usr/bin/env bash", b"#!/usr/bin/env python"}
EXCEPTIONS = [
    # An action for several modules, declared in meta/runtime.yml.
    "plugins/action/package_manager.py action-plugin-docs",
    # Imported for the workers that Ansible forks.
    "plugins/callback/preload.py pylint:unused-import",
    # pylint reads neither types in strings nor that imports for type checkers do not run.
    "plugins/module_utils/slurm/local_node.py pylint:unsupported-binary-operation",
    "plugins/module_utils/storage/scratch_host.py pylint:unsupported-binary-operation",
    "plugins/plugin_utils/ansible_errors.py pylint:unused-import",
    # `isinstance` accepts a bool as an int.
    "plugins/module_utils/portal/notebook_job.py pylint:unidiomatic-typecheck",
    "plugins/plugin_utils/engine/nccl/inspector.py pylint:unidiomatic-typecheck",
    "roles/jupyterhub/files/busbar_hub.py pylint:unidiomatic-typecheck",
]
# validate-modules accepts only the GPL (busbar has the Apache License), and compares the documentation of an action
# with the arguments of its module.
NOT_GPL = ("plugins/callback/*.py", "plugins/lookup/*.py", "plugins/modules/*.py")
TRANSFORMED = (
    "doc-default-does-not-match-spec",
    "doc-required-mismatch",
    "nonexistent-parameter-documented",
    "parameter-type-not-in-doc",
    "undocumented-parameter",
)
# ansible-test loads plugins with Ansible's own requirements only. Others are in requirements.txt of the collection.
WITHOUT_REQUIREMENTS = {"ansible", "ansible_collections", "jinja2", "packaging", "yaml", *sys.stdlib_module_names}


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


def third_party(path: Path) -> bool:
    """Return whether a file imports more than Ansible and its requirements."""
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return not names <= WITHOUT_REQUIREMENTS


def needing_requirements(plugins: Path) -> set[Path]:
    """Return the files for the provisioning host that need, directly or transitively, other packages than Ansible."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / ".collections"))
    from ansible_collections.busbar.cluster.plugins.plugin_utils.programs import imports_of  # noqa: PLC0415

    # Modules and module_utils run on hosts, with Python's standard library alone.
    imports = {path: set(imports_of(path, plugins)) for path in plugins.glob("[!m]*/**/*.py")}
    found = {path for path in imports if third_party(path)}
    while more := {path for path, others in imports.items() if path not in found and others & found}:
        found |= more
    return found


def uses_underscore(path: Path) -> bool:
    """Return whether a file has a variable or parameter `_`, which pylint reserves for translations."""
    nodes = [*ast.walk(ast.parse(path.read_bytes()))]
    functions = [node.args for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    parameters = [each.arg for item in functions for each in (*item.posonlyargs, *item.args, *item.kwonlyargs)]
    names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return "_" in {*parameters, *names}


def main(folder: Path) -> None:
    """Rewrite the specifications of all roles of a collection and write the exceptions."""
    for path in folder.glob("roles/*/meta/argument_specs.yml"):
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))
        for entry in specs["argument_specs"].values():
            described(entry.get("options") or {})
        text = yaml.safe_dump(specs, sort_keys=False, width=120, allow_unicode=True)
        path.write_text(f"---\n{text}", encoding="utf-8")
    lines = [*EXCEPTIONS, *(f"plugins/modules/templates.py validate-modules:{code}" for code in TRANSFORMED)]
    not_gpl = sorted(path.relative_to(folder) for pattern in NOT_GPL for path in folder.glob(pattern))
    lines += [f"{path} validate-modules:missing-gplv3-license" for path in not_gpl]
    # To document a filter, ansible-doc loads all filters.
    lines += [f"{path.relative_to(folder)} ansible-doc!skip" for path in sorted(folder.glob("plugins/filter/*.py"))]
    programs = [*folder.glob("plugins/**/*.py"), *folder.glob("roles/**/*.py")]
    named = sorted(path.relative_to(folder) for path in filter(uses_underscore, programs))
    lines += [f"{path} pylint:disallowed-name" for path in named]
    for path in sorted(path for path in folder.glob("roles/*/*/**/*") if path.is_file()):
        first = path.read_bytes().partition(b"\n")[0]
        if first.startswith(b"#!") and first not in TAKEN:
            lines.append(f"{path.relative_to(folder)} shebang")
    target = folder / "tests" / "sanity"
    target.mkdir(parents=True)
    needing = [path.relative_to(folder) for path in sorted(needing_requirements(folder / "plugins"))]
    for release, pythons in RELEASES.items():
        skipped = [f"{path} import-{python}!skip" for path in needing for python in pythons]
        (target / f"ignore-{release}.txt").write_text("\n".join([*lines, *skipped]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
