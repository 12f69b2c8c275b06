"""`busbar prove`: validates nodes in any Slurm cluster as an unprivileged user, without an inventory."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import signal
import sys
import tempfile
import time
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import unknown_hardware
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_check import profile_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts, unfold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.option_names_in_messages import option_names
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.cluster_access import Interrupted
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import broken_report
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import FIRST
from ansible_collections.busbar.cluster.plugins.plugin_utils.interruption import Interruption
from ansible_collections.busbar.cluster.plugins.plugin_utils.report_folder import save_report, unwritable
from ansible_collections.busbar.cluster.plugins.plugin_utils.validation_run import free_folder, run_validation

from busbar.errors import UsageError
from busbar.prove import node_probe
from busbar.prove.node_probe import Programs
from busbar.prove.options import collectives_program, job_script, option_name, validation_options
from busbar.prove.slurm import Allocation, NotStarted, Request, ask, usable_nodes
from busbar.prove.transport import LocalTransport
from busbar.run.detached import detach, user_runs_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from busbar.node_hardware import Node

FAIL, INCONCLUSIVE, NOT_TESTED, INTERRUPTED = 1, 3, 4, 130
_NODES = 2
_WAIT_S = 3600
# Time reserved for the report and the end of the job.
_MARGIN_S = 30
_MIN_VALIDATION_S = 60
# report.html contains a library of 5 MB.
MIN_FREE_BYTES = 8 << 20
_REQUEST_OPTIONS = ("partition", "nodelist", "exclude", "account", "qos", "time")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "prove",
        help="validate nodes of any Slurm cluster as an unprivileged user on a login node",
        description="Runs the validation as steps of one Slurm job, which it submits and cancels. Inside salloc or "
        "with --jobid it uses that job. Writes the folder busbar-report-TIME in the current folder.",
        epilog="Exit codes: 0 PASS, 1 FAIL, 2 bad input, 3 INCONCLUSIVE, 4 some nodes were not tested and the "
        "others passed.",
    )
    parser.add_argument("--partition", "-p", default="", help="partition (default: Slurm's default partition)")
    parser.add_argument(
        "--nodes", "-N", type=_count, default=0, help=f"number of nodes (default: {_NODES}; in a job: all its nodes)"
    )
    parser.add_argument("--nodelist", "-w", default="", help="nodes to test, such as gpu[1-8]")
    parser.add_argument("--exclude", "-x", default="", help="nodes to exclude")
    parser.add_argument("--account", "-A", default="", help="Slurm account (default: your default account)")
    parser.add_argument("--qos", "-q", default="", help="Slurm QOS (default: that of the account)")
    parser.add_argument("--time", "-t", default="60", help="time limit of the job, as for sbatch (default: 60 minutes)")
    parser.add_argument("--jobid", default="", help="run in this job (default: the current allocation, if any)")
    parser.add_argument("--wait", type=_count, default=_WAIT_S, metavar="SECONDS", help="queue time (default: 3600)")
    parser.add_argument("--backend", choices=("nccl", "mpi"), default="nccl", help="mpi tests CPUs and network only")
    program = parser.add_mutually_exclusive_group()
    program.add_argument("--image", default="", help="container image with nccl-tests, for Pyxis or Apptainer")
    program.add_argument("--binary", default="", help="path of all_reduce_perf on the nodes, or of its folder")
    parser.add_argument("--hardware", default="", help="profile of the nodes (default: detected)")
    parser.add_argument("--floor", type=_rate, default=0.0, metavar="GB/s", help="minimum bandwidth of every test")
    parser.add_argument("--detach", action="store_true", help="run in the background; see `busbar report wait`")
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        message = f"{text!r} is not a whole number above 0"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _rate(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    message = f"{text!r} is not a number of GB/s above 0"
    raise argparse.ArgumentTypeError(message)


def _say(line: str) -> None:
    print(line, flush=True)


def _run(args: argparse.Namespace) -> int:
    """Check the input, run the validation and return the exit code."""
    if args.binary:
        path = Path.cwd() / args.binary
        args.binary = str(path if path.name.endswith("_perf") else path / "all_reduce_perf")
    folder = free_folder(Path.cwd(), f"busbar-report-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    catalogue = site_catalogue({})
    _refuse_invalid_options(args, folder, catalogue)
    job = args.jobid or os.environ.get("SLURM_JOB_ID", "")
    request, lost = _requested(args, job)
    if args.detach:
        return _detach(args)
    hang_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    interruption = Interruption([signal.SIGINT, signal.SIGTERM, *hang_up])
    with interruption, option_names(option_name):
        try:
            return _in_allocation(args, job, request, interruption, (folder, catalogue, lost))
        except NotStarted as exc:
            return _not_started(args, folder, str(exc))
        except Interrupted as exc:
            print(f"busbar prove: {exc}", file=sys.stderr)
            return INTERRUPTED


def _in_allocation(
    args: argparse.Namespace,
    job: str,
    request: Request,
    interruption: Interruption,
    known: tuple[Path, dict[str, Any], dict[str, str]],
) -> int:
    """Validate in an existing job, or in a new one that is cancelled at the end; return the exit code."""
    allocation = None
    try:
        # A job cannot be cancelled before its ID is known.
        with interruption.uninterrupted():
            allocation = Allocation(job, own=False) if job else Allocation.submitted(request)
        _say(f"job {allocation.job}: {'existing job' if job else 'submitted'}")
        with _locked(allocation) if job else contextlib.nullcontext():
            return _validated(args, allocation, interruption, known)
    finally:
        with interruption.uninterrupted():
            if allocation is not None and not allocation.cancel():
                print(f"busbar prove: cancel the job yourself: scancel {allocation.job}", file=sys.stderr)


def _refuse_invalid_options(args: argparse.Namespace, folder: Path, catalogue: Mapping[str, Any]) -> None:
    """Refuse invalid options before a job is submitted.

    Raises:
        UsageError: lists all problems.
    """
    problems = []
    if getuser() == "root":
        problems.append("busbar prove does not run as root: use an unprivileged user")
    if args.hardware and args.hardware not in catalogue:
        problem, remedy = unknown_hardware(args.hardware, catalogue)
        problems.append(f"--hardware: {problem}; {remedy}")
    if args.backend == "mpi":
        problems += [
            f"--{key}: cannot be combined with --backend mpi, which runs a program of busbar: remove --{key}"
            for key in ("image", "binary")
            if getattr(args, key)
        ]
    for key in ("nodelist", "exclude"):
        try:
            unfold_hosts(getattr(args, key))
        except ValueError as exc:
            problems.append(f"--{key}: {exc}")
    if args.nodes and args.nodelist and args.nodes != len(unfold_hosts(args.nodelist)):
        problems.append(
            f"--nodes: {args.nodes} (--nodelist has {len(unfold_hosts(args.nodelist))} node(s)): remove one option"
        )
    if problem := unwritable(folder) or _disk_problem(folder.parent):
        problems.append(f"cannot write reports to {problem}: change to a writable folder with enough space")
    if problems:
        raise UsageError("\n".join(problems))


def _disk_problem(folder: Path) -> str:
    """Write a report-sized temporary file into a folder, and return the error or an empty string."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * MIN_FREE_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except OSError as exc:
        return f"{folder}: {exc.strerror or exc}"
    return ""


