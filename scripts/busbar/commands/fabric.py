"""`busbar fabric`: runs the culprit search on simulated fabrics."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.simulation import (
    Fabric,
    Faults,
    node_names,
    simulate,
    switch_names,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.trials import Cell, table

from busbar.errors import UsageError
from busbar.option_values import whole

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["register"]

_MOST_NODES = 10_000
_MOST_TRIALS = 100_000
_LEAST_SWITCH, _MOST_SWITCH = 4, 32
_MANY = 12
_GOOD = ("missed", "wrongly_blamed")
_FIGURES = ("trials", "faults", "found", "suspected", "missed", "innocents", "rounds", "most_rounds")
_HEAD = ("left", "noise", *_FIGURES[:5], "innocents blamed", "rounds", "most rounds")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    top = subparsers.add_parser("fabric", help="try the culprit search on a simulated fabric")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("simulate", help="exit code 0 when no culprit is missed and no innocent blamed")
    one.set_defaults(run=_simulate)
    one.add_argument("--nodes", required=True, metavar="N", help="nodes node0000, node0001, …")
    one.add_argument("--slow", action="append", default=[], metavar="A,B", help="nodes that are slow")
    many = commands.add_parser(
        "trials", help="exit code 0 when all culprits are found or suspected and no innocent is blamed"
    )
    many.set_defaults(run=_trials)
    many.add_argument("--trials", default="1000", metavar="T", help="with the seeds S, S+1, …; default 1000")
    many.add_argument("--seed", default="0", metavar="S", help="default 0")
    for command in (one, many):
        command.add_argument("--format", choices=("json", "text"), default="text")


def _simulate(args: argparse.Namespace) -> int:
    count = whole("--nodes", args.nodes, 1, _MOST_NODES)
    topology = switch_names(node_names(count), min(_MOST_SWITCH, max(_LEAST_SWITCH, -(-count // 4))))
    slow = _names("--slow", args.slow, node_names(count))
    answer = simulate(Fabric(topology, Faults(slow=slow)))
    if args.format == "json":
        print(json.dumps(answer, indent=1))
    else:
        print(f"simulated fabric of {count} nodes: {answer['rounds']} rounds\ntests: {answer['tests']}")
        for key in ("found", "suspected", *_GOOD):
            print(f"{key.replace('_', ' ')}: {_list(answer[key])}")
        if answer["unresolved"]:
            print(f"unresolved: {_list(answer['unresolved'])}")
    return 1 if any(answer[key] for key in _GOOD) else 0


def _names(option: str, given: list[str], known: list[str]) -> frozenset[str]:
    """Return the nodes of comma-separated lists.

    Raises:
        UsageError: a list is empty, or a node does not exist.
    """
    lists = [[item.strip() for item in text.split(",") if item.strip()] for text in given]
    if not all(lists):
        message = f"{option}: {given[lists.index([])]!r} names nothing"
        raise UsageError(message)
    names = [name for each in lists for name in each]
    unknown = [name for name in names if name not in known]
    if unknown:
        message = f"{option}: there is no node {unknown[0]!r}; they are {known[0]} to {known[-1]}"
        raise UsageError(message)
    return frozenset(names)


def _trials(args: argparse.Namespace) -> int:
    seed = whole("--seed", args.seed, 0, 999_999_999)
    cells = table(range(seed, seed + whole("--trials", args.trials, 1, _MOST_TRIALS)))
    failed = sorted(seed for cell in cells.values() for seed in cell.failed_seeds)
    if args.format == "json":
        rows = [{"left": left, "noise": noise, **asdict(cell)} for (left, noise), cell in cells.items()]
        print(json.dumps(rows, indent=1))
    else:
        _print_table(cells)
        print(f"failed seeds: {_list(failed)}")
    return 1 if failed else 0


def _print_table(cells: dict[tuple[float, float], Cell]) -> None:
    """Print the cells and their sum as a table in Markdown."""
    rows = [(f"{100 * left:g} %", f"{100 * noise:g} %", *_figures([cell])) for (left, noise), cell in cells.items()]
    rows.append(("all", "all", *_figures(list(cells.values()))))
    widths = [max(len(row[column]) for row in [_HEAD, *rows]) for column in range(len(_HEAD))]
    ruler = tuple("-" * width for width in widths)
    for row in (_HEAD, ruler, *rows):
        print("| " + " | ".join(text.rjust(width) for text, width in zip(row, widths)) + " |")


def _figures(cells: list[Cell]) -> Iterable[str]:
    """Return the sums of some cells, and the mean and maximum number of rounds."""
    sums: dict[str, Any] = {key: sum(getattr(cell, key) for cell in cells) for key in _FIGURES}
    sums["rounds"] = f"{sums['rounds'] / sums['trials']:.1f}" if sums["trials"] else "-"
    sums["most_rounds"] = max(cell.most_rounds for cell in cells)
    return map(str, sums.values())


def _list(items: list[Any]) -> str:
    shown = ", ".join(map(str, items[:_MANY]))
    return f"{shown} and {len(items) - _MANY} more" if len(items) > _MANY else shown or "none"
