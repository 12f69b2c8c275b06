"""The program behind scripts/benchmark: measures, and prints one JSON line per figure."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import TYPE_CHECKING

from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]

NAMES = {
    "parser": "reads a table of nccl-tests out of a log that is nearly all NCCL_DEBUG noise: MB/s and peak memory",
    "locator": "searches for culprits in simulated fabrics with random faults: rounds, missed, wrongly blamed",
    "slurm_metrics": "collects the metrics of a large cluster: seconds, CPU seconds, peak memory, size of the file",
}
FAILED, USAGE, INTERRUPTED = 1, 2, 130


def _figures(argv: list[str]) -> Iterator[dict[str, object]]:
    name, *options = argv
    if name not in NAMES:
        message = f"there is no benchmark {name!r}; there are {', '.join(NAMES)}"
        raise UsageError(message)
    module = importlib.import_module(f"devel.benchmarks.{name}")
    parser = argparse.ArgumentParser(prog=f"scripts/benchmark {name}", description=f"{name} {NAMES[name]}")
    module.add_options(parser)
    for figure, value, unit in module.measure(parser.parse_args(options)):
        yield {"benchmark": name, "figure": figure, "value": value, "unit": unit}


def main(argv: list[str] | None = None) -> int:
    """Run a benchmark, or list them; returns the exit code: 1 when what was measured went wrong, 2 for bad usage."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in {"-h", "--help"}:
        for name, text in NAMES.items():
            print(f"{name:13} {text}")
        return 0
    try:
        for line in _figures(argv):
            print(json.dumps(line), flush=True)
    except UsageError as exc:
        print(f"benchmark: {exc}", file=sys.stderr)
        return USAGE
    except ValueError as exc:
        print(f"benchmark: {exc}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("benchmark: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
