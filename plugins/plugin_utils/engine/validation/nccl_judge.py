# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Judge runs of nccl-tests: PASS, FAIL or INCONCLUSIVE, with the reason as text.

The checks, in order: the program ran, all nodes took part, the results are correct, fast enough, steady and plausible.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any, TypedDict, cast

from ..catalogue.ceilings import ceilings, effective_nvlink
from ..catalogue.floors import Floor, domain_problem, low_floor, placed_floor, scope_of, unplaced_floors
from ..common.option_names_in_messages import option
from ..common.printable import human_size
from ..nccl.nccl_log import cause, hint
from ..nccl.run_outcome import ranks_from_ratio
from .bandwidth_curve import curve_of, dips
from .low_bandwidth_causes import KNOWN_CAUSE, causes

PASS = "PASS"  # noqa: S105 - a verdict
FAIL = "FAIL"
INCONCLUSIVE = "INCONCLUSIVE"
# Prefix of the reason if only a missing floor prevents a verdict.
NO_FLOOR = "no floor is known"
ONE_RANK = "a single rank does not communicate, so no bandwidth was measured"
# Prefix of the reason for a test that is slower than its peers.
STRAGGLER = "straggler"
# If a message takes less than a millisecond, latency dominates: on one NVLink node, 128 MiB (0.3 ms) reaches 88 % of
# the full bandwidth, 1 GiB (2 ms) 97 %.
_SATURATED_S = 1e-3
# Allowed spread of repeats, as a fraction of the best: three times the normal spread. Nine healthy repeats on one pair
# of nodes differ by 2.6 % (alltoall) and 3.5 % (all_reduce): jianxiongzhang/nccl_test,
# 6kd_p2p_sys_plugin_*_raw_data.txt, commit 3ae8409.
STEADY = 0.10
_ABOVE = 1.03
_IMPOSSIBLE = 1.15
_HALVES_DIFFER = 0.5
_RING_SHARE = 1.05
_GB = 1e9
_MOST_WARNINGS = 5


@dataclass(frozen=True)
class Expected:
    """The requested properties of the runs.

    Attributes:
        nodes: number of nodes.
        ranks: number of ranks; by default nodes times the profile's GPUs.
        hardware: name of the profile, for messages only.
        floor: floor in GB/s that overrides the profile's.
        collective: name of the program without "_perf"; by default the name in the runs, or all_reduce.
        allow_unchecked: whether results without a correctness check may pass.
        allow_missing_ranks: whether an output without its rank lines may pass.
        allow_known_causes: whether a run with sufficient bandwidth may pass although NCCL's log shows a known fault.
        hosts: names of the hosts that must take part; empty for any.
        steady: allowed spread of repeats, as a fraction of the best.
        repeats: required number of runs of each collective; None for any.
        domains: number of nodes in each NVLink domain, the largest first; None if unknown.
    """

    nodes: int
    ranks: int | None = None
    hardware: str | None = None
    floor: float | None = None
    collective: str | None = None
    allow_unchecked: bool = False
    allow_missing_ranks: bool = False
    allow_known_causes: bool = False
    hosts: tuple[str, ...] = ()
    steady: float = STEADY
    repeats: int | None = None
    domains: tuple[int, ...] | None = None


class Judged(TypedDict):
    """The verdict on a test and its reason; bandwidths in GB/s, the size in bytes, None if unknown."""

    verdict: str
    reason: str
    measured_busbw: float | None
    at_size: int | None
    floor: float | None
    ceiling: float | None
    source: str | None
    findings: list[str]


@dataclass
class _Verdict:
    verdict: str = INCONCLUSIVE
    reason: str = ""
    measured_busbw: float | None = None
    at_size: int | None = None
    floor: float | None = None
    ceiling: float | None = None
    source: str | None = None
    findings: list[str] = field(default_factory=list)


def worst(verdicts: list[str]) -> str:
    """Return the worst verdict: FAIL before INCONCLUSIVE before PASS; INCONCLUSIVE for an empty list."""
    for verdict in (FAIL, INCONCLUSIVE):
        if verdict in verdicts:
            return verdict
    return PASS if verdicts else INCONCLUSIVE