def _requested(args: argparse.Namespace, job: str) -> tuple[Request, dict[str, str]]:
    """Return the request to Slurm, or the nodes to use in an existing job, and the unavailable nodes.

    Raises:
        UsageError: Slurm is not installed here, or the partition or nodes do not exist.
    """
    values = {key: getattr(args, key) for key in _REQUEST_OPTIONS} | {"nodelist": tuple(unfold_hosts(args.nodelist))}
    request = Request(**values, nodes=args.nodes)
    if job and not job.isdecimal():
        message = f"--jobid: {job!r} is not a job ID"
        raise UsageError(message)
    if job:
        request = request._replace(partition="")
        ignored = [f"--{key}" for key in ("partition", "account", "qos") if getattr(args, key)]
        if ignored:
            message = f"{', '.join(ignored)}: job {job} already exists: remove the options, or leave salloc"
            raise UsageError(message)
        code, out, err = ask("squeue", "-h", "-j", job, "-o", "%u")
        if code or not out.strip():
            message = f"--jobid: job {job} cannot be used: {err or 'it has ended'}"
            raise UsageError(message)
        if out.strip() != getuser():
            message = f"--jobid: job {job} belongs to {out.strip()} (expected {getuser()}): use a job of this user"
            raise UsageError(message)
        return request, {}
    return usable_nodes(request._replace(nodes=args.nodes or _NODES), args.backend)


def _detach(args: argparse.Namespace) -> int:
    """Start the same command in the background and return the exit code."""
    values = {key: value for key, value in vars(args).items() if key not in {"run", "detach"} and value}
    run = detach(user_runs_folder(), ["prove", *(f"--{key}={value}" for key, value in values.items())])
    print(f"validation {run.name} started (PID {run.process}), output {run.output}")
    print(f"wait for its exit code: busbar report wait {run.name}")
    return 0


