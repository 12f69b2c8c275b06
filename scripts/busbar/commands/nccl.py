"""`busbar nccl` and `busbar judge`: parses and judges outputs of nccl-tests and bandwidth matrices."""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import one_line
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import unknown_hardware
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import (
    site_catalogue,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_check import profile_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.option_names_in_messages import option_names
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import (
    parse_json_text,
    parse_stream,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.matrix_judge import judge_matrices
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nccl_judge import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    Expected,
    judge,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nvbandwidth_parser import (
    PROGRAM,
    read_nvbandwidth,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.p2p_parser import read_p2p

from busbar.errors import UsageError
from busbar.option_values import whole
from busbar.output import print_json
from busbar.text_file import BOMS, read_text

if TYPE_CHECKING:
    import argparse

EXIT = {PASS: 0, FAIL: 1, INCONCLUSIVE: 3}
EXTRA = "hardware_profiles_extra"
_EXPECTED_INPUT = "use the output of nccl-tests, or the JSON file of its option -J (rccl-tests: the text output)"
# The start of a JSON object or list. A list of numbers is a launcher's line label.
_JSON = re.compile(r'[\s\ufeff]*(?:\{\s*(?:["}]|$)|\[\s*(?:[\[\]{"]|$))')
_MAX_COUNT = 999_999_999
_MAX_JSON_BYTES = 1 << 28
_MAX_MATRIX_BYTES = 1 << 24
_START_BYTES = 8192
# A log may contain some invalid bytes, for example in a network file after a crash.
_MAX_CONTROL_SHARE = 0.1
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")


def read_runs(path: Path) -> dict[str, Any]:
    """Return the runs in a file, or in standard input for `-`, read as a stream.

    Raises:
        UsageError: the file cannot be read, is empty, is not text, or is in a format that nccl-tests does not write.
    """
    where = "standard input" if str(path) == "-" else str(path)
    try:
        with _opened(path) as raw:
            start = raw.read(_START_BYTES)
            _refuse_binary(where, start)
            raw.seek(0)
            encoding = BOMS.get(start[:2], "utf-8-sig")
            text = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
            if not _JSON.match(start.decode(encoding, errors="replace")):
                return parse_stream(text)
            found = parse_json_text(text.read(_MAX_JSON_BYTES))
    except OSError as exc:
        message = f"cannot read {where}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    if found is None:
        message = f"{where} is JSON, but not the file that nccl-tests writes with -J; {_EXPECTED_INPUT}"
        raise UsageError(message)
    return found


def _opened(path: Path) -> BinaryIO:
    """Open a file, or a copy of standard input for `-`, so that it can be read more than once."""
    if str(path) != "-":
        return path.open("rb")
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    shutil.copyfileobj(sys.stdin.buffer, copy)
    copy.seek(0)
    return copy


def _refuse_binary(where: str, start: bytes) -> None:
    """Check that the first bytes of a file are text.

    Raises:
        UsageError: the file is empty or binary.
    """
    if not start.strip():
        message = f"{where} is empty" if not start else f"{where} contains only white space"
        raise UsageError(message)
    controls = sum(byte < ord(" ") and byte not in _TEXT_CONTROLS for byte in start)
    if start[:2] not in BOMS and controls > _MAX_CONTROL_SHARE * len(start):
        message = f"{where} is not text; {_EXPECTED_INPUT}"
        raise UsageError(message)


def _catalogue(more: Path | None) -> dict[str, Any]:
    """Return busbar's hardware catalogue, overridden by the entries of a site's file."""
    if more is None:
        return site_catalogue({})
    try:
        data = yaml.safe_load(more.read_text(encoding="utf-8"))
    except OSError as exc:
        message = f"cannot read the hardware profiles {more}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        message = f"{more} is not valid YAML: {' '.join(str(exc).split())}"
        raise UsageError(message) from exc
    extra = data.get(EXTRA) if isinstance(data, dict) else None
    if not isinstance(extra, dict):
        message = f"{more} has no mapping {EXTRA}"
        raise UsageError(message)
    return site_catalogue(extra)


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _print_run(run: dict[str, Any]) -> None:
    """Print one run as a table."""
    names = f"{run['program'] or 'unknown program'}, nccl-tests {run['nccl_tests_version'] or '?'}"
    where = f"{run['ranks'] or '?'} ranks on {run['nodes'] or '?'} node(s)"
    print(printable(f"{run['outcome']}: {names}, NCCL {run['nccl_version'] or '?'}, {where}"))
    if run["rows"]:
        print(f"{'size (B)':>14} {'type':>10} {'out-of-place':>24} {'in-place':>24}")
        print(f"{'':>14} {'':>10} {'time us':>12} {'busbw':>11} {'time us':>12} {'busbw':>11}")
    for row in run["rows"]:
        cells = [(row[half] or {}) for half in ("out_of_place", "in_place")]
        halves = " ".join(f"{_number(c.get('time_us')):>12} {_number(c.get('busbw')):>11}" for c in cells)
        print(printable(f"{row['size']:>14} {row['type'] or '-':>10} {halves}"))
    checked = "" if run["checked"] or not run["rows"] else " (results not checked)"
    print(f"out of bounds: {'-' if run['out_of_bounds'] is None else run['out_of_bounds']}{checked}")
    warnings = [f"NCCL warned: {warning}" for warning in run["warnings"]]
    for line in run["contradictions"] + run["errors"] + warnings:
        print(f"  {printable(line)}")


def _parse(args: argparse.Namespace) -> int:
    data = read_runs(args.file)
    if args.format == "json":
        print_json(data)
    else:
        for run in data["runs"]:
            _print_run(run)
    if all(run["outcome"] == "no-data" for run in data["runs"]):
        message = f"{args.file} contains no output of nccl-tests; {_EXPECTED_INPUT}"
        raise UsageError(message)
    return 0


def _profile(args: argparse.Namespace) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the requested profile, or None and a finding."""
    catalogue = _catalogue(args.catalogue)
    profile = catalogue.get(args.hardware)
    problems = profile_problems(args.hardware, profile) if profile is not None else []
    if problems:
        raise UsageError("; ".join(map(one_line, problems)))
    if profile is not None or args.hardware is None:
        return profile, []
    return None, [". Remedy: ".join(unknown_hardware(args.hardware, catalogue))]


def _judge(args: argparse.Namespace) -> int:
    profile, unknown = _profile(args)
    expected = Expected(
        nodes=whole("--nodes", args.nodes, 1, _MAX_COUNT),
        ranks=None if args.ranks is None else whole("--ranks", args.ranks, 1, _MAX_COUNT),
        hardware=args.hardware,
        floor=None if args.floor is None else _bandwidth("--floor", args.floor),
        collective=args.collective,
        allow_unchecked=args.allow_unchecked,
        allow_missing_ranks=args.allow_missing_ranks,
        allow_known_causes=args.allow_known_causes,
        domains=None if args.domains is None else _domains(args.domains),
    )
    with option_names(lambda _key: "--floor"):
        answers = {str(file): judge(read_runs(file)["runs"], profile, expected) for file in args.files}
    for answer in answers.values():
        answer["findings"] += unknown
    several = len(answers) > 1
    if args.format == "json":
        print_json(answers if several else next(iter(answers.values())))
    else:
        for name, answer in answers.items():
            print(printable(f"{f'{name}: ' if several else ''}{answer['verdict']}: {answer['reason']}"))
            for finding in answer["findings"]:
                print(f"  {printable(finding)}")
            if answer["source"]:
                print(f"  floor from: {answer['source']}")
    verdicts = {answer["verdict"] for answer in answers.values()}
    return EXIT[next(verdict for verdict in (FAIL, INCONCLUSIVE, PASS) if verdict in verdicts)]


def _matrix(args: argparse.Namespace) -> int:
    profile, unknown = _profile(args)
    floor = 0.0 if args.floor is None else _bandwidth("--floor", args.floor)
    answer = _judged_matrices(args.file, args.hardware or "", profile, floor)
    answer["findings"] += unknown
    if args.format == "json":
        print_json(answer)
    else:
        _print_matrices(answer)
    return EXIT[answer["verdict"]]


def _judged_matrices(path: Path, hardware: str, profile: dict[str, Any] | None, floor: float) -> dict[str, Any]:
    """Return the result of p2p_matrix.judge_matrices for an output of p2pBandwidthLatencyTest or nvbandwidth.

    Raises:
        UsageError: the file cannot be read.
    """
    text = read_text(path, _MAX_MATRIX_BYTES)
    read = read_nvbandwidth if PROGRAM in text else read_p2p
    about = {"node": path.name, "hardware": hardware, "profile": profile, "options": {"p2p_floor_gbs": floor}}
    return judge_matrices(read(text), about)


def _print_matrices(answer: dict[str, Any]) -> None:
    """Print the verdict and the matrices; an asterisk marks pairs below the floor."""
    lines = [f"{answer['verdict']}: {answer['reason']}", *(f"  {finding}" for finding in answer["findings"])]
    if answer["source"]:
        lines.append(f"  floor from: {answer['source']}")
    for matrix in answer["matrices"]:
        lines.append(f"\n{matrix['title']}, {matrix['unit']}")
        lines.append(" " * 6 + "".join(f"{label:>10} " for label in matrix["columns"]))
        for row, (label, line) in enumerate(zip(matrix["rows"], matrix["values"])):
            cells = [
                f"{'-' if value is None else format(value, '.2f'):>10}{'*' if [row, column] in matrix['odd'] else ' '}"
                for column, value in enumerate(line)
            ]
            lines.append(f"{label or 'all':>6}{''.join(cells)}")
    print(printable("\n".join(lines)))


def _domains(text: str) -> tuple[int, ...]:
    """Return the number of nodes of each NVLink domain, largest first."""
    return tuple(sorted((whole("--domains", part.strip(), 1, _MAX_COUNT) for part in text.split(",")), reverse=True))


def _bandwidth(option: str, text: str) -> float:
    """Return a bandwidth above 0, in GB/s."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        message = f"{option}: {text!r} is not a bandwidth: use a number of GB/s above 0"
        raise UsageError(message)
    return value


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands to the parser."""
    alias = subparsers.add_parser("judge", help="short for `busbar nccl judge`: judge the output of nccl-tests")
    top = subparsers.add_parser("nccl", help="parse and judge nccl-tests output")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    parse = commands.add_parser("parse", help="print the output of nccl-tests as a table or as JSON")
    parse.set_defaults(run=_parse)
    judged = commands.add_parser("judge", help="print PASS, FAIL or INCONCLUSIVE, with the reason")
    matrix = commands.add_parser("matrix", help="judge the output of p2pBandwidthLatencyTest or nvbandwidth")
    matrix.set_defaults(run=_matrix)
    output = "output of nccl-tests, or the JSON file of its option -J; - for standard input"
    parse.add_argument("file", metavar="FILE", type=Path, help=output)
    either = "output of the program; for nvbandwidth also the JSON of its option -j"
    matrix.add_argument("file", metavar="FILE", type=Path, help=either)
    matrix.add_argument(
        "--floor", metavar="GBS", help="minimum GB/s of pairs with direct access (default: the profile's)"
    )
    for command in (parse, matrix):
        command.add_argument("--format", choices=("json", "table"), default="table")
    _add_profile(matrix, required=False)
    for command in (judged, alias):
        _add_judge_options(command)


def _add_profile(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--hardware", required=required, metavar="NAME", help="profile of the hardware catalogue")
    parser.add_argument("--catalogue", type=Path, metavar="FILE", help="YAML file with hardware_profiles_extra")


def _add_judge_options(parser: argparse.ArgumentParser) -> None:
    files = "output of one run, or the JSON file of -J; - for standard input. Each file is judged separately"
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path, help=files)
    parser.add_argument("--format", choices=("json", "table"), default="table")
    _add_profile(parser, required=True)
    parser.add_argument("--nodes", required=True, metavar="N", help="participating nodes")
    parser.add_argument(
        "--domains", metavar="N,N", help="participating nodes per NVLink domain, for hardware of NVLink racks"
    )
    parser.add_argument("--ranks", metavar="N", help="participating ranks; default: one per GPU")
    parser.add_argument("--floor", metavar="GBS", help="floor in GB/s instead of the profile's")
    parser.add_argument(
        "--collective", metavar="NAME", help="program name without _perf, if the output does not contain it"
    )
    parser.add_argument("--allow-unchecked", action="store_true", help="accept results that were not checked")
    parser.add_argument("--allow-missing-ranks", action="store_true", help="accept output without rank lines")
    parser.add_argument(
        "--allow-known-causes",
        action="store_true",
        help="accept a run that reaches the floor although its NCCL lines report a known fault, such as NET/Socket",
    )
    parser.set_defaults(run=_judge)
