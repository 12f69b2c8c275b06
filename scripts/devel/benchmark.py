"""Implements scripts/benchmark: runs a benchmark several times, and prints the medians with their goals."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from statistics import median
from typing import TYPE_CHECKING, Any

from busbar.errors import UsageError
from busbar.option_values import whole

if TYPE_CHECKING:
    from devel.benchmark_figures import Figure

NAMES = {
    "controller": "runs a playbook on many simulated hosts: CPU, memory and time of the provisioning host",
    "noop": "provisions sandboxes of several sizes a second time: time and CPU of the provisioning host",
    "parser": "parses a table of nccl-tests in a log with many NCCL_DEBUG lines: MB/s and peak memory",
    "provision": "provisions and validates new nodes, compared with a shell script that installs the same files",
    "search": "searches for one culprit in clusters of several sizes: rounds and tests, compared with round-robin",
}
FAILED, USAGE, INTERRUPTED = 1, 2, 130
_MOST_RUNS = 99


def _measured(argv: list[str]) -> tuple[dict[str, Any], argparse.Namespace]:
    """Return the result of a benchmark: the median of each figure, with the values of all runs."""
    name, *given = argv
    if name not in NAMES:
        message = f"benchmark {name!r} does not exist; available: {', '.join(NAMES)}"
        raise UsageError(message)
    module = importlib.import_module(f"devel.benchmarks.{name}")
    parser = argparse.ArgumentParser(prog=f"scripts/benchmark {name}", description=f"{name} {NAMES[name]}")
    parser.add_argument("--runs", default="3", metavar="N", help="number of runs for the median; default 3")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    own = parser.add_argument_group("options of this benchmark")
    module.add_options(own)
    args = parser.parse_args(given)
    runs = whole("--runs", args.runs, 1, _MOST_RUNS)
    values: dict[tuple[str, int | None], list[Figure]] = {}
    for _ in range(runs):
        for figure in module.measure(args):
            values.setdefault((figure.name, figure.at), []).append(figure)
    goals = {(goal.figure, goal.at): goal for goal in module.GOALS}
    figures = []
    for key, found in values.items():
        middle = median(figure.value for figure in found)
        entry: dict[str, Any] = {"figure": key[0], "value": middle, "unit": found[0].unit}
        entry |= {} if key[1] is None else {"at": key[1]}
        entry["runs"] = [figure.value for figure in found]
        goal = goals.get(key)
        if goal is not None:
            entry |= {"goal": f"{goal.relation} {goal.limit:g}", "met": goal.met(middle)}
        figures.append(entry)
    return {"benchmark": name, "figures": figures}, args


def _print(result: dict[str, Any]) -> None:
    for entry in result["figures"]:
        at = f"{entry['at']:>8}" if "at" in entry else " " * 8
        spread = f"{min(entry['runs']):g} to {max(entry['runs']):g}" if len(entry["runs"]) > 1 else ""
        goal = f"goal {entry['goal']}: {'met' if entry['met'] else 'missed'}" if "goal" in entry else ""
        print(f"{entry['figure']:24} {at} {entry['value']:>12g} {entry['unit']:12} {spread:20} {goal}".rstrip())


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in {"-h", "--help", "--list"}:
        for name, text in NAMES.items():
            print(f"{name:13} {text}")
        return 0
    result, args = _measured(argv)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        _print(result)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run or list benchmarks and return the exit code: 1 if the measured command failed, 2 for invalid usage."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except UsageError as exc:
        print(f"benchmark: {exc}", file=sys.stderr)
        return USAGE
    except ValueError as exc:
        print(f"benchmark: {exc}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("benchmark: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
