"""`busbar provision` and `busbar validate`: run playbooks with progress, a summary and an exit code."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import needs_no_lock

from busbar import removed
from busbar.commands.schedule import schedule
from busbar.errors import UsageError
from busbar.paths import collection
from busbar.run.detached import detach, site_runs_folder
from busbar.run.display import Display
from busbar.run.events import summary
from busbar.run.site import Site, add_run_options, refuse_busy, refuse_prompts

if TYPE_CHECKING:
    from collections.abc import Callable

    from busbar.run.events import Failure, Run

OK, FAIL, USAGE, INCONCLUSIVE, NOT_TESTED, INTERRUPTED = 0, 1, 2, 3, 4, 130
# The run skipped only nodes with users' jobs, which validation_allow_busy permits.
_LEFT_OUT = "left out"
# All tests passed, but busy or drained nodes were not tested.
_UNTESTED = "not tested"
_VERDICTS = {"PASS": OK, _LEFT_OUT: OK, "FAIL": FAIL, "INCONCLUSIVE": INCONCLUSIVE, _UNTESTED: NOT_TESTED}
# Ansible's exit codes for an invalid command line, playbook or inventory.
_ANSIBLE_USAGE = frozenset({1, 5})
# Includes the codes with which Ansible or the run_guard callback stops a run before the first task.
_ANSIBLE_REFUSED = _ANSIBLE_USAGE | {2, 4}
_VALIDATION_ROLES = frozenset({"validation", "busbar.cluster.validation"})
_PREFLIGHT_ROLES = frozenset({"preflight", "busbar.cluster.preflight"})
_INPUT_ACTIONS = frozenset({"ansible.builtin.validate_argument_spec", "validate_argument_spec"})
_NO_RUN = frozenset({"-C", "--check", "--syntax-check", "--list-hosts", "--list-tasks", "--list-tags"})


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the two commands."""
    provision = subparsers.add_parser(
        "provision",
        help="configure the cluster as the inventory declares it",
        description="Runs playbooks/site.yml, or the given playbook, on the hosts of an inventory. "
        "Nodes with running jobs are listed, but not validated; -e validation_allow_busy=false makes that an error.",
    )
    provision.add_argument(
        "playbook",
        nargs="?",
        default="site",
        help="name of a playbook, such as base, slurm or preflight (default: site)",
    )
    provision.add_argument("--no-fast", action="store_true", help=argparse.SUPPRESS)
    provision.add_argument("--slices", metavar="N", help=argparse.SUPPRESS)
    provision.add_argument("--on", action="append", help=argparse.SUPPRESS)
    add_run_options(provision)
    provision.set_defaults(run=_run, command="provision")
    validate = subparsers.add_parser(
        "validate",
        help="test whether the cluster reaches its expected performance",
        description="Runs playbooks/validate.yml. Exit codes: 0 PASS, 1 FAIL, 2 bad input, 3 INCONCLUSIVE (something "
        "could not be judged), 4 some nodes were not tested because of jobs or drains, and all tests passed.",
    )
    validate.add_argument(
        "--detach",
        action="store_true",
        help="start it in the background and print its ID; wait for it with `busbar report wait ID`",
    )
    validate.add_argument(
        "--schedule",
        metavar="TIME",
        help="install a systemd timer that tests idle nodes at TIME (OnCalendar, such as weekly) with preemptible "
        "jobs (slurm_checks_partition); `never` removes the timer",
    )
    add_run_options(validate)
    validate.set_defaults(run=_run, command="validate", playbook="validate")


