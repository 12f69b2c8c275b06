"""`busbar report wait`: picks up a validation that was started with `busbar validate --detach`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from busbar.commands.report_choice import site_of
from busbar.run.detached import find, place_of
from busbar.sandbox.option import add_sandbox

if TYPE_CHECKING:
    import argparse

__all__ = ["register"]

# Of a validation that was killed nothing can be said.
_KILLED = 3


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those about reports."""
    waited = commands.add_parser(
        "wait",
        help="wait for a validation that was started with --detach, show what it prints, and return its exit code",
    )
    waited.set_defaults(run=_wait)
    waited.add_argument("id", nargs="?", default="", metavar="ID", help="or its beginning (default: the last one)")
    waited.add_argument("--status", action="store_true", help="say how it is and return at once, with 0")
    waited.add_argument("-i", "--inventory", metavar="INVENTORY", help="of the cluster (default: inventory/)")
    add_sandbox(waited)


def _wait(args: argparse.Namespace) -> int:
    run = find(place_of(site_of(args)), args.id)
    if args.status:
        print(f"validation {run.name}: {run}")
        return 0
    try:
        code = run.follow(lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        print(f"validation {run.name} goes on: {run}", file=sys.stderr)
        raise
    if code is None:
        print(f"validation {run.name} was killed before its end: {run.output}", file=sys.stderr)
    return _KILLED if code is None else code
