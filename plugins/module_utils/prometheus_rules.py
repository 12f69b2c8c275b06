"""Prometheus' files of rules: those that busbar ships and those of the site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["rule_files"]

FOLDER = "/etc/prometheus/rules"


def rule_files(
    shipped: Mapping[str, str], site: Mapping[str, list[Any]], found: Iterable[str] = ()
) -> list[dict[str, str]]:
    """Return the files as {path, content}, or {path, state: absent} for those that nobody declares any more.

    Args:
        shipped: text by name; it is written as it is.
        site: groups as Prometheus' schema has them, by name; a name that is shipped replaces what is shipped.
        found: paths of the files that are there.
    """
    texts = {**shipped, **{str(name): _text(groups) for name, groups in site.items()}}
    files = [{"path": f"{FOLDER}/busbar_{name}.yml", "content": text} for name, text in sorted(texts.items())]
    declared = {each["path"] for each in files}
    return files + [{"path": path, "state": "absent"} for path in sorted(found) if path not in declared]


def _text(groups: list[Any]) -> str:
    body = yaml.safe_dump({"groups": groups}, sort_keys=False, width=120, allow_unicode=True)
    return f"# Rules of this site, declared in prometheus_rules.\n{body}"