def exit_code(returned: int, failures: list[Failure], verdict: str | None) -> int:
    """Return the exit code of a run.

    Args:
        returned: exit code of ansible-playbook.
        failures: failures that were not rescued.
        verdict: the verdict of this run's validation, or None without a validation.
    """
    if failures and all(_is_input(found) for found in failures):
        return USAGE
    elsewhere = [found for found in failures if found.role not in _VALIDATION_ROLES]
    if not failures and returned in _ANSIBLE_USAGE:
        return USAGE
    if verdict is not None and not elsewhere:
        # A failed run is never PASS. A PASS with an incomplete report is INCONCLUSIVE, not a FAIL of the cluster.
        code = _VERDICTS.get(verdict, INCONCLUSIVE)
        return INCONCLUSIVE if code == OK and returned != OK else code
    return OK if returned == OK else FAIL


def _is_input(failure: Failure) -> bool:
    """Return whether the inventory, its variables, or nodes that do not match them caused a failure.

    The results of busbar's checks have a flag for this. Ansible's own action reports options that are missing or have
    the wrong type. A failure in the preflight role is a value that could not be evaluated.
    """
    mine = failure.role in _PREFLIGHT_ROLES or failure.action in _INPUT_ACTIONS
    return failure.kind == "failed" and (failure.refused or mine)


def _run(args: argparse.Namespace) -> int:
    """Run the requested playbook and return the exit code."""
    _refuse_removed(args)
    site = Site(args)
    if getattr(args, "schedule", None):
        refuse_prompts(args, "--schedule")
        for line in schedule(site, args.schedule):
            print(line)
        return OK
    path = _playbook_path(args.playbook)
    playbook = site.playbook(path)
    if _NO_RUN.isdisjoint(args.options) and not needs_no_lock(path):
        refuse_busy(site.inventory)
    if getattr(args, "detach", False):
        return _detach(args, site)
    playbook.command = f"busbar {args.command} {path.stem}" if args.command == "provision" else f"busbar {args.command}"
    display = Display(sys.stdout, skipped=not {"-v", "--verbose"}.isdisjoint(args.options))
    title = f"busbar {args.command}: inventory {', '.join(site.inventory)} ({site.chosen_by}), playbook {path.stem}"
    began = time.time()
    run = site.run(playbook, log=args.command, display=display, title=title)
    for line in summary(run):
        display.line(line)
    report = _report(run, site.folder / "reports", began)
    failed = run.custom.get("busbar_verdict") == "FAIL"
    verdict = _print_verdict(report, display.line, missing=_expects_report(args, run), failed=failed)
    display.line(f"log: {run.log}{f' (incomplete: {run.log_problem})' if run.log_problem else ''}")
    if run.recap:
        display.line(f"\n{run.recap}")
    if run.interrupted:
        print(f"busbar {args.command}: interrupted; run it again to finish", file=sys.stderr)
        return INTERRUPTED
    if run.returned == OK and not run.tasks and not _NO_RUN.intersection(args.options):
        message = (
            f"playbook {path.stem}: no task ran, because inventory {', '.join(site.inventory)} has no host in its "
            "groups: add hosts to them, or change --limit"
        )
        raise UsageError(message)
    if run.returned in _ANSIBLE_REFUSED and not run.tasks and not run.failures:
        return USAGE
    return exit_code(run.returned, run.failures, verdict)


def _refuse_removed(args: argparse.Namespace) -> None:
    """Refuse options from earlier versions.

    Raises:
        UsageError: such an option is given.
    """
    problems = []
    if getattr(args, "no_fast", False):
        problems.append("--no-fast was removed: every run is a full run; remove the option")
    problems += [
        f"{option} was removed: run rack by rack with --limit, or on a bastion host of each rack with ansible-runner "
        "(docs/scale.md)"
        for option, value in (("--slices", getattr(args, "slices", None)), ("--on", getattr(args, "on", None)))
        if value
    ]
    if problems:
        raise UsageError("; ".join(problems))


def _detach(args: argparse.Namespace, site: Site) -> int:
    """Start the command in the background and return the exit code.

    Raises:
        UsageError: the command would prompt for a password, or cannot be started.
    """
    refuse_prompts(args, "--detach")
    words = [args.command, *(word for source in site.inventory for word in ("-i", source)), *args.options]
    run = detach(site_runs_folder(site.folder), words)
    source = " ".join(f"-i {shlex.quote(source)}" for source in site.inventory[:1])
    print(f"validation {run.name} started (PID {run.process}), output {run.output}")
    print(f"wait for its exit code: busbar report wait {source} {run.name}")
    return OK


