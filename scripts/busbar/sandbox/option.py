"""The options that select a sandbox: `--name NAME`, or `--sandbox` for the checkout's sandbox."""

from __future__ import annotations

import argparse

from busbar.errors import UsageError

_NAME = "--name"


def add_name(parser: argparse.ArgumentParser, text: str = "name of the sandbox (default: one per checkout)") -> None:
    """Add the option --name to a command or action that manages a sandbox."""
    # No default, so that an action without --name does not override the value of its command.
    parser.add_argument(_NAME, default=argparse.SUPPRESS, help=text)


def add_sandbox(parser: argparse._ActionsContainer) -> None:
    """Add the options that select a sandbox instead of an inventory."""
    parser.add_argument("--sandbox", action="store_true", help="the sandbox of this checkout")
    parser.add_argument(_NAME, help="the sandbox with this name")


def chosen(args: argparse.Namespace) -> bool:
    """Return whether a sandbox was selected instead of an inventory."""
    return bool(args.sandbox or args.name is not None)


def command_words(args: argparse.Namespace, command: list[str]) -> list[str]:
    """Return the command to run on a node without a preceding --name option, which is stored in `args`.

    Raises:
        UsageError: the name is missing.
    """
    while command and command[0].split("=")[0] == _NAME:
        word, *command = command
        name = word.removeprefix(f"{_NAME}=") if "=" in word else (command.pop(0) if command else "--")
        if name.startswith("-"):
            message = f"{_NAME} requires the name of a sandbox"
            raise UsageError(message)
        args.name = name
    return command[1:] if command[:1] == ["--"] else command
