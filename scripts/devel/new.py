"""Writes the skeleton of a hardware profile, a role or a validation stage, which passes all tests."""

from __future__ import annotations

import argparse
import keyword
import re
import subprocess
import sys
from pathlib import Path

from devel.skeletons import PLAY, PROFILE, ROLE, STAGE

TOP = Path(__file__).resolve().parents[2]
SPECS = "roles/*/meta/argument_specs.yml"
REGISTRY = TOP / "plugins/plugin_utils/engine/validation/stage_registry.py"
VALIDATION = TOP / "roles/validation/meta/argument_specs.yml"
CHOICES = re.compile(r"(      validation_stages:\n(?:        .*\n)*?        choices: \[[^\]]*)\]")
TUPLE = re.compile(r"^(STAGES: [^=]+= \(.*?),?\s*\)$", re.MULTILINE | re.DOTALL)
TESTS = re.compile(r"(additional_files_or_dirs:\n(?:    - .*\n)+)")
# Playbooks with a Molecule scenario of the same name on a sandbox.
PLAYBOOKS = sorted(
    path.parent.name
    for path in TOP.glob("molecule/*/molecule.yml")
    if (TOP / f"playbooks/{path.parent.name}.yml").is_file() and "/tests/sandbox/" in path.read_text(encoding="utf-8")
)


class Refused(Exception):  # noqa: N818 - reports invalid input, not a program error
    """The request is invalid; nothing was written."""


def refuse_bad(name: str) -> None:
    """Check that a name is valid for a file, a variable and a Python module.

    Raises:
        Refused: the name is invalid.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) or keyword.iskeyword(name):
        message = f"{name!r} is not a valid name: use up to 40 lower-case letters, digits and '_', a letter first"
        raise Refused(message)


def refuse_clash(prefix: str) -> None:
    """Check that no existing option has this prefix.

    Raises:
        Refused: an option has this prefix.
    """
    text = "\n".join(path.read_text(encoding="utf-8") for path in TOP.glob(SPECS))
    taken = re.findall(rf"^ +({re.escape(prefix)}\w+):$", text, re.MULTILINE)
    if taken:
        message = f"option {taken[0]} already begins with {prefix}: choose another name"
        raise Refused(message)


def camel(name: str) -> str:
    """Return the class name for a name."""
    return "".join(part.capitalize() for part in name.split("_"))


def written(files: dict[str, str], name: str, **more: str) -> list[Path]:
    """Write the files of a skeleton.

    Raises:
        Refused: one of the files or its folder already exists.
    """
    words = {"NAME": name, "Name": camel(name), **more}
    pattern = re.compile("|".join(words))
    texts = {
        TOP / pattern.sub(lambda word: words[word[0]], path): pattern.sub(lambda word: words[word[0]], text)
        for path, text in files.items()
    }
    for path in texts:
        for place in (path, *(parent for parent in path.parents if parent.name == name)):
            if place.exists():
                message = f"{place.relative_to(TOP)} already exists: choose another name"
                raise Refused(message)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def edited(path: Path, pattern: re.Pattern[str], replacement: str) -> str:
    """Return the text of a file with its only match replaced.

    Raises:
        Refused: the pattern does not match exactly once.
    """
    text, count = pattern.subn(replacement, path.read_text(encoding="utf-8"))
    if count != 1:
        message = f"{path.relative_to(TOP)} has an unexpected form: {pattern.pattern!r} matches {count} times"
        raise Refused(message)
    return text


def renew_readme(role: str) -> None:
    """Write the option tables of a role's README."""
    subprocess.run([TOP / "scripts/role_readmes", f"roles/{role}"], check=True, stdout=subprocess.DEVNULL)


def new_profile(name: str) -> list[Path]:
    """Write a minimal profile."""
    return written(PROFILE, name)


def new_role(name: str, playbook: str) -> list[Path]:
    """Write a role, its test, its play and its line in the Molecule scenario."""
    refuse_clash(f"{name}_")
    play, scenario = TOP / f"playbooks/{playbook}.yml", TOP / f"molecule/{playbook}/molecule.yml"
    listed = edited(scenario, TESTS, rf"\g<1>    - ../../tests/sandbox/test_{name}.py\n")
    files = written(ROLE, name, PLAYBOOK=playbook)
    scenario.write_text(listed, encoding="utf-8")
    play.write_text(play.read_text(encoding="utf-8") + PLAY.replace("NAME", name), encoding="utf-8")
    renew_readme(name)
    return [*files, play, scenario]


def new_stage(name: str) -> list[Path]:
    """Write a stage, its job and its test, and register it as the last stage."""
    refuse_clash(f"validation_{name}_")
    if re.search(rf"choices: \[(?:[a-z0-9_]+, )*{name}\b", VALIDATION.read_text(encoding="utf-8")):
        message = f"the stage {name} already exists: choose another name"
        raise Refused(message)
    title = camel(name)
    specs = edited(VALIDATION, CHOICES, rf"\g<1>, {name}]")
    registered = edited(REGISTRY, TUPLE, rf"\g<1>, {title}())")
    registered = registered.replace("\nfrom .", f"\nfrom .programs.{name} import {title}\nfrom .", 1)
    files = written(STAGE, name)
    VALIDATION.write_text(specs, encoding="utf-8")
    REGISTRY.write_text(registered, encoding="utf-8")
    code = [REGISTRY, *(path for path in files if path.suffix == ".py")]
    for step in (["check", "--quiet", "--select", "I", "--fix"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *step, *code], check=True)
    renew_readme("validation")
    return [*files, REGISTRY, VALIDATION]


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/new", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind in ("profile", "role", "stage"):
        action = kinds.add_parser(kind)
        action.add_argument("name")
        if kind == "role":
            action.add_argument(
                "--playbook", choices=PLAYBOOKS, default="base", help="playbook that gets the play (default: base)"
            )
    given = parser.parse_args()
    try:
        refuse_bad(given.name)
        if given.kind == "role":
            files = new_role(given.name, given.playbook)
        else:
            files = (new_profile if given.kind == "profile" else new_stage)(given.name)
    except Refused as error:
        sys.stderr.write(f"new: {error}\n")
        return 2
    sys.stdout.writelines(f"{path.relative_to(TOP)}\n" for path in files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
