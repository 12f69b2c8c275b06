"""Finds words of a dialect that busbar's texts were once written in, and names those of the field."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from devel.markdown import prose

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Finding", "findings", "main"]

TOP = Path(__file__).resolve().parents[2]
# What stands in any text, and what to write instead.
ANYWHERE = {
    r"\blooks? who holds": "check that the port is free",
    r"whom? it tells": "the alert receivers",
    r"\b(?:its|the) makers\b": "upstream",
    r"\b[Bb]rings? [\w' ]+ into force\b": "apply the configuration",
    r"\bis not whole\b": "incomplete",
    r"\b(?:not to|cannot|can|could) be had\b": "is (not) available",
    r"\bis no version\b": "is not a valid version",
    r"\b[Ss]ay (?:`|C\(|O\()?(?:-e )?[a-z]+_\w+": "set the option",
    r"\bwho is to blame\b": "the faulty nodes",
    r"\bcomes? to the verdict": "compute the verdict",
    r"\bmakes? a (?:GPU )?cluster of\b": "turns them into a cluster",
    r"\bmoment of distrust\b": "without breaking SSH trust",
    r"\bsomebody to tell\b": "at least one alert receiver",
}
# What stands in the name of a task, which a log shows alone.
NAMES = {
    r"\b(?:it|them|whom|theirs)\b": "name the thing",
    r"\b[Rr]efuse what cannot be$": "validate the configuration",
    r"(?:^|\| )(?:Know|Tell|Say|See|Have|Look|Bring)\b": "configure, install, show, wait for, check, apply",
    r"\b(?:Come to|Find who)\b": "compute, identify",
}


class Finding(NamedTuple):
    """A word at a place, and what to write instead."""

    path: str
    line: int
    text: str
    instead: str


def in_text(path: str, text: str, line: int, words: dict[str, str]) -> Iterator[Finding]:
    """The words in a text that begins at a line."""
    for pattern, instead in words.items():
        for found in re.finditer(pattern, text):
            yield Finding(path, line + text.count("\n", 0, found.start()), found[0].strip("| "), instead)


def in_markdown(path: str, text: str) -> Iterator[Finding]:
    """The words in a page, but for its code and what is generated from other files."""
    written = re.sub(r"<!-- BEGIN_ANSIBLE_DOCS -->.*?<!-- END_ANSIBLE_DOCS -->", "", text, flags=re.DOTALL)
    yield from in_text(path, prose(written), 1, ANYWHERE)


def in_yaml(path: str, text: str) -> Iterator[Finding]:
    """The words in a file of tasks, plays or options; comments count."""
    yield from in_text(path, text, 1, ANYWHERE)
    for found in re.finditer(r"^ *- name: (?P<name>[A-Z\w].*)$", text, re.MULTILINE):
        yield from in_text(path, found["name"], 1 + text.count("\n", 0, found.start()), NAMES)


def in_python(path: str, text: str) -> Iterator[Finding]:
    """The words in the texts of a program, its documentation among them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from in_text(path, node.value, node.lineno, ANYWHERE)


def findings(path: str, text: str) -> list[Finding]:
    """The words in a file, by the kind that its name tells."""
    if path.endswith(".md"):
        return list(in_markdown(path, text))
    return list((in_python if path.endswith(".py") else in_yaml)(path, text))


def listed() -> list[str]:
    """The files that are looked at."""
    folders = ["README.md", "CONTRIBUTING.md", "docs", "roles", "playbooks", "plugins", "scripts/busbar"]
    run = ["git", "ls-files", "--", *folders]
    names = subprocess.run(run, check=True, capture_output=True, text=True, cwd=TOP).stdout.splitlines()
    kinds = r"\.md$|\.py$|^(?:playbooks|roles/\w+/(?:tasks|handlers|meta|vars))/.*\.yml$"
    return [name for name in names if re.search(kinds, name) and (TOP / name).is_file()]


def main() -> int:
    """Look at all files; return the exit status."""
    found = [each for name in listed() for each in findings(name, (TOP / name).read_text(encoding="utf-8"))]
    sys.stderr.writelines(f"{each.path}:{each.line}: {each.text!r}: {each.instead}\n" for each in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
