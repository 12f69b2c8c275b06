"""The program behind scripts/benchmark: measures, keeps the results, and writes the page of them."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import sys
from statistics import median
from typing import TYPE_CHECKING, Any

from busbar.errors import UsageError
from busbar.option_values import whole

from devel import scale_page
from devel.measured import machine, refuse_too_little

if TYPE_CHECKING:
    from devel.measured import Figure

__all__ = ["main"]

NAMES = {
    "add_node": "joins one node to sandboxes of several sizes: time, CPU of the provisioning host, tasks on the others",
    "controller": "runs a playbook on many hosts that answer at once: CPU, memory and time of the provisioning host",
    "noop": "provisions sandboxes of several sizes a second time: time, CPU of the provisioning host",
    "monitoring": "scrapes as many nodes as asked for with a sandbox's Prometheus: series, CPU seconds, memory",
    "parser": "reads a table of nccl-tests out of a log that is nearly all NCCL_DEBUG noise: MB/s and peak memory",
    "locator": "searches for culprits in simulated fabrics with random faults: rounds, missed, wrongly blamed",
    "peer": "runs another playbook that installs Slurm on fresh nodes, twice, beside busbar: seconds, CPU seconds",
    "provision": "provisions and validates fresh nodes, beside a shell script that only installs the same",
    "render": "writes slurm.conf, gres.conf, topology.conf, hosts and targets of a large cluster: seconds, memory",
    "report": "judges and shows a validation of many nodes: seconds, size of the page, seconds until it is open",
    "search": "searches for one culprit in clusters of several sizes: rounds and tests, beside a round-robin",
    "slurm_metrics": "collects the metrics of a large cluster: seconds, CPU seconds, peak memory, size of the file",
    "validate": "validates a sandbox: seconds beyond those in which its jobs ran",
}
FAILED, USAGE, INTERRUPTED = 1, 2, 130
_MOST_RUNS = 99


def _measured(argv: list[str]) -> tuple[dict[str, Any], argparse.Namespace]:
    """The result of a benchmark: the median of each figure, with the values of all runs."""
    name, *given = argv
    if name not in NAMES:
        message = f"there is no benchmark {name!r}; there are {', '.join(NAMES)}"
        raise UsageError(message)
    module = importlib.import_module(f"devel.benchmarks.{name}")
    parser = argparse.ArgumentParser(prog=f"scripts/benchmark {name}", description=f"{name} {NAMES[name]}")
    parser.add_argument("--runs", default="3", metavar="N", help="medians of so many runs; default 3")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--save", action="store_true", help="keep the result in docs/benchmarks, and renew docs/scale.md"
    )
    own = parser.add_argument_group("of this benchmark")
    module.add_options(own)
    args = parser.parse_args(given)
    runs = whole("--runs", args.runs, 1, _MOST_RUNS)
    refuse_too_little(name, module.needs(args))
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
    chosen = [part for part in given if part not in {"--json", "--save"}]
    result = {
        "benchmark": name,
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "command": " ".join(["scripts/benchmark", name, *chosen]),
        "machine": machine(),
        "figures": figures,
    }
    return result, args


def _print(result: dict[str, Any]) -> None:
    for entry in result["figures"]:
        at = f"{entry['at']:>8}" if "at" in entry else " " * 8
        spread = f"{min(entry['runs']):g} to {max(entry['runs']):g}" if len(entry["runs"]) > 1 else ""
        goal = f"goal {entry['goal']}: {'met' if entry['met'] else 'missed'}" if "goal" in entry else ""
        print(f"{entry['figure']:24} {at} {entry['value']:>12g} {entry['unit']:12} {spread:20} {goal}".rstrip())


def _page(options: list[str]) -> int:
    if options not in ([], ["--check"]):
        message = f"--page knows only --check, not {' '.join(options)}"
        raise UsageError(message)
    if not options:
        scale_page.write()
        return 0
    stale = scale_page.stale()
    if stale:
        print(
            f"benchmark: {', '.join(stale)}: not what docs/benchmarks says; run scripts/benchmark --page",
            file=sys.stderr,
        )
    return FAILED if stale else 0


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in {"-h", "--help", "--list"}:
        for name, text in NAMES.items():
            print(f"{name:13} {text}")
        return 0
    if argv[0] == "--page":
        return _page(argv[1:])
    result, args = _measured(argv)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        _print(result)
    if args.save:
        scale_page.save(result)
        scale_page.write()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run a benchmark, or list them; returns the exit code: 1 when what was measured went wrong, 2 for bad usage."""
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