def _not_everyone(run: dict[str, Any], expected: Expected, ranks: int | None) -> str | None:
    """Return a message about nodes or ranks that did not take part, or None."""
    if run["ranks"] is None:
        span = ranks_from_ratio(run)
        if ranks is not None and span is not None and not span[0] <= ranks <= span[1]:
            return f"busbw / algbw is that of {span[0]} to {span[1]} ranks (expected {ranks})"
        return None if expected.allow_missing_ranks else "the rank lines are missing, so the nodes that ran are unknown"
    if ranks is not None and run["ranks"] != ranks:
        return f"{run['ranks']} ranks took part (expected {ranks})"
    missing = [host for host in expected.hosts if host not in run["hosts"]]
    if missing:
        return f"did not take part: {', '.join(missing)}"
    if run["nodes"] != expected.nodes:
        return f"{run['nodes']} nodes took part (expected {expected.nodes})"
    return None


def out_of_place(run: dict[str, Any]) -> list[tuple[int, float]]:
    """Return the size in bytes and the out-of-place busbw in GB/s of each row that has both."""
    return [
        (row["size"], row["out_of_place"]["busbw"])
        for row in run["rows"]
        if row["size"] > 0 and row["out_of_place"] is not None and row["out_of_place"]["busbw"] is not None
    ]


def _collective(run: dict[str, Any], expected: Expected) -> str:
    if expected.collective:
        return expected.collective
    program = run["program"]
    return str(program).split("_perf", maxsplit=1)[0] if program else "all_reduce"


def _floor(
    runs: list[dict[str, Any]], profile: dict[str, Any] | None, expected: Expected, collective: str
) -> tuple[Floor, float | None]:
    """Return the floor; if it is unknown whether the nodes share an NVLink domain, also that for a shared domain."""
    summed = bool(runs) and all((run.get("fabric") or {}).get("in_network") for run in runs)
    known = placed_floor(profile, expected.nodes, expected.domains, collective, in_network=summed)
    if expected.floor is not None:
        return Floor(expected.floor, "the operator", known.best), None
    if known.gbs is None and profile is not None and domain_problem(profile, expected.nodes, expected.domains):
        low, high = unplaced_floors(profile, expected.nodes, collective)
        return low, high.gbs
    return known, None


def _wrong_number(runs: list[dict[str, Any]], collective: str, expected: Expected) -> str | None:
    """Return a message about unexpected programs or an unexpected number of runs, or None."""
    others = [str(run["program"]) for run in runs if run["program"] and _collective(run, Expected(1)) != collective]
    if others:
        return f"the output is from {others[0].split('_perf', maxsplit=1)[0]} (expected {collective})"
    if expected.repeats is not None and len(runs) != expected.repeats:
        return f"the output contains {len(runs)} repeats (expected {expected.repeats})"
    return None


def floor_remedy() -> str:
    """Return the remedy for a missing floor."""
    return f"set {option('floor_gbs')}, or busbw of the hardware profile"


