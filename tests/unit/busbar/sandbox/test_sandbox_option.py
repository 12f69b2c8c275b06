"""`--name` selects a sandbox in every command and position."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbar import cli
from busbar.commands import report_selection, sandbox, ssh
from busbar.run import site as site_module

if TYPE_CHECKING:
    import argparse


class Asked(Exception):  # noqa: N818 - not an error
    """The name that a command requested."""


def ask(name: str | None = None) -> Any:  # noqa: ANN401 - it never returns
    """Raise the requested name instead of reading the sandbox's state."""
    raise Asked(name)


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop every command where it loads the sandbox."""
    monkeypatch.setattr(sandbox, "load", ask)
    monkeypatch.setattr(site_module, "inventory_of", ask)
    monkeypatch.setattr(report_selection, "inventory_of", ask)
    monkeypatch.setattr(ssh, "inventory_of", ask)
    monkeypatch.setattr(ssh, "public_key_file", Path)


@pytest.mark.parametrize(
    "line",
    [
        "sandbox status --name adv",
        "sandbox --name adv status",
        "sandbox --name=adv status",
        "sandbox fault --name adv throttle gpu2 1gbit",
        "sandbox fault throttle --name adv gpu2 1gbit",
        "sandbox fault throttle gpu2 --name adv 1gbit",
        "sandbox fault throttle gpu2 1gbit --name adv",
        "sandbox --name adv fault throttle gpu2 1gbit",
        "sandbox --name other fault throttle gpu2 1gbit --name adv",
        "sandbox fault stop --name adv gpu1 slurmd",
        "sandbox fault pull gpu1 --name adv",
        "sandbox fault heal --name adv",
        "sandbox fault --name adv heal",
        "sandbox exec --name adv gpu1 -- ls --name x",
        "sandbox exec gpu1 --name adv -- ls",
        "sandbox exec gpu1 --name=adv ls",
        "sandbox ssh alice@login --name adv",
        "provision --sandbox --name adv",
        "provision --name adv slurm --check",
        "validate --name adv",
        "inventory describe gpu1 --name adv",
        "report list --sandbox --name adv",
        "report list --name adv",
        "report show --name adv latest",
        "report wait --name adv",
        "ssh bootstrap --key key.pub --name adv",
    ],
)
def test_name_selects_the_sandbox_in_every_position(line: str) -> None:
    with pytest.raises(Asked, match=r"^adv$"):
        cli.main(line.split())


@pytest.mark.parametrize("line", ["provision --sandbox", "report list --sandbox", "sandbox status"])
def test_default_name_is_that_of_the_checkout(line: str) -> None:
    with pytest.raises(Asked, match=r"^None$"):
        cli.main(line.split())


@pytest.mark.parametrize("line", ["sandbox exec gpu1 --name", "sandbox ssh login --name -- true"])
def test_a_missing_name_is_bad_usage(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line.split()) == 2
    assert "--name requires the name of a sandbox" in capsys.readouterr().err


def test_words_after_the_dashes_are_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class State:
        """A sandbox with containers."""

        path = tmp_path

        def container(self, node: str) -> str:
            """Return the name of a node's container."""
            return f"box-{node}"

    called: list[list[str]] = []

    def call(command: list[str], **_: object) -> int:
        called.append(command)
        return 0

    monkeypatch.setattr(sandbox, "load", lambda _name: State())
    monkeypatch.setattr("subprocess.call", call)
    parsed: argparse.Namespace = cli.parser().parse_args(
        ["sandbox", "exec", "gpu1", "--name", "a", "--", "ls", "--name"]
    )
    assert parsed.run(parsed) == 0
    assert called[0][-3:] == ["box-gpu1", "ls", "--name"]
