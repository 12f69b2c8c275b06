"""What lynis found on hosts, compared with the explained exceptions: as text, as data and as a page."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.access.lynis import EXCEPTION, LEVELS
from ansible_collections.busbar.cluster.plugins.module_utils.catalogue.package_fixes import unfixed_packages
from ansible_collections.busbar.cluster.plugins.module_utils.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.module_utils.common.printable import printable

from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "FIXES",
    "SHIPPED",
    "Explanation",
    "Row",
    "as_data",
    "as_markdown",
    "as_text",
    "read_exceptions",
    "rows_of",
    "with_unfixed",
]

SHIPPED = Path(__file__).with_name("exceptions.yml")
# The test of busbar itself, by which a site can explain what it leaves, as those of lynis.
FIXES = "BUSBAR-FIXES"
_KEYS = {"test", "detail", "reason"}


class Explanation(NamedTuple):
    """Why a finding is left as it is. `test` and `detail` are patterns as those of the shell."""

    test: str
    detail: str
    reason: str

    def fits(self, finding: Mapping[str, str]) -> bool:
        """Say whether it explains a finding."""
        return fnmatchcase(finding["test"], self.test) and fnmatchcase(finding["detail"], self.detail)


class Row(NamedTuple):
    """A finding, and who has it.

    Attributes:
        level: one of LEVELS of lynis.
        test: its number.
        text: what lynis says.
        detail: of what.
        hosts: names.
        reason: why it is left as it is; '' where nothing explains it.
    """

    level: str
    test: str
    text: str
    detail: str
    hosts: tuple[str, ...]
    reason: str


def read_exceptions(path: Path) -> list[Explanation]:
    """Return the explanations in a file.

    Raises:
        UsageError: it cannot be read, or one of them has no test or no reason.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        message = f"{path}: {exc}"
        raise UsageError(message) from exc
    if not isinstance(entries, list):
        message = f"{path}: is no list: write - {{test: SSH-7408, detail: 'Port*', reason: why}}"
        raise UsageError(message)
    found = []
    for number, entry in enumerate(entries, start=1):
        texts = isinstance(entry, dict) and all(isinstance(value, str) and value.strip() for value in entry.values())
        if not texts or not {"test", "reason"} <= set(entry) <= _KEYS:
            message = f"{path}: entry {number} is not test, reason and, by choice, detail, each a text: {entry!r}"
            raise UsageError(message)
        found.append(Explanation(entry["test"], entry.get("detail", "*"), entry["reason"]))
    return found


def with_unfixed(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a host with a warning for each package that lacks the fix of a published vulnerability."""
    unfixed = unfixed_packages(answer.get("system") or {}, answer.get("versions") or {})
    more = [{"level": "warning", "test": FIXES, "text": each.problem, "detail": each.remedy} for each in unfixed]
    return {**answer, "findings": [*answer["findings"], *more]}


def rows_of(answers: Mapping[str, Mapping[str, Any]], explanations: Sequence[Explanation]) -> list[Row]:
    """Return each finding once with all its hosts: those that nothing explains first, warnings before suggestions."""
    hosts: dict[tuple[str, str, str, str], list[str]] = {}
    for host, answer in answers.items():
        for finding in answer["findings"]:
            key = (finding["level"], finding["test"], finding["text"], finding["detail"])
            hosts.setdefault(key, []).append(host)
    rows = []
    for (level, test, text, detail), who in hosts.items():
        finding = {"test": test, "detail": detail}
        reason = next((one.reason for one in explanations if one.fits(finding)), "")
        rows.append(Row(level, test, text, detail, tuple(dict.fromkeys(who)), reason))
    return sorted(rows, key=lambda row: (bool(row.reason), LEVELS.index(row.level), row.test, row.detail))


def _said(row: Row) -> str:
    text = f"could not judge: {row.text}" if row.level == EXCEPTION else row.text
    return f"{text} ({row.detail})" if row.detail else text


def _summary(answers: Mapping[str, Mapping[str, Any]], rows: Iterable[Row]) -> str:
    by_index: dict[int, list[str]] = {}
    for host, answer in answers.items():
        by_index.setdefault(answer["index"], []).append(host)
    indexes = ", ".join(f"{fold_hosts(who)} {index}" for index, who in sorted(by_index.items()))
    explained = sum(bool(row.reason) for row in rows)
    open_ones = sum(not row.reason for row in rows)
    versions = ", ".join(sorted({answer["version"] for answer in answers.values()}))
    return f"lynis {versions}; hardening index: {indexes}; {open_ones} to look at, {explained} explained"


def as_text(answers: Mapping[str, Mapping[str, Any]], rows: Sequence[Row]) -> str:
    """Return one line for each finding that nothing explains, and a summary."""
    lines = [f"{row.level.upper()} {fold_hosts(row.hosts)}: {row.test}: {_said(row)}" for row in rows if not row.reason]
    return "\n".join(printable(line) for line in [*lines, _summary(answers, rows)])


def as_data(answers: Mapping[str, Mapping[str, Any]], rows: Sequence[Row]) -> dict[str, Any]:
    """Return hosts with index and version, and all findings."""
    hosts = {host: {key: answer[key] for key in ("version", "index", "tests")} for host, answer in answers.items()}
    return {"hosts": hosts, "findings": [row._asdict() for row in rows]}


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def as_markdown(answers: Mapping[str, Mapping[str, Any]], rows: Sequence[Row], date: str) -> str:
    """Return a page with two tables: what is to be looked at, and what is explained."""
    parts = [f"# Security report, {date}", "", f"{_summary(answers, rows)}.", ""]
    for title, head, chosen in (
        ("To look at", "", [row for row in rows if not row.reason]),
        ("Explained", "why it is left", [row for row in rows if row.reason]),
    ):
        parts += [f"## {title}", ""]
        columns = ["level", "test", "finding", "hosts", *([head] if head else [])]
        parts += [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"] if chosen else ["Nothing."]
        for row in chosen:
            cells = [row.level, row.test, _said(row), fold_hosts(row.hosts), *([row.reason] if head else [])]
            parts.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
        parts.append("")
    return "\n".join(parts)
