"""`busbar adopt`: writes a draft site from a cluster that another program manages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from busbar.commands import adopt_cluster
from busbar.errors import require_ansible

if TYPE_CHECKING:
    import argparse

    from busbar.adopt.draft import Draft

DESCRIPTION = """\
Reads the configuration directory of DeepOps, or an environment of ansible-slurm-appliance, evaluates its variables as
Ansible does, and writes the draft of a site.
Its file ADOPTED.md lists each variable: carried over, already the default, or not carried over with the reason. If
--hardware does not name the hardware of every compute node, all hosts are read over SSH, as root or with `sudo -n`.
Nothing is changed.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("adopt", help="write the draft of a site from an existing cluster")
    actions = parser.add_subparsers(required=True, metavar="SOURCE")
    deepops = actions.add_parser("deepops", help="the configuration directory of DeepOps", description=DESCRIPTION)
    deepops.add_argument("folder", type=Path, metavar="DIR", help="the directory with inventory and group_vars")
    deepops.add_argument("out", type=Path, metavar="OUT", help="folder of the new site; must be empty or not exist yet")
    deepops.add_argument("--release", default="23.08", help="release of DeepOps, for its defaults (default: 23.08)")
    hardware = "hardware profile of all compute nodes, or of HOSTS (folded: gpu[1-4], or a group); repeatable"
    deepops.add_argument("--hardware", action="append", default=[], metavar="[HOSTS=]NAME", help=hardware)
    inventory = "inventory file (default: DIR/inventory); repeatable"
    deepops.add_argument("--inventory", action="append", default=[], metavar="FILE", help=inventory)
    deepops.set_defaults(run=_deepops)
    adopt_cluster.register(actions, finish)


def _deepops(args: argparse.Namespace) -> int:
    """Write the draft and return 0."""
    require_ansible()
    from busbar.adopt.deepops import adopt_deepops  # noqa: PLC0415 - needs Ansible
    from busbar.adopt.draft import refuse_filled  # noqa: PLC0415

    refuse_filled(args.out)
    return finish(adopt_deepops(args.folder, args.release, args.hardware, args.inventory), args.out)


def finish(draft: Draft, out: Path) -> int:
    """Write a draft, print its notes and the next step, and return 0."""
    draft.write(out)
    print("\n".join(draft.lines()))
    print(f"\nwritten: {out}; the same list is in {out / 'ADOPTED.md'}")
    print(f"next: answer the questions in it, then run: cd {out} && busbar provision preflight")
    return 0
