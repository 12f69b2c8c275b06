"""`busbar report`: list, show, render, compare, sign and verify the reports of validations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import human_size, printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.history import compare, drift, side_by_side
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import (
    VERDICTS,
    counts,
    culprits,
    everyone,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import (
    history,
    raw_report,
    read_report,
    write_pages,
)
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from busbar.commands import report_statement
from busbar.commands.report_selection import (
    LATEST,
    add_report_options,
    all_reports,
    find_report,
    readable_report,
    reports_folder,
    site_of,
)
from busbar.errors import UsageError
from busbar.output import print_json
from busbar.run import detached
from busbar.sandbox.option import add_sandbox, chosen

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_types import ReadReport

_STYLE = {"PASS": "green", "FAIL": "red", "INCONCLUSIVE": "yellow"}
_NARROWEST = 100
# Exit code of an INCONCLUSIVE validation, also for a comparison without common tests and for a killed validation.
_INCONCLUSIVE = 3


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    top = subparsers.add_parser(
        "report",
        help="manage validation reports: list, show, render, compare, sign, verify, wait",
        description="REPORT is a report's folder, its name or a prefix of its name, or latest (the default).",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    listed = commands.add_parser("list", help="list all reports, oldest first")
    listed.set_defaults(run=_list)
    shown = commands.add_parser("show", help="show a report and its changes over time")
    shown.set_defaults(run=_show)
    rendered = commands.add_parser("render", help="regenerate report.html, junit.xml and busbar.prom of a report")
    rendered.set_defaults(run=_render)
    for command in (shown, rendered):
        command.add_argument("report", nargs="?", default=LATEST, metavar="REPORT")
    compared = commands.add_parser(
        "compare",
        help="show the changes from report A to report B",
        description="Reports of one cluster are compared test by test. Reports of two clusters, which have no node in "
        "common, are shown side by side, by test and number of nodes. "
        "Exit code: 0 nothing is worse in B, 1 a test is slower in B or fails only in B, 3 no common test.",
    )
    compared.set_defaults(run=_compare)
    compared.add_argument("first", metavar="A")
    compared.add_argument("second", metavar="B")
    for command in (listed, shown, rendered, compared):
        add_report_options(command)
    report_statement.register(commands)
    waited = commands.add_parser(
        "wait",
        help="wait for a validation that was started with --detach, show its output, and return its exit code",
    )
    waited.set_defaults(run=_wait)
    waited.add_argument("id", nargs="?", default="", metavar="ID", help="ID or a prefix of it (default: the last one)")
    waited.add_argument("--status", action="store_true", help="print the state of the validation and exit with 0")
    waited.add_argument("-i", "--inventory", metavar="INVENTORY", help="inventory of the cluster (default: inventory/)")
    add_sandbox(waited)
    for command in (listed, shown, compared):
        command.add_argument("--format", choices=("json", "table"), default="table")


def _console() -> Console:
    """Return a console that does not wrap tables if the output is not a terminal."""
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(highlight=False, width=max(_NARROWEST, 200))


def _table(columns: Iterable[str], rows: Iterable[Iterable[str | Text]], right: frozenset[str]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title in columns:
        table.add_column(title, justify="right" if title in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    _console().print(table)


def _verdict(word: str) -> Text:
    return Text(word, style=_STYLE.get(word, ""))


def _gbs(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f} %"


def _list(args: argparse.Namespace) -> int:
    entries: list[dict[str, Any]] = []
    for folder in all_reports(reports_folder(args)):
        try:
            report = read_report(folder)
        except (OSError, ValueError) as exc:
            entries.append({"report": folder.name, "verdict": None, "reason": f"cannot be read: {exc}"})
            continue
        entries.append(
            {
                "report": folder.name,
                "verdict": report["verdict"],
                "cluster": report["cluster"],
                "started": report["started"],
                "backend": report["backend"],
                "reason": report["reason"],
                "nodes": report["nodes"],
                "tests": counts(report),
            }
        )
    if args.format == "json":
        print_json({"reports": entries})
        return 0
    rows = [
        (
            entry["report"],
            _verdict(entry["verdict"] or "?"),
            entry.get("cluster", ""),
            fold_hosts(entry.get("nodes", [])),
            "/".join(str(entry["tests"][verdict]) for verdict in VERDICTS) if "tests" in entry else "",
            entry["reason"],
        )
        for entry in entries
    ]
    columns = ("Report", "Verdict", "Cluster", "Nodes", "Pass/fail/incl.", "Reason")
    _table(columns, rows, frozenset({"Pass/fail/incl."}))
    return 0


def _show(args: argparse.Namespace) -> int:
    folder = find_report(args, args.report)
    report = readable_report(folder)
    compared = drift(report, history(folder))
    if args.format == "json":
        raw = raw_report(folder)
        print_json({"folder": str(folder), "report": raw, "culprits": culprits(report), "drift": compared})
        return 0
    console = _console()
    console.print(Text.assemble(_verdict(report["verdict"]), f"  {report['cluster']}: {report['reason']}"))
    print(f"{report['started']}, backend {report['backend']}, nodes {fold_hosts(report['nodes']) or 'none'}")
    for culprit in culprits(report):
        print(f"culprit  {', '.join(culprit['nodes'])}: {culprit['reason']}")
    for node, reason in sorted(report["left_out"].items()):
        print(f"not tested  {node}: {reason}")
    for word in ("unresolved", "suspected"):
        for doubt in report[word]:
            print(f"{word}  {fold_hosts(doubt['nodes'])}: {doubt['reason']}")
    for what, node, why in report["node_changes"]:
        print(f"{what}  {node}: {why}" if why else f"{what}  {node}")
    for words in report["leftovers"]:
        print(f"left over  {words}")
    own = {item["name"]: item["own_change"] for item in compared if item["subject"] == "test"}
    rows = [
        (
            _verdict(test["verdict"]),
            test["name"],
            fold_hosts(everyone(test)),
            _gbs(test["measured_busbw"]),
            "-" if test["at_size"] is None else human_size(test["at_size"]),
            _gbs(test["floor"]),
            _share(own.get(test["name"])),
            "; ".join([test["reason"], *test["findings"]]),
        )
        for test in report["tests"]
    ]
    columns = ("Verdict", "Test", "Nodes", "GB/s", "At size", "Floor", "Own median", "Reason")
    _table(columns, rows, frozenset({"GB/s", "At size", "Floor", "Own median"}))
    for item in compared:
        for flag in item["flags"]:
            print(f"drift  {item['name']}: {flag}")
    print(f"report: {folder}")
    return 0


def _render(args: argparse.Namespace) -> int:
    folder = find_report(args, args.report)
    readable_report(folder)
    try:
        paths = write_pages(folder)
    except OSError as exc:
        message = f"cannot write into {folder}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    for path in paths:
        print(path)
    return 0


def _compare(args: argparse.Namespace) -> int:
    first, second = (readable_report(find_report(args, name)) for name in (args.first, args.second))
    if first["nodes"] and second["nodes"] and set(first["nodes"]).isdisjoint(second["nodes"]):
        return _two_clusters(args, first, second)
    found = compare(first, second)
    worse = any(test["flag"] == "slower" for test in found["tests"])
    worse = worse or any(_fails_now(test["verdicts"]) for test in (*found["tests"], *found["other_nodes"]))
    # Such as the tests of a culprit search.
    worse = worse or any(test["verdict"] == "FAIL" and test["name"] in found["only_second"] for test in second["tests"])
    code = int(worse) if found["tests"] else _INCONCLUSIVE
    if args.format == "json":
        print_json(found)
        return code
    rows = [
        (
            test["name"],
            fold_hosts(test["nodes"]),
            Text.assemble(_verdict(test["verdicts"][0]), " > ", _verdict(test["verdicts"][1])),
            _gbs(test["first"]),
            _gbs(test["second"]),
            _share(test["change"]),
            test["flag"],
        )
        for test in found["tests"]
    ]
    if rows:
        _table(
            ("Test", "Nodes", "Verdict", "A, GB/s", "B, GB/s", "Change", ""),
            rows,
            frozenset({"A, GB/s", "B, GB/s", "Change"}),
        )
    for line in _differences(found):
        print(line)
    return code


def _two_clusters(args: argparse.Namespace, first: ReadReport, second: ReadReport) -> int:
    """Print the reports of two clusters side by side and return the exit code."""
    found = side_by_side((first, second))
    both = [each for each in found if None not in each["sides"]]
    fails = any("FAIL" in two["verdicts"] and "FAIL" not in one["verdicts"] for one, two in (e["sides"] for e in both))
    code = int(fails or any(each["flag"] == "slower" for each in both)) if both else _INCONCLUSIVE
    environment = compare(first, second)["environment"]
    if args.format == "json":
        print_json({"side_by_side": found, "nodes": [first["nodes"], second["nodes"]], "environment": environment})
        return code
    for letter, report in zip("AB", (first, second)):
        print(
            f"{letter}  {printable(report['cluster'])}, {report['started']}, nodes {fold_hosts(report['nodes'])}: "
            f"{report['verdict']}, {report['reason']}"
        )
    rows = [
        (
            each["test"],
            str(each["nodes"]),
            *_cells(each["sides"][0]),
            *_cells(each["sides"][1]),
            _share(each["change"]),
            each["flag"],
        )
        for each in found
    ]
    figures = ("Median, GB/s", "Lowest")
    columns = ("Test", "Nodes", *(f"{letter} {title}" for letter in "AB" for title in ("", *figures)), "Change", "")
    _table(columns, rows, frozenset(columns[1:]) - {"A ", "B ", ""})
    for item in environment:
        words = (item[side] or "not known" for side in ("first", "second"))
        print(printable(f"{item['term']}: {' > '.join(words)}"))
    return code


def _cells(side: dict[str, Any] | None) -> tuple[str, str, str]:
    """Return the verdicts, the median and the minimum of one side."""
    if side is None:
        return "not tested", "-", "-"
    verdicts = ", ".join(f"{side['verdicts'][word]} {word}" for word in VERDICTS if word in side["verdicts"])
    return verdicts, _gbs(side["median"]), _gbs(side["lowest"])


def _fails_now(verdicts: list[str]) -> bool:
    """Return whether a test fails in the second report and did not in the first."""
    first, second = verdicts
    return second == "FAIL" != first


def _differences(found: dict[str, Any]) -> list[str]:
    """Return lines about the differences between two reports: nodes, tests and environment."""
    first, second = (set(nodes) for nodes in found["nodes"])
    lines = [] if found["tests"] else ["No test ran on the same nodes in both reports, so no values are compared."]
    if first != second:
        words = [f"only A has {fold_hosts(sorted(first - second))}"] if first - second else []
        words += [f"only B has {fold_hosts(sorted(second - first))}"] if second - first else []
        lines.append(f"The reports cover different nodes: {', '.join(words)}.")
    for test in found["other_nodes"]:
        sides = [
            f"on {fold_hosts(nodes)} in {letter} ({verdict}, {_gbs(busbw)} GB/s)"
            for letter, nodes, verdict, busbw in zip("AB", test["nodes"], test["verdicts"], test["busbw"])
        ]
        lines.append(f"not compared: {test['name']} ran {' and '.join(sides)}")
    for letter, names in (("A", found["only_first"]), ("B", found["only_second"])):
        if names:
            lines.append(f"tests only in {letter}: {', '.join(names)}")
    changed = [
        f"{item['term']} changed: {item['first'] or 'not known'} > {item['second'] or 'not known'}"
        for item in found["environment"]
    ]
    return lines + [printable(line) for line in changed]


def _wait(args: argparse.Namespace) -> int:
    # Detached runs of `busbar prove` are in the user's folder, because they have no site.
    in_site = args.inventory or chosen(args) or detached.site_runs_folder(Path.cwd()).is_dir()
    user_folder = detached.user_runs_folder()
    folder = detached.site_runs_folder(site_of(args)) if in_site or not user_folder.is_dir() else user_folder
    run = detached.find(folder, args.id)
    if args.status:
        print(f"validation {run.name}: {run}")
        return 0
    try:
        code = run.follow(lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        print(f"validation {run.name} is running: {run}", file=sys.stderr)
        raise
    if code is None:
        print(f"validation {run.name} was killed before it finished; its output: {run.output}", file=sys.stderr)
    return _INCONCLUSIVE if code is None else code
