"""The installed collections contain every module and filter of other collections that busbar uses, none deprecated."""

from __future__ import annotations

import contextlib
import re
import warnings
from pathlib import Path

import pytest
from ansible.plugins.loader import filter_loader, init_plugin_loader, lookup_loader, module_loader

TOP = Path(__file__).resolve().parents[2]
NAME = re.compile(r"\b((?:ansible|community)\.(?!legacy)\w+)\.(\w+)")
COLLECTIONS = {"ansible.builtin", "ansible.posix", "community.general"}


def used() -> set[str]:
    files = [*TOP.glob("roles/*/*/**/*.yml"), *TOP.glob("roles/*/templates/**/*.j2"), *TOP.glob("playbooks/**/*.yml")]
    return {
        f"{collection}.{name}"
        for path in files
        if "files" not in path.relative_to(TOP).parts
        for collection, name in NAME.findall(path.read_text(encoding="utf-8"))
    }


@pytest.fixture(scope="module", autouse=True)
def _collections() -> None:
    with warnings.catch_warnings(action="ignore"):  # another test may have initialized the loader already
        init_plugin_loader()


def warned(name: str) -> list[str] | None:
    """Return the deprecation warnings of a module, filter or lookup, or None if it does not exist."""
    found = [module_loader.find_plugin_with_context(name)]
    for loader in (filter_loader, lookup_loader):
        with contextlib.suppress(KeyError):
            found.append(loader.get_with_context(name).plugin_load_context)
    there = [context for context in found if context.resolved]
    return [warning for context in there for warning in context.deprecation_warnings] if there else None


def test_used_plugins_exist_and_are_not_deprecated() -> None:
    names = used()
    assert {name.rpartition(".")[0] for name in names} == COLLECTIONS
    assert {name: found for name in names if (found := warned(name)) != []} == {}
