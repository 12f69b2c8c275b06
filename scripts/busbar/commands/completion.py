"""`busbar completion`: completes commands, options, playbooks and hosts in bash, zsh and fish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from busbar.paths import collection, default_inventory

if TYPE_CHECKING:
    import argparse

SHELLS = ("bash", "zsh", "fish")
DESCRIPTION = """\
Prints the shell completion for commands, options, playbooks, hosts and groups of the inventory, sandboxes and hardware
profiles. Redirect the output: for bash to ~/.local/share/bash-completion/completions/busbar, for zsh to a file _busbar
in a folder of $fpath, for fish to ~/.config/fish/completions/busbar.fish.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("completion", help="print the completion for a shell", description=DESCRIPTION)
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=_print)


def _print(args: argparse.Namespace) -> int:
    """Print the completion script for a shell and return 0."""
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - no other command needs it

    print(shellcode(["busbar"], shell=args.shell), end="")
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Print the completions for the shell and exit."""
    import argcomplete  # noqa: PLC0415 - no other command needs it

    _add_completers(parser)
    argcomplete.autocomplete(parser, always_complete_options="long")


def _add_completers(parser: argparse.ArgumentParser) -> None:
    """Set the completers of arguments; argcomplete completes file names for arguments without a completer."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to list them
        if isinstance(action.choices, dict):
            for each in dict(action.choices).values():
                _add_completers(each)
            continue
        completer = _COMPLETERS.get("limit" if "--limit" in action.option_strings else action.dest)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]  # read by argcomplete


def _playbooks(**_: object) -> list[str]:
    return sorted(path.stem for path in (collection() / "playbooks").glob("*.yml"))


def _hardware(**_: object) -> list[str]:
    folder = collection() / "plugins" / "plugin_utils" / "engine" / "catalogue" / "hardware"
    return sorted(path.stem for path in folder.glob("*.yml"))


def _sandboxes(**_: object) -> list[str]:
    from busbar.sandbox.state import sandbox_path  # noqa: PLC0415 - no other argument needs it

    folder = sandbox_path("any").parent
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _hosts(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return the hosts and groups of the given or the default inventory."""
    import yaml  # noqa: PLC0415 - no other argument needs it

    from busbar.sandbox.option import chosen  # noqa: PLC0415
    from busbar.sandbox.state import inventory_of  # noqa: PLC0415

    given = getattr(parsed_args, "inventory", None) or []
    if hasattr(parsed_args, "sandbox") and chosen(parsed_args):
        sources = [inventory_of(parsed_args.name)]
    else:
        sources = [Path(each) for each in (given if isinstance(given, list) else [given])] or [default_inventory()]
    found: dict[str, None] = {}
    for source in sources:
        for path in sorted(source.glob("*.y*ml")) if source.is_dir() else [source]:
            # Importing Ansible would take seconds, so only YAML inventories are completed.
            try:
                _collect(yaml.safe_load(path.read_text(encoding="utf-8")), found)
            except (OSError, ValueError, yaml.YAMLError):
                continue
    return sorted(found)


def _collect(groups: object, found: dict[str, None]) -> None:
    """Collect the names of groups and their hosts; ranges such as gpu[1:4] stay unexpanded."""
    for name, content in groups.items() if isinstance(groups, dict) else ():
        found[str(name)] = None
        if isinstance(content, dict):
            hosts = content.get("hosts")
            found.update(dict.fromkeys(map(str, hosts if isinstance(hosts, dict) else ())))
            _collect(content.get("children"), found)


_COMPLETERS = {
    "playbook": _playbooks,
    "hosts": _hosts,
    "limit": _hosts,
    "name": _sandboxes,
    "hardware": _hardware,
}
