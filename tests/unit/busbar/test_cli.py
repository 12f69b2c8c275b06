"""Tests of the command line: each command loads only the modules that it needs."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from busbar.cli import COMMANDS, main, parser

if TYPE_CHECKING:
    import argparse

LOADED = "import sys; from busbar.cli import parser; parser(sys.argv[1]); print(*sys.modules)"


def commands(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (action.choices for action in top._actions if isinstance(action.choices, dict))  # noqa: SLF001 - argparse has no public attribute for it
    return dict(found)


@pytest.mark.parametrize("command", ["", "--help", "provison", "prov"])
def test_all_commands_are_known_if_none_is_named(command: str) -> None:
    assert list(commands(parser(command))) == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_the_same_options_alone_and_among_all_commands(command: str) -> None:
    assert commands(parser(command))[command].format_help() == commands(parser())[command].format_help()


def test_modules_of_other_commands_are_not_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, "gpu"], check=True, capture_output=True, text=True)
    loaded = {name for name in done.stdout.split() if name.startswith("busbar.commands.")}
    assert loaded == {"busbar.commands.gpu", "busbar.commands.completion"}


def test_removed_command_is_refused_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["security", "report"]) == 2
    said = capsys.readouterr().err
    assert "busbar security report was removed" in said
    assert "lynis audit system" in said
