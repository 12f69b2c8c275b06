"""`busbar fabric trials`: how often the culprit search finds faults of some size amid some noise."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.trials import Cell, Trials, table

from busbar.errors import UsageError
from busbar.option_values import percent, whole

if TYPE_CHECKING:
    import argparse

__all__ = ["add_command"]

_LEAST_NODES, _MOST_NODES = 2, 4096
_MOST_TRIALS = 100_000
_MOST_FAULTS = 16
_MOST_NOISE = 50.0
_MANY = 12
_HEAD = (
    "left",
    "noise",
    "trials",
    "faults",
    "found",
    "suspected",
    "missed",
    "innocents blamed",
    "rounds",
    "most rounds",
)


def _percents(option: str, text: str, least: float, most: float) -> tuple[float, ...]:
    """Shares of a list with commas, each once."""
    return tuple(dict.fromkeys(percent(option, item.strip(), least, most) for item in text.split(",")))


def _between(option: str, text: str) -> tuple[int, int]:
    """The ends of A-B, or one number twice."""
    one, dash, other = text.partition("-")
    least = whole(option, one, _LEAST_NODES, _MOST_NODES)
    most = whole(option, other, _LEAST_NODES, _MOST_NODES) if dash else least
    if most < least:
        message = f"{option}: {text!r} ends before it begins"
        raise UsageError(message)
    return least, most


def _run(args: argparse.Namespace) -> int:
    least, most = _between("--nodes", args.nodes)
    asked = Trials(
        least_nodes=least,
        most_nodes=most,
        most_faults=whole("--faults", args.faults, 0, _MOST_FAULTS),
        left=_percents("--left", args.left, 0, 100),
        noise=_percents("--noise", args.noise, 0, _MOST_NOISE),
        spread=percent("--spread", args.spread, 0, _MOST_NOISE),
    )
    seed = whole("--seed", args.seed, 0, 999_999_999)
    number = whole("--trials", args.trials, 1, _MOST_TRIALS)
    cells = table(asked, range(seed, seed + number))
    if args.format == "json":
        rows = [{"left": left, "noise": noise, **asdict(cell)} for (left, noise), cell in cells.items()]
        print(json.dumps(rows, indent=1))
    else:
        _print(cells)
    return 1 if any(cell.failed_seeds for cell in cells.values()) else 0


def _print(cells: dict[tuple[float, float], Cell]) -> None:
    """A table in Markdown, then the seeds of what went wrong."""
    rows = [(f"{100 * left:g} %", f"{100 * noise:g} %", *_figures(cell)) for (left, noise), cell in cells.items()]
    rows.append(("all", "all", *_figures(_sum(list(cells.values())))))
    widths = [max(len(row[column]) for row in [_HEAD, *rows]) for column in range(len(_HEAD))]
    ruler = tuple("-" * width for width in widths)
    for row in (_HEAD, ruler, *rows):
        print("| " + " | ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) + " |")
    seeds = sorted(seed for cell in cells.values() for seed in cell.failed_seeds)
    if seeds:
        print(f"failed seeds: {', '.join(map(str, seeds[:_MANY]))}{' and more' if len(seeds) > _MANY else ''}")


def _figures(cell: Cell) -> tuple[str, ...]:
    mean = f"{cell.rounds / cell.trials:.1f}" if cell.trials else "-"
    counts = (cell.trials, cell.faults, cell.found, cell.suspected, cell.missed, cell.innocents)
    return (*map(str, counts), mean, str(cell.most_rounds))


def _sum(cells: list[Cell]) -> Cell:
    whole_sum = Cell(most_rounds=max(cell.most_rounds for cell in cells))
    for key in ("trials", "faults", "found", "suspected", "missed", "innocents", "rounds"):
        setattr(whole_sum, key, sum(getattr(cell, key) for cell in cells))
    return whole_sum


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `busbar fabric`."""
    text = "exit code 0 when all culprits are found or suspected and no innocent is blamed"
    command = commands.add_parser("trials", help=text)
    command.set_defaults(run=_run)
    command.add_argument("--trials", default="1000", metavar="T", help="with the seeds S, S+1, …; default 1000")
    command.add_argument("--seed", default="0", metavar="S", help="default 0")
    command.add_argument("--nodes", default="16-1024", metavar="A-B", help="nodes of a fabric; default 16-1024")
    command.add_argument("--faults", default="3", metavar="N", help="up to so many in each fabric; default 3")
    command.add_argument("--left", default="50,70,80,87,90", metavar="PCT", help="what a fault leaves of the bandwidth")
    command.add_argument("--noise", default="1,2,3,4,5", metavar="PCT", help="standard deviation of one repeat")
    command.add_argument("--spread", default="1", metavar="PCT", help="standard deviation of healthy nodes; default 1")
    command.add_argument("--format", choices=("json", "text"), default="text")