def judge(runs: list[dict[str, Any]], profile: dict[str, Any] | None, expected: Expected) -> Judged:
    """Return the verdict on one or more runs of one test.

    Several runs of one program are repeats. Runs of several programs are judged separately, each against its own floor,
    and the worst verdict counts.

    Args:
        runs: results of parse_text.
        profile: the hardware profile; None if unknown.
        expected: the requested properties of the runs.

    Returns:
        ``verdict``, ``reason``, ``measured_busbw`` (GB/s), ``at_size`` (bytes), ``floor``, ``ceiling`` (GB/s),
        ``source`` and ``findings``.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(_collective(run, expected), []).append(run)
    answers = [_judge_one(name, members, profile, expected) for name, members in groups.items()] or [
        _judge_one("all_reduce", [], profile, expected)
    ]
    verdict = worst([answer.verdict for answer in answers])
    answer = next(answer for answer in answers if answer.verdict == verdict)
    if len(answers) > 1:
        others = [f"{name}: {a.verdict}, {a.reason}" for name, a in zip(groups, answers) if a is not answer]
        answer.findings += others
    return cast("Judged", asdict(answer))


def _judge_one(
    collective: str, runs: list[dict[str, Any]], profile: dict[str, Any] | None, expected: Expected
) -> _Verdict:
    answer = _Verdict()
    floor, together = _floor(runs, profile, expected, collective)
    answer.floor, answer.source = floor.gbs, floor.source
    ranks = expected.ranks
    if ranks is None and profile is not None:
        ranks = expected.nodes * int((profile.get("gpu") or {}).get("count") or 1)
    limits = _limits(profile, expected, ranks, collective)
    answer.ceiling = None if limits.get("limit") is None else round(limits["limit"], 4)
    _measure(answer, runs)
    known = _fabric_findings(answer, runs, profile, expected, collective)
    _warnings(answer, runs)
    wrong = [run for run in runs if run["outcome"] == "wrong-results"]
    reason = did_not_run([run for run in runs if run not in wrong] if wrong else runs)
    if reason is None and not wrong and profile is None and answer.floor is None:
        reason = (
            f"unknown hardware {expected.hardware!r}: no floor"
            if expected.hardware
            else "no hardware profile is set: no floor"
        )
    if reason is None and not wrong:
        reason = no_bandwidth(runs) or next(
            (r for r in (_not_everyone(run, expected, ranks) for run in runs) if r), None
        )
        reason = reason or _wrong_number(runs, collective, expected)
    if wrong:
        answer.verdict, answer.reason = FAIL, wrong_words(wrong[0])
    elif reason is not None:
        answer.reason = reason
    elif not all(run["checked"] for run in runs) and not expected.allow_unchecked:
        answer.reason = "the results were not checked (all correctness cells are N/A)"
    else:
        _speed(answer, runs, limits, replace(expected, collective=collective), ranks)
        answer.findings += dips(curve_of(runs))
        if together is not None:
            _unplaced(answer, together, domain_problem(profile, expected.nodes, expected.domains))
        _known_causes(answer, known)
    if floor.gbs is not None and low_floor(floor.gbs, floor.best):
        _once(answer, low_floor(floor.gbs, floor.best))
    return answer


def _unplaced(answer: _Verdict, together: float, why: str) -> None:
    """Decide the verdict if the NVLink domains of the nodes are unknown, so that one of two floors applies.

    A result below the lower floor is a FAIL, one at or above the higher floor a PASS, and one in between INCONCLUSIVE.
    """
    answer.findings.append(f"{why}; the lower floor of {answer.floor:g} GB/s was applied instead of {together:g} GB/s")
    if answer.verdict == PASS and (answer.measured_busbw or 0.0) < together:
        answer.verdict = INCONCLUSIVE
        answer.reason = f"{answer.reason}: sufficient for several NVLink domains, not for one ({together:g}); {why}"


def _limits(profile: dict[str, Any] | None, expected: Expected, ranks: int | None, collective: str) -> dict[str, Any]:
    if profile is None or ranks is None:
        return {}
    scope = (profile.get("busbw") or {}).get(scope_of(profile, expected.nodes, expected.domains)) or {}
    entry = (scope.get("collectives") or {}).get(collective) or scope
    given = entry.get("limit_gbs") or scope.get("limit_gbs")
    given = None if given is None else float(given)
    if profile.get("validation_backend") == "mpi":
        return {"wire": None, "limit": given, "algorithm": "ring"}
    gpus = max(1, ranks // expected.nodes)
    limits = ceilings(profile, expected.nodes, gpus, collective, expected.domains)
    if not (profile.get("gpu") or {}).get("nvlink_gbs") and given is not None:
        limits["limit"] = max(given, limits["limit"] or 0.0)
    return limits


def _measure(answer: _Verdict, runs: list[dict[str, Any]]) -> None:
    """Set the measured value: the median over repeats of out-of-place busbw at the largest size."""
    points = [point for run in runs for point in out_of_place(run)]
    if points:
        answer.at_size = max(size for size, _ in points)
        answer.measured_busbw = median([busbw for size, busbw in points if size == answer.at_size])


def _speed(
    answer: _Verdict, runs: list[dict[str, Any]], limits: dict[str, Any], expected: Expected, ranks: int | None
) -> None:
    """Decide whether the result is fast enough, steady and plausible."""
    hardware = expected.hardware or "this hardware"
    measured, size, floor = answer.measured_busbw, answer.at_size, answer.floor
    if measured is None or size is None:
        answer.reason = "the output contains no out-of-place bandwidth"
    elif (ranks or min(run["ranks"] or 2 for run in runs)) < 2:  # noqa: PLR2004 - one rank sends nothing
        answer.reason = ONE_RANK
    elif floor is None:
        found = f"{measured:.4g} GB/s at {human_size(size)} was measured"
        of_what = f"{expected.collective} of {hardware} on {expected.nodes} node(s)"
        answer.reason = f"{NO_FLOOR} for {of_what}; {found}: {floor_remedy()}"
    elif limits.get("limit") is not None and measured > _IMPOSSIBLE * limits["limit"]:
        most = f"{hardware} reaches at most {limits['limit']:.4g} GB/s"
        answer.reason = f"{measured:g} GB/s is impossible: {most}; the measurement or the hardware profile is wrong"
    else:
        _compare(answer, runs, size, floor, expected.steady)
        _believable(answer, measured, limits)


def _compare(answer: _Verdict, runs: list[dict[str, Any]], size: int, floor: float, steady: float) -> None:
    """Compare with the floor, then check the spread of the repeats.

    The verdict is FAIL if all repeats are below the floor. If only some are, or if the repeats differ too much, it is
    INCONCLUSIVE, because an intermittent result proves neither a fault nor its absence.
    """
    repeats = [busbw for run in runs for at, busbw in out_of_place(run) if at == size]
    low, high = min(repeats), max(repeats)
    many = f" (median of {len(repeats)}: {low:.4g} to {high:.4g})" if len(repeats) > 1 else ""
    text = f"{answer.measured_busbw:.4g} GB/s at {human_size(size)}{many}, floor {floor:g}"
    spread = (high - low) / high if high > 0 else 0.0
    if high < floor:
        if high > 0 and size / (high * _GB) < _SATURATED_S:
            answer.reason = f"{text}; the largest message is too small to reach the full bandwidth"
        else:
            answer.verdict, answer.reason = FAIL, f"too slow: {text}"
    elif low < floor:
        answer.reason = (
            f"fluctuates around the floor: {low:.4g} to {high:.4g} GB/s at {human_size(size)}, floor {floor:g}"
        )
    elif spread > steady:
        answer.reason = (
            f"not steady: {len(repeats)} repeats between {low:.4g} and {high:.4g} GB/s at {human_size(size)}, a spread "
            f"of {spread:.0%} (allowed {steady:.0%}); floor {floor:g}"
        )
    else:
        answer.verdict, answer.reason = PASS, text
    if spread > steady and not answer.reason.startswith("not steady"):
        answer.findings.append(f"not steady: {len(repeats)} repeats between {low:.4g} and {high:.4g} GB/s")
    for run in runs:
        _halves_differ(answer, run, size)


def _halves_differ(answer: _Verdict, run: dict[str, Any], size: int) -> None:
    for row in run["rows"]:
        out, inside = (float((row[half] or {}).get("busbw") or 0) for half in ("out_of_place", "in_place"))
        if row["size"] == size and out and inside and abs(out - inside) > _HALVES_DIFFER * max(out, inside):
            answer.findings.append(f"out-of-place {out:g} and in-place {inside:g} GB/s differ at {human_size(size)}")
            return


def _believable(answer: _Verdict, measured: float, limits: dict[str, Any]) -> None:
    wire, limit = limits.get("wire"), limits.get("limit")
    if limit is not None and measured > _ABOVE * limit:
        answer.findings.append(f"{measured:g} GB/s is above the computed ceiling of {limit:.4g} GB/s")
    elif wire is not None and measured > _ABOVE * wire:
        why = {"NVLS": "reduction in the NVSwitch (NVLS)", "tree": "the tree algorithm, or reduction in a switch"}.get(
            limits["algorithm"], "reduction in the network switches (SHARP), or the tree algorithm"
        )
        answer.findings.append(
            f"above the maximum of a ring ({wire:.4g} GB/s), probably because of {why}: the value is not the link rate"
        )


def _fabric_findings(
    answer: _Verdict, runs: list[dict[str, Any]], profile: dict[str, Any] | None, expected: Expected, collective: str
) -> list[str]:
    """Add the causes of low bandwidth in NCCL's log lines, and return those that are faults at any bandwidth."""
    found = causes(runs, profile, collective, expected.nodes, expected.domains)
    for item in found:
        _once(answer, item.words)
    if answer.measured_busbw and expected.nodes == 1 and profile is not None:
        line = float((profile.get("gpu") or {}).get("nvlink_gbs") or 0)
        below = answer.floor is not None and answer.measured_busbw < answer.floor
        if line >= 450 and below and 0.9 <= answer.measured_busbw / effective_nvlink(line) <= _RING_SHARE:  # noqa: PLR2004
            _once(answer, "the bandwidth is that of a ring: NVLS not in use")
    return [] if expected.allow_known_causes else list(dict.fromkeys(item.words for item in found if item.counts))


