"""How busbar converts each variable of DeepOps and of ansible-slurm-appliance: the data of tables.yml."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from busbar.adopt.draft import ASK, CARRIED, DEFAULT, LEFT

if TYPE_CHECKING:
    from collections.abc import Sequence

_RESULTS = {"carried": CARRIED, "to": CARRIED, "left": LEFT, "ask": ASK, "default": DEFAULT}
# Passwords of config.example.
PLACEHOLDERS = ("ReplaceWithASecurePasswordInTheVault", "AlsoReplaceWithASecurePasswordInTheVault")


class Row(NamedTuple):
    """Variables that are treated alike.

    Attributes:
        names: the variables; `*` stands for any characters.
        result: CARRIED, DEFAULT, LEFT or ASK.
        text: the options of busbar, the reason, or the question.
        option: the option that gets the value unchanged, or empty.
        same: for DEFAULT, the default of busbar; None for any value.
        differs: for DEFAULT, the reason to report for another value.
    """

    names: tuple[str, ...]
    result: str
    text: str
    option: str = ""
    same: Any = None
    differs: str = ""


@cache
def data() -> dict[str, Any]:
    """Return tables.yml."""
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yml").read_text(encoding="utf-8"))
    return found


@cache
def rows(toolkit: str) -> tuple[Row, ...]:
    """Return the rows of `deepops` or `appliance`."""
    made = []
    for item in data()[toolkit]:
        kind = next(key for key in _RESULTS if key in item)
        rest = {key: item[key] for key in ("same", "differs") if key in item}
        made.append(Row(tuple(item["names"].split()), _RESULTS[kind], item[kind], item.get("to", ""), **rest))
    return tuple(made)


def row_of(name: str, table: Sequence[Row]) -> Row | None:
    """Return the first row for a variable; rows that name it exactly come first."""
    exact = next((row for row in table if name in row.names), None)
    return exact or next((row for row in table if any(fnmatchcase(name, each) for each in row.names)), None)