def _playbook_path(name: str) -> Path:
    """Return the path of a playbook given by name or path.

    Raises:
        UsageError: the playbook does not exist.
    """
    folder = collection() / "playbooks"
    given = Path(name)
    if given.suffix in {".yml", ".yaml"} and given.is_file():
        return given.resolve()
    path = folder / f"{given.stem if given.suffix in {'.yml', '.yaml'} else name}.yml"
    if path.is_file() and path.parent == folder:
        return path
    if name in removed.PLAYBOOKS:
        message = f"playbook {name} was removed: {removed.PLAYBOOKS[name]}"
        raise UsageError(message)
    known = ", ".join(sorted(found.stem for found in folder.glob("*.yml")))
    message = f"playbook {name!r} does not exist; available: {known}"
    raise UsageError(message)


def _report(run: Run, folder: Path, began: float) -> tuple[str, Path, str] | None:
    """Return the verdict, path and reason of the newest report of this run, or None without a report.

    Args:
        run: the finished run, whose set_stats may contain the path of the report as `busbar_report`.
        folder: default folder of reports.
        began: start of the run in seconds since 1970; older reports are ignored.
    """
    named = run.custom.get("busbar_report")
    if named == "":
        return None
    if named:
        place = Path(str(named))
        candidates = [place if place.suffix == ".json" else place / "report.json"]
    else:
        candidates = list(folder.glob("*/report.json"))
    written = [path for path in candidates if path.is_file() and path.stat().st_mtime >= began - 1]
    if not written:
        return None
    newest = max(written, key=lambda path: path.stat().st_mtime)
    try:
        found: Any = json.loads(newest.read_text(encoding="utf-8"))
        verdict, allowed = str(found["verdict"]), found.get("busy_allowed") is True
        verdict = verdict if verdict in _VERDICTS.keys() - {_LEFT_OUT, _UNTESTED} else "INCONCLUSIVE"
        if verdict == "INCONCLUSIVE" and found.get("not_tested") is True:
            verdict = _UNTESTED
        if allowed and verdict in {"INCONCLUSIVE", _UNTESTED}:
            verdict = _LEFT_OUT
        return verdict, newest.resolve(), str(found.get("reason", ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "INCONCLUSIVE", newest, ""


def _expects_report(args: argparse.Namespace, run: Run) -> bool:
    """Return whether a validation of this run should have written a report.

    It did not if it was a dry run or failed earlier. A validation with a verdict ran to its end.
    """
    ended = run.returned == OK and bool(run.tasks) and not _NO_RUN.intersection(args.options)
    return bool(run.custom.get("busbar_verdict")) or (args.command == "validate" and ended)


def _print_verdict(
    report: tuple[str, Path, str] | None, say: Callable[[str], None], *, missing: bool, failed: bool
) -> str | None:
    """Print the result of the validation and return its verdict, or None without a validation.

    Args:
        report: result of `_report`.
        say: prints a line.
        missing: whether the validation should have written a report.
        failed: whether the verdict without a report is FAIL.
    """
    if report is None:
        verdict = "FAIL" if failed else "INCONCLUSIVE"
        if missing:
            say(f"\nVerdict: {verdict}: the validation wrote no report")
        return verdict if missing else None
    verdict, path, reason = report
    words = " ".join(printable(reason).split())
    verdict_line = {
        _LEFT_OUT: f"validation {words}",
        _UNTESTED: f"Verdict: INCONCLUSIVE: all tests passed, but some nodes were not tested: {words}",
    }.get(verdict, f"Verdict: {verdict}")
    say(f"\n{verdict_line}\nreport: {path.parent}")
    return verdict
