"""`busbar security`: what lynis finds on the hosts, compared with explained exceptions."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.commands.doctor import INTERRUPTED, ask_cluster
from busbar.commands.provision import add_run_options, ask_passwords, choose_inventory, prompting_options
from busbar.doctor.finding import ERROR, Finding
from busbar.doctor.finding import as_text as findings_text
from busbar.errors import UsageError
from busbar.paths import collection
from busbar.run.inventory_check import refuse_unreadable
from busbar.run.playbook import Playbook
from busbar.security.report import SHIPPED, as_data, as_markdown, as_text, read_exceptions, rows_of, with_unfixed

if TYPE_CHECKING:
    import argparse

__all__ = ["register"]

SOUND, OPEN = 0, 1
REPORT = """\
Has lynis look at the hosts, installs it there if need be, and lists what it would have changed and nothing explains.
busbar has an explanation for what it leaves as it is; --exceptions adds those of the site. Equal findings of many
hosts are one line: with thousands of nodes look at a few of each kind, with --limit. Exit codes: 0 everything is
explained, 1 something is not, or a host could not be looked at.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its action."""
    parser = subparsers.add_parser("security", help="what a security audit finds on the hosts")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    report = actions.add_parser("report", help="what lynis finds, and what is explained", description=REPORT)
    report.add_argument("--exceptions", type=Path, metavar="FILE.yml", help="the site's own: test, detail, reason")
    report.add_argument("--output", type=Path, metavar="FILE.md", help="also write a page with all that is explained")
    report.add_argument("--json", action="store_true", help="as data, explained findings included")
    add_run_options(report)
    report.set_defaults(run=_report)


def _report(args: argparse.Namespace) -> int:
    """Print findings; returns the exit code."""
    own = read_exceptions(args.exceptions) if args.exceptions else []
    if args.output and not args.output.parent.is_dir():
        message = f"--output {args.output}: there is no folder {args.output.parent}"
        raise UsageError(message)
    inventory, _ = choose_inventory(args)
    path = collection() / "playbooks" / "security_report.yml"
    refuse_unreadable(inventory, path)
    playbook = Playbook(path, inventory, [*args.options, *prompting_options(args)], {})
    playbook.passwords = ask_passwords(args)
    run, _, interrupted = ask_cluster(playbook)
    if interrupted:
        return INTERRUPTED
    told = (run.custom.get("busbar_security") or {}).items()
    answers = {host: with_unfixed(each) for host, each in told if "findings" in each}
    rows = rows_of(answers, [*own, *read_exceptions(SHIPPED)])
    remedy = "see that it can be reached: busbar doctor"
    missing = [
        Finding(ERROR, tuple(each.hosts), each.task, " ".join(each.message.split()), remedy) for each in run.failures
    ]
    if args.output:
        page = as_markdown(answers, rows, time.strftime("%Y-%m-%d", time.gmtime()))
        args.output.write_text(page, encoding="utf-8")
    if args.json:
        data = as_data(answers, rows) | {"failures": [each._asdict() for each in missing]}
        print(json.dumps(data, indent=2))
    else:
        print("\n".join(filter(None, (findings_text(missing), as_text(answers, rows) if answers else ""))))
    return OPEN if missing or not answers or any(not row.reason for row in rows) else SOUND