def _warnings(answer: _Verdict, runs: list[dict[str, Any]]) -> None:
    """Add NCCL's warnings, those with a known remedy first."""
    found = dict.fromkeys(warning for run in runs for warning in run.get("warnings") or [])
    texts = sorted(found, key=lambda text: not hint(text))
    for text in texts[:_MOST_WARNINGS]:
        _once(answer, f"NCCL warned: {text}{f' ({hint(text)})' if hint(text) else ''}")
    if len(texts) > _MOST_WARNINGS:
        _once(answer, f"NCCL warned: {len(texts) - _MOST_WARNINGS} more warnings")


def _known_causes(answer: _Verdict, named: list[str]) -> None:
    """Apply known faults: a result that would pass becomes a FAIL, and the reason of any other result names them."""
    if named and answer.verdict == PASS:
        answer.verdict, answer.reason = FAIL, f"{KNOWN_CAUSE}: {'; '.join(named)}; {answer.reason}"
    elif named and answer.verdict == FAIL:
        answer.reason = f"{answer.reason}; {'; '.join(named)}"


def _once(answer: _Verdict, finding: str) -> None:
    if finding not in answer.findings:
        answer.findings.append(finding)


def did_not_run(runs: list[dict[str, Any]]) -> str | None:
    """Return why the runs have no result, or None if they have one."""
    outcomes = {
        "crashed": "the run crashed",
        "hung": "the run hung: it printed a header but no row",
        "truncated": "the output is incomplete",
        "error-only": "the run did not start",
        "template": "the output contains placeholders instead of numbers",
        "no-data": "no output of nccl-tests was found",
    }
    for number, run in enumerate(runs, start=1):
        which = f" (run {number} of {len(runs)})" if len(runs) > 1 else ""
        if run["outcome"] in {"ok", "truncated", "contradictory"} and run.get("contradictions"):
            return f"the output contradicts itself{which}: {run['contradictions'][0]}"
        if run["outcome"] in outcomes:
            why = filter(None, [cause(run.get("warnings") or []), *run["errors"][:1]])
            return ": ".join([f"{outcomes[run['outcome']]}{which}", *filter(None, ["; ".join(why)])])
    return None if runs else "no output of nccl-tests was found"


def no_bandwidth(runs: list[dict[str, Any]]) -> str | None:
    """Return why the values are not the bandwidth of all ranks, or None."""
    if any(run.get("cpu_time") for run in runs):
        return "the header contains cputime (-C 1): only the CPU time of the calls was measured, not the bandwidth"
    groups = max((run.get("groups") or 1 for run in runs), default=1)
    if groups > 1:
        return f"the ranks ran in {groups} groups (NCCL_TESTS_SPLIT), so the bandwidth is that of one group"
    return None


def wrong_words(run: dict[str, Any]) -> str:
    """Return a description of the wrong results of a run."""
    cells = [
        (half["wrong"], row["size"])
        for row in run["rows"]
        for half in (row["out_of_place"], row["in_place"])
        if half is not None and (half["wrong"] or 0) > 0
    ]
    if cells and all(float(count).is_integer() for count, _ in cells):
        return f"the sums are wrong: {cells[0][0]} wrong element(s) at {cells[0][1]} B, {len(cells)} wrong result(s)"
    return f"the sums are wrong: {run['out_of_bounds']} result(s) out of bounds"
