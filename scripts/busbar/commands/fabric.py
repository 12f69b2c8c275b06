"""`busbar fabric`: the culprit search against a simulated fabric."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.simulation import (
    Fabric,
    Faults,
    node_names,
    random_faults,
    simulate,
    switch_names,
)

from busbar.commands.fabric_trials import add_command
from busbar.errors import UsageError
from busbar.option_values import percent, whole

if TYPE_CHECKING:
    import argparse

__all__ = ["register"]

_MOST_NODES = 10_000
_MOST_TRIALS = 100_000
_MOST_NOISE = 50.0
_LEAST_SWITCH, _MOST_SWITCH = 4, 32
_MANY = 12
_GOOD = ("missed", "wrongly_blamed")
_NAMED = ("found", "suspected", *_GOOD)


def _items(option: str, given: list[str]) -> list[str]:
    """The items of lists with commas; a list that was given has to name something."""
    items = [[item.strip() for item in text.split(",") if item.strip()] for text in given]
    if not all(items):
        message = f"{option}: {given[items.index([])]!r} names nothing"
        raise UsageError(message)
    return [item for part in items for item in part]


def _names(option: str, given: list[str], known: set[str], what: str) -> frozenset[str]:
    """Names out of lists with commas, all known."""
    names = _items(option, given)
    strange = [name for name in names if name not in known]
    if strange:
        message = f"{option}: there is no {what} {strange[0]!r}; they are {min(known)} to {max(known)}"
        raise UsageError(message)
    return frozenset(names)


def _links(given: list[str], known: set[str]) -> frozenset[tuple[str, str]]:
    links = set()
    for text in _items("--slow-link", given):
        one, _dash, other = text.partition("-")
        if not one or not other or one == other:
            message = f"--slow-link: {text!r} is not two nodes as in node0001-node0002"
            raise UsageError(message)
        _names("--slow-link", [one, other], known, "node")
        links.add((min(one, other), max(one, other)))
    return frozenset(links)


def _uplinks(given: list[str], topology: dict[str, list[str]]) -> frozenset[str]:
    """Switches by name or number."""
    names = list(topology)
    items = _items("--bad-uplink", given)
    if items and len(names) < len(("this", "that")):
        message = f"--bad-uplink: with one switch ({names[0]}) there is no uplink; set --switch-size"
        raise UsageError(message)
    items = [
        names[int(item)] if item.isascii() and item.isdigit() and int(item) < len(names) else item for item in items
    ]
    return _names("--bad-uplink", items, set(names), "switch")


def _faults(args: argparse.Namespace, topology: dict[str, list[str]]) -> Faults:
    nodes = {node for members in topology.values() for node in members}
    faults = Faults(
        slow=_names("--slow", args.slow, nodes, "node"),
        slow_nic=_names("--slow-nic", args.slow_nic, nodes, "node"),
        crash=_names("--crash", args.crash, nodes, "node"),
        links=_links(args.slow_link, nodes),
        uplinks=_uplinks(args.bad_uplink, topology),
    )
    if args.random_faults is not None and faults.names():
        message = "--random-faults: cannot be combined with faults that are named"
        raise UsageError(message)
    return faults


def _simulate(args: argparse.Namespace) -> int:
    count = whole("--nodes", args.nodes, 1, _MOST_NODES)
    size = min(_MOST_SWITCH, max(_LEAST_SWITCH, -(-count // 4)))
    if args.switch_size is not None:
        size = whole("--switch-size", args.switch_size, 1, count)
    topology = switch_names(node_names(count), size)
    faults = _faults(args, topology)
    noise = percent("--noise", args.noise, 0, _MOST_NOISE)
    speed = percent("--speed", args.speed, 0, 100)
    spread = percent("--spread", args.spread, 0, _MOST_NOISE)
    seed = whole("--seed", args.seed, 0, 999_999_999)
    trials = whole("--trials", args.trials, 1, _MOST_TRIALS)
    most = 0 if args.random_faults is None else whole("--random-faults", args.random_faults, 0, max(0, count // 4))
    results = []
    for trial in range(seed, seed + trials):
        random = Random(trial)  # noqa: S311 - noise, not a secret
        now = random_faults(topology, random.randint(0, most), random) if most else faults
        results.append(simulate(Fabric(topology, now, noise, random, speed, spread)))
    answer = _summary(results, seed) if trials > 1 else results[0]
    if args.format == "json":
        print(json.dumps(answer, indent=1))
    else:
        _print(answer, count)
    return 1 if any(answer[key] for key in _GOOD) else 0


def _summary(results: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Many trials as one: the most rounds and tests, and whatever was found, missed or wrongly blamed in any."""
    bad = [seed + i for i, result in enumerate(results) if any(result[key] for key in _GOOD)]
    return {
        "trials": len(results),
        "rounds": max(result["rounds"] for result in results),
        "tests": max(result["tests"] for result in results),
        **{key: sorted({name for result in results for name in result[key]}) for key in _NAMED},
        "unresolved": sum(bool(result["unresolved"]) for result in results),
        "mean_rounds": round(sum(result["rounds"] for result in results) / len(results), 2),
        "failed_seeds": bad,
    }


def _print(answer: dict[str, Any], count: int) -> None:
    """The answer for people."""
    if "trials" in answer:
        print(f"{answer['trials']} trials on {count} nodes; failed seeds: {_list(answer['failed_seeds'])}")
        print(f"rounds: {answer['mean_rounds']} on average, {answer['rounds']} at most")
    else:
        print(f"simulated fabric of {count} nodes: {answer['rounds']} rounds")
    print(f"tests: {answer['tests']}{' at most' if 'trials' in answer else ''}")
    for key in _NAMED:
        print(f"{key.replace('_', ' ')}: {_list(answer[key])}")
    if answer["unresolved"]:
        print(f"unresolved: {answer['unresolved']}")


def _list(items: list[Any]) -> str:
    shown = ", ".join(str(item) for item in items[:_MANY])
    return f"{shown} and {len(items) - _MANY} more" if len(items) > _MANY else shown or "none"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    top = subparsers.add_parser("fabric", help="try the culprit search on a simulated fabric")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("simulate", help="exit code 0 when no culprit is missed and no innocent blamed")
    command.set_defaults(run=_simulate)
    command.add_argument("--nodes", required=True, metavar="N", help="nodes node0000, node0001, …")
    for option, metavar, text in (
        ("--slow", "A,B", "nodes that are slow"),
        ("--slow-nic", "A,B", "nodes that are slow with others but not alone"),
        ("--slow-link", "A-B", "pairs of nodes that are slow together"),
        ("--bad-uplink", "NAME", "switches with a slow uplink, by name (switch00, …) or number"),
        ("--crash", "A,B", "nodes on which each test crashes"),
    ):
        command.add_argument(option, action="append", default=[], metavar=metavar, help=text)
    command.add_argument("--random-faults", metavar="N", help="up to so many faults of all kinds, others in each trial")
    command.add_argument("--switch-size", metavar="N", help="nodes of a switch; by default a quarter, from 4 to 32")
    command.add_argument("--speed", default="50", metavar="PCT", help="share of the bandwidth that a fault leaves")
    command.add_argument("--noise", default="0", metavar="PCT", help="standard deviation of one repeat; default 0")
    command.add_argument("--spread", default="0", metavar="PCT", help="standard deviation of healthy nodes; default 0")
    command.add_argument("--seed", default="0", metavar="S", help="of the noise and of random faults; default 0")
    command.add_argument("--trials", default="1", metavar="T", help="with the seeds S, S+1, …")
    command.add_argument("--format", choices=("json", "text"), default="text")
    add_command(commands)
