"""Entry point of the command `busbar`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from busbar import removed
from busbar.commands import completion
from busbar.errors import AnsibleMissingError, UsageError

# Modules in busbar.commands that register the commands.
COMMANDS = {
    "init": "init",
    "adopt": "adopt",
    "sandbox": "sandbox",
    "provision": "provision",
    "validate": "provision",
    "prove": "prove",
    "ssh": "ssh",
    "judge": "nccl",
    "nccl": "nccl",
    "hardware": "hardware",
    "gpu": "gpu",
    "inventory": "inventory",
    "health": "health",
    "node": "node",
    "user": "user",
    "doctor": "doctor",
    "backup": "backup",
    "secrets": "secrets",
    "image": "image",
    "bundle": "bundle",
    "report": "report",
    "completion": "completion",
}
EXIT_CODES = (
    "Exit codes: 0 PASS or done, 1 FAIL, 2 bad usage or input, 3 INCONCLUSIVE, 4 some nodes were not tested and the "
    "rest passed."
)
USAGE = 2
INTERRUPTED = 130


def parser(command: str = "") -> argparse.ArgumentParser:
    """Return the parser of one command, or of all commands if the command is unknown."""
    top = argparse.ArgumentParser(
        prog="busbar",
        description="Turns bare Linux machines into a GPU cluster with Slurm and validates its performance.",
        epilog=EXIT_CODES,
    )
    subparsers = top.add_subparsers(required=True, metavar="COMMAND")
    wanted = [COMMANDS[command]] if command in COMMANDS else dict.fromkeys(COMMANDS.values())
    for name in wanted:
        importlib.import_module(f"busbar.commands.{name}").register(subparsers)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run a command and return the exit code."""
    # The shell sets this variable to request completions.
    if "_ARGCOMPLETE" in os.environ:
        completion.answer(parser())
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] in removed.COMMANDS:
        print(f"busbar: {removed.COMMANDS[words[0]]}", file=sys.stderr)
        return USAGE
    # Importing the modules of all commands takes longer than most commands run.
    args = parser(words[0] if words else "").parse_args(words)
    try:
        return int(args.run(args))
    except AnsibleMissingError as exc:
        print(f"busbar {words[0]} {exc}", file=sys.stderr)
        return USAGE
    except UsageError as exc:
        print(f"busbar: {exc}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        print("busbar: interrupted", file=sys.stderr)
        return INTERRUPTED