@contextlib.contextmanager
def _locked(allocation: Allocation) -> Iterator[None]:
    """Lock the allocation against a second run.

    Raises:
        UsageError: another run uses the allocation, or the lock cannot be created.
    """
    path = Path(tempfile.gettempdir(), f"busbar-prove-{os.getuid()}-{allocation.job}.lock")
    try:
        opened = path.open("w", encoding="ascii")
    except OSError as exc:
        message = f"cannot lock job {allocation.job}: {path}: {exc.strerror or exc}: remove it, or set TMPDIR"
        raise UsageError(message) from exc
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = bool(allocation.steps())
        except BlockingIOError:
            taken = True
        if taken:
            message = f"another busbar prove is already running in job {allocation.job}: wait, or use another job"
            raise UsageError(message)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _validated(
    args: argparse.Namespace,
    allocation: Allocation,
    interruption: Interruption,
    known: tuple[Path, dict[str, Any], dict[str, str]],
) -> int:
    """Wait for the nodes, probe them, run the validation, and return the exit code."""
    folder, catalogue, lost = known
    allocation.wait(args.wait, _say)
    nodes, missing = _chosen(args, allocation)
    _say(f"job {allocation.job} runs on {fold_hosts(allocation.nodes)}")
    left = None if allocation.ends is None else allocation.ends - time.time() - _MARGIN_S
    if left is not None and left < _MIN_VALIDATION_S:
        message = (
            f"job {allocation.job} ends in {left + _MARGIN_S:.0f} s, but a validation takes minutes: request more time"
        )
        raise UsageError(message)
    seen = node_probe.read_nodes(allocation, args.binary)
    hardware, catalogue = _hardware(args, seen, catalogue)
    programs = _programs(args, allocation, seen)
    transport = LocalTransport(allocation, folder, _say, interruption, lost=lost, setup=programs.setup)
    options = validation_options(
        args.backend,
        nodes,
        hardware={node: hardware.get(node, "") for node in nodes},
        catalogue=catalogue,
        script=job_script(args.backend, programs.command, programs.image),
        binary="" if args.backend == "mpi" or programs.image else programs.command[0],
        image=programs.image,
        floor_gbs=args.floor,
        user=getuser(),
        cluster=_cluster(),
        time_limit=0 if left is None else int(left),
    )
    try:
        done = run_validation(options, transport, folder, missing)
    finally:
        with interruption.uninterrupted():
            transport.close()
    return _print_result(done, interruption)


def _chosen(args: argparse.Namespace, allocation: Allocation) -> tuple[list[str], dict[str, str]]:
    """Return the nodes to test, and the requested nodes that the allocation lacks."""
    wanted, excluded = unfold_hosts(args.nodelist), set(unfold_hosts(args.exclude))
    here = [node for node in allocation.nodes if node not in excluded and (node in wanted or not wanted)]
    allocation.nodes = here[: args.nodes or None]
    if not here:
        message = (
            f"job {allocation.job}: --nodelist and --exclude leave none of its nodes ({fold_hosts(allocation.nodes)}): "
            "change or remove them"
        )
        raise UsageError(message)
    lacking = 0 if wanted else max(0, args.nodes - len(here))
    missing = {f"{lacking} of {args.nodes} nodes": f"not allocated to job {allocation.job}"} if lacking else {}
    return wanted or allocation.nodes, missing


def _hardware(
    args: argparse.Namespace, seen: Mapping[str, Node], catalogue: dict[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the profile of each node, and the catalogue with the detected profiles."""
    if args.hardware:
        return dict.fromkeys(seen, args.hardware), catalogue
    hardware, known, text = node_probe.matched(seen, catalogue)
    for name in sorted({*hardware.values(), ""} if len(hardware) < len(seen) else {*hardware.values()}):
        who = fold_hosts([node for node in seen if hardware.get(node, "") == name])
        _say(f"hardware: {who}: {name if name in catalogue else 'no profile in the catalogue'}")
    if text:
        _say("Complete this profile, or set --hardware or --floor: without a floor the verdict is INCONCLUSIVE.")
        _say(text)
    invalid = {name for name in set(known) - set(catalogue) if profile_problems(name, known[name])}
    known = {name: profile for name, profile in known.items() if name not in invalid}
    return {node: name for node, name in hardware.items() if name in known}, known


def _programs(args: argparse.Namespace, allocation: Allocation, seen: Mapping[str, Node]) -> Programs:
    """Return the programs that run the collectives on the nodes."""
    if args.backend == "mpi":
        return Programs(collectives_program(node_probe.found_python(seen)))
    if args.image:
        return node_probe.found_image(allocation, seen, args.image)
    return node_probe.found_binary(seen, args.binary, _say)


def _cluster() -> str:
    _code, out, _err = ask("scontrol", "show", "config")
    found = [line.partition("=")[2].strip() for line in out.splitlines() if line.startswith("ClusterName")]
    return found[0] if found else "cluster"


def _not_started(args: argparse.Namespace, folder: Path, why: str) -> int:
    """Write the report of a validation without nodes and return the exit code."""
    nodes = unfold_hosts(args.nodelist)
    options: Any = validation_options(args.backend, nodes, user=getuser(), cluster=_cluster(), own={})
    found = broken_report(options, {**FIRST, "left_out": dict.fromkeys(nodes, why)}, why)
    save_report(folder, found, nodes)
    _say(f"\nVerdict: INCONCLUSIVE: {why}\nreport: {folder}")
    return INCONCLUSIVE


def _print_result(done: Mapping[str, Any], interruption: Interruption) -> int:
    """Print the result of a validation and return the exit code."""
    for line in [*done["lines"], done.get("pages_problem"), done.get("problem")]:
        if line:
            _say(line)
    _say(f"\nVerdict: {done['verdict']}\nreport: {done['folder']}")
    if interruption.why:
        return INTERRUPTED
    if done["verdict"] == "PASS":
        return 0 if done["folder"] and not done["incomplete"] else INCONCLUSIVE
    return FAIL if done["verdict"] == "FAIL" else NOT_TESTED if done["not_tested"] else INCONCLUSIVE
