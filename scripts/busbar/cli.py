"""Entry point of the command `busbar`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from busbar.commands import completion
from busbar.errors import UsageError

__all__ = ["main"]

COMMANDS = (
    "init",
    "sandbox",
    "vm",
    "provision",
    "ssh",
    "nccl",
    "fabric",
    "gpu",
    "inventory",
    "health",
    "node",
    "user",
    "doctor",
    "secrets",
    "report",
    "completion",
)
EXIT_CODES = (
    "Exit codes: 0 PASS or done, 1 FAIL, 2 bad usage or input, 3 INCONCLUSIVE, 4 not all nodes were tested and the "
    "rest passed."
)
USAGE = 2
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(
        prog="busbar",
        description="Turns bare Linux machines into a GPU cluster and proves with numbers that it is fast.",
        epilog=EXIT_CODES,
    )
    subparsers = top.add_subparsers(required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f"busbar.commands.{name}").register(subparsers)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    # A shell asks by this variable for the words that may follow; nothing else needs the library then.
    if "_ARGCOMPLETE" in os.environ:
        completion.answer(parser())
    args = parser().parse_args(argv)
    try:
        return int(args.run(args))
    except UsageError as exc:
        print(f"busbar: {exc}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        print("busbar: interrupted", file=sys.stderr)
        return INTERRUPTED
