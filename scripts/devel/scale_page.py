"""The tables and pictures of docs/scale.md, made from the results in docs/benchmarks."""

from __future__ import annotations

import importlib
import json
import re
from typing import TYPE_CHECKING, Any

from busbar.paths import collection

from devel.line_chart import line_chart

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["save", "stale", "write"]

_BLOCK = re.compile(r"(<!-- benchmark (\w+) -->\n).*?(<!-- end of benchmark -->)", re.DOTALL)


def save(result: dict[str, Any], top: Path | None = None) -> None:
    """Keep a result."""
    folder = (top or collection()) / "docs/benchmarks"
    folder.mkdir(exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    # The values of the runs on one line each, so that a result is read in a diff.
    text = re.sub(
        r"\[[\s\d.,e+-]*\]", lambda found: re.sub(r"\s+", " ", found[0]).replace("[ ", "[").replace(" ]", "]"), text
    )
    (folder / f"{result['benchmark']}.json").write_text(text, encoding="utf-8")


def stale(top: Path | None = None) -> list[str]:
    """The files that are not what the results say."""
    top = top or collection()
    wanted = _wanted(top)
    return [
        name for name, text in wanted.items() if not (top / name).exists() or (top / name).read_text("utf-8") != text
    ]


def write(top: Path | None = None) -> None:
    """Write the page and its pictures."""
    top = top or collection()
    for name, text in _wanted(top).items():
        (top / name).write_text(text, encoding="utf-8")


def _wanted(top: Path) -> dict[str, str]:
    results = {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted((top / "docs/benchmarks").glob("*.json"))
    }
    page = (top / "docs/scale.md").read_text(encoding="utf-8")
    shown = {match[2] for match in _BLOCK.finditer(page)}
    if shown != set(results):
        message = f"docs/scale.md shows {sorted(shown)} and docs/benchmarks has {sorted(results)}: each needs the other"
        raise ValueError(message)
    files = {}
    for name, result in results.items():
        chart = _chart(name)
        if chart is not None:
            points = {
                figure: {
                    entry["at"]: entry["value"]
                    for entry in result["figures"]
                    if entry["figure"] == figure and "at" in entry
                }
                for figure in chart.figures
            }
            unit = next(entry["unit"] for entry in result["figures"] if entry["figure"] == chart.figures[0])
            files[f"docs/benchmarks/{name}.svg"] = line_chart(chart, points, unit)
    text = _BLOCK.sub(lambda match: f"{match[1]}{_block(results[match[2]], match[2], files)}{match[3]}", page)
    return {"docs/scale.md": text, **files}


def _chart(name: str) -> Any:  # noqa: ANN401 - of a module that is found by its name
    module = importlib.import_module(f"devel.benchmarks.{name}")
    return module.CHART


def _block(result: dict[str, Any], name: str, files: dict[str, str]) -> str:
    parts = [f"{_origin(result)}\n"]
    single = [entry for entry in result["figures"] if "at" not in entry]
    if single:
        rows = [[entry["figure"], f"{entry['value']:g} {entry['unit']}", _goal(entry)] for entry in single]
        parts.append(_table(["figure", "value", "goal"], rows))
    sized = [entry for entry in result["figures"] if "at" in entry]
    if sized:
        parts.append(_sizes(sized))
    if f"docs/benchmarks/{name}.svg" in files:
        parts.append(f"![{_chart(name).title}](benchmarks/{name}.svg)\n")
    return "\n".join(parts)


def _origin(result: dict[str, Any]) -> str:
    where = result["machine"]
    runs = max(len(entry["runs"]) for entry in result["figures"])
    of = f"median of {runs} runs" if runs > 1 else "one run"
    return (
        f"`{result['command']}`, {result['date']}, {of}; {where['cores']} cores ({where['cpu']}),\n"
        f"{where['memory_gib']} GiB, Python {where['python']}, ansible-core {where['ansible_core']}."
    )


def _goal(entry: dict[str, Any]) -> str:
    return f"{entry['goal']}: {'met' if entry['met'] else 'missed'}" if "goal" in entry else ""


def _sizes(entries: list[dict[str, Any]]) -> str:
    """A table with a line for each size."""
    columns = {entry["figure"]: entry["unit"] for entry in entries}
    cells = {(entry["at"], entry["figure"]): entry for entry in entries}
    rows = []
    for size in sorted({entry["at"] for entry in entries}):
        row = [str(size)]
        for figure in columns:
            entry = cells.get((size, figure), {})
            goal = _goal(entry)
            row.append((f"{entry['value']:g}" if entry else "") + (f" ({goal})" if goal else ""))
        rows.append(row)
    return _table(["size", *(f"{figure}, {unit}" for figure, unit in columns.items())], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
