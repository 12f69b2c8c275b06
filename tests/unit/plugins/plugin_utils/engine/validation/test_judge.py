"""Tests of verdicts, in the order of the checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.low_bandwidth_causes import causes
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nccl_judge import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    Expected,
    Judged,
    judge,
)
from validation_samples import ANY_COUNT, CATALOGUE

ROOT = Path(__file__).parents[6]
# The 2 x 8 GPUs of the sample are slower than a healthy pair of H100, so here one floor applies to any node count.
H100 = ANY_COUNT["dgx_h100"]
WHOLE = (ROOT / "tests/fixtures/nccl/all_reduce_2x8.txt").read_text()
SEED = ROOT.parent / "shared/seeds/001_df0eff65af7a84aa.txt"


def table(share: float = 1.0, program: str = "all_reduce", factor: float = 30 / 16, size: float = 1.0) -> str:
    """Return the output with other, mutually consistent values.

    Args:
        share: factor on the bandwidths of the output.
        program: name of another program.
        factor: busbw / algbw of that program on 16 ranks.
        size: factor on the sizes of the output; the bandwidths do not change.
    """
    busbw = []

    def half(match: re.Match[str], bytes_now: int) -> str:
        busbw.append(float(match[1]) * share)
        algbw = busbw[-1] / factor
        return f"{bytes_now / algbw / 1e3:10.2f} {algbw:7.2f} {busbw[-1]:7.2f}       0"

    def row(match: re.Match[str]) -> str:
        bytes_now = int(int(match[1]) * size)
        halves = re.sub(r"[\d.]+ +[\d.]+ +([\d.]+) +0\b", lambda found: half(found, bytes_now), match[2])
        return f"{bytes_now:12} {bytes_now // 4:13}     float     sum      -1 {halves}"

    text = re.sub(r"^ *(\d+) +\d+ +float +sum +-1(.*)$", row, WHOLE, flags=re.MULTILINE)
    for power in (30, 33):
        text = text.replace(f"Bytes {1 << power}", f"Bytes {int((1 << power) * size)}")
    text = text.replace("all_reduce_perf", f"{program}_perf")
    return text.replace("334.125", f"{sum(busbw) / len(busbw):.6g}")


def scaled(share: float) -> str:
    """Return the output with all bandwidths multiplied by a factor."""
    return table(share)


def verdict(text: str, profile: dict[str, Any] | None = H100, **asked: Any) -> Judged:  # noqa: ANN401 - of Asked
    return judge(parse_text(text)["runs"], profile, Expected(**{"nodes": 2, "hardware": "dgx_h100", **asked}))


def test_good_run_passes_with_all_keys() -> None:
    found = verdict(WHOLE)
    assert set(found) == {"verdict", "reason", "measured_busbw", "at_size", "floor", "ceiling", "source", "findings"}
    assert (found["verdict"], found["measured_busbw"], found["at_size"], found["floor"]) == (
        PASS,
        350.0,
        8 << 30,
        300.0,
    )
    assert found["source"]


@pytest.mark.parametrize(
    ("text", "asked", "wanted", "words"),
    [
        (scaled(0.5), {}, FAIL, "too slow: 175 GB/s at 8 GiB, floor 300"),
        (scaled(0.5), {"floor": 100.0}, PASS, "floor 100"),
        (scaled(3), {}, INCONCLUSIVE, "is impossible"),
        (WHOLE, {"nodes": 3}, INCONCLUSIVE, "16 ranks took part (expected 24)"),
        (WHOLE, {"nodes": 4, "ranks": 16}, INCONCLUSIVE, "2 nodes took part (expected 4)"),
        (WHOLE, {"hosts": ("gpu1", "gpu3")}, INCONCLUSIVE, "did not take part: gpu3"),
        (WHOLE[: WHOLE.index("# Out of")], {}, INCONCLUSIVE, "incomplete"),
        (WHOLE[: WHOLE.index("NCCL version")], {}, INCONCLUSIVE, "hung"),
        ("", {}, INCONCLUSIVE, "no output"),
        ("srun: error: gpu1: task 0: Killed\n", {}, INCONCLUSIVE, "did not start"),
        (WHOLE.replace("       0\n", "       3\n", 1), {}, FAIL, "sums are wrong: 3 wrong element"),
        (WHOLE.replace("values : 0 OK", "values : 4 FAILED"), {"nodes": 9}, FAIL, "4 result(s) out of bounds"),
        (re.sub(r"(\d\.\d\d)       0\b", r"\1     N/A", WHOLE), {}, INCONCLUSIVE, "not checked"),
        (re.sub(r"(\d\.\d\d)       0\b", r"\1     N/A", WHOLE), {"allow_unchecked": True}, PASS, ""),
        (
            re.sub(r"^# +Rank.*\n|^# Using.*\n", "", WHOLE, flags=re.MULTILINE),
            {},
            INCONCLUSIVE,
            "rank lines are missing",
        ),
        (
            re.sub(r"^# +Rank.*\n|^# Using.*\n", "", WHOLE, flags=re.MULTILINE),
            {"allow_missing_ranks": True},
            PASS,
            "",
        ),
        (WHOLE + scaled(0.5), {}, INCONCLUSIVE, "fluctuates around the floor"),
        (WHOLE + scaled(0.98), {}, PASS, "346.5 GB/s at 8 GiB (median of 2: 343 to 350), floor 300"),
        (
            WHOLE + scaled(0.88),
            {},
            INCONCLUSIVE,
            "not steady: 2 repeats between 308 and 350 GB/s at 8 GiB, a spread of 12%",
        ),
        (WHOLE + scaled(0.88), {"steady": 0.15}, PASS, "floor 300"),
        (scaled(0.5) + scaled(0.3), {}, FAIL, "too slow: 140 GB/s at 8 GiB (median of 2: 105 to 175), floor 300"),
        (WHOLE, {"repeats": 3}, INCONCLUSIVE, "the output contains 1 repeats (expected 3)"),
        (WHOLE, {"collective": "all_gather"}, INCONCLUSIVE, "the output is from all_reduce (expected all_gather)"),
        (
            table(program="all_gather", factor=15 / 16).replace("all_gather", "gather"),
            {},
            INCONCLUSIVE,
            "no floor is known for gather",
        ),
    ],
)
def test_verdicts(text: str, asked: dict[str, Any], wanted: str, words: str) -> None:
    found = verdict(text, **asked)
    assert found["verdict"] == wanted, found
    assert words in found["reason"]


def test_unknown_hardware_is_inconclusive_unless_a_floor_is_given() -> None:
    assert verdict(WHOLE, None, hardware="nope")["verdict"] == INCONCLUSIVE
    assert "unknown hardware 'nope'" in verdict(WHOLE, None, hardware="nope")["reason"]
    assert verdict(WHOLE, None, hardware="nope", floor=300.0)["verdict"] == PASS


def test_message_too_small_for_the_plateau_does_not_fail() -> None:
    small = table(size=1 / 8192)
    found = verdict(small, floor=400.0)
    assert (found["verdict"], found["at_size"]) == (INCONCLUSIVE, 1 << 20)
    assert "too small" in found["reason"]


def test_bandwidth_above_the_ceiling_is_flagged() -> None:
    found = verdict(scaled(1.3))
    assert found["verdict"] == PASS
    assert any("above the maximum of a ring" in finding for finding in found["findings"])


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("NCCL INFO Using network Socket", "InfiniBand not used (NET/Socket)"),
        ("NCCL INFO Channel 00/0 : 7[3] -> 0[0] [receive] via NET/IB/0", "GPUDirect RDMA off"),
        ("NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>", "wrong number of NICs"),
        ("NCCL INFO NVLS multicast support is not available on dev 0", "NVLS not in use"),
    ],
)
def test_cause_is_taken_from_nccl_lines(line: str, finding: str) -> None:
    at = WHOLE.index("NCCL version")
    text = f"{WHOLE[:at]}gpu1:1:1 [0] {line}\n{WHOLE[at:]}"
    found = verdict(text)
    assert any(finding in said for said in found["findings"]), found
    assert found["verdict"] == FAIL
    assert found["reason"].startswith(f"a known cause of low bandwidth: {finding}")
    assert found["reason"].endswith("350 GB/s at 8 GiB, floor 300")
    allowed = verdict(text, allow_known_causes=True)
    assert (allowed["verdict"], allowed["findings"]) == (PASS, found["findings"])
    slow = verdict(text, floor=400.0)
    assert slow["verdict"] == FAIL
    assert slow["reason"].startswith("too slow: ")
    assert finding in slow["reason"]


SOCKET = {"networks": ["Socket"]}
NO_GDR = {"gdrdma": False}
NO_NVLS = {"nvls": False}
L40S = CATALOGUE["l40s"]
RACK = CATALOGUE["gb200_nvl72"]


@pytest.mark.parametrize(
    ("fabric", "profile", "asked", "counts"),
    [
        (SOCKET, H100, {}, True),
        (SOCKET, H100, {"nodes": 1}, None),
        (SOCKET, RACK, {"domains": (2,)}, False),
        (SOCKET, RACK, {"domains": (1, 1)}, True),
        (SOCKET, CATALOGUE["rtx_4090"], {}, None),
        (NO_GDR, H100, {}, True),
        # Over PCIe a GPU can be too far from the NIC, as can a GPU that shares its NIC with many.
        (NO_GDR, L40S, {}, False),
        (NO_GDR, {**H100, "nics": [{"count": 1, "gbps": 400, "rdma": True}]}, {}, False),
        (NO_NVLS, H100, {}, True),
        (NO_NVLS, H100, {"nodes": 1}, True),
        (NO_NVLS, H100, {"collective": "all_gather"}, False),
        (NO_NVLS, {**H100, "gpu": {**H100["gpu"], "nvswitch": False}}, {}, False),
        (NO_NVLS, H100, {"ranks": 4}, False),
        (NO_NVLS, CATALOGUE["dgx_a100"], {}, None),
        ({"nics": ["m0"]}, H100, {}, True),
        ({"nics": [f"m{n}" for n in range(9)]}, H100, {}, False),
        ({"nics": [f"m{n}" for n in range(8)]}, H100, {}, None),
    ],
)
def test_cause_counts_unless_the_hardware_explains_it(
    fabric: dict[str, Any], profile: dict[str, Any], asked: dict[str, Any], counts: object
) -> None:
    asked = {"nodes": 2, "ranks": 16, "collective": "all_reduce", "domains": None, **asked}
    run = {"fabric": fabric, "ranks": asked["ranks"], "nodes": asked["nodes"]}
    found = causes([run, run], profile, asked["collective"], asked["nodes"], asked["domains"])
    assert [cause.counts for cause in found] == ([] if counts is None else [counts]), found


def rails(listed: dict[str, str], carried: dict[str, str]) -> str:
    """Return NCCL lines with the NICs listed on each host, and the list indexes that carry data."""
    text = ""
    for host, names in listed.items():
        shown = " ".join(f"[{place}]{name}:1/IB" for place, name in enumerate(names.split()))
        text += f"{host}:1:1 [0] NCCL INFO NET/IB : Using {shown} [RO]; OOB eth0:10.0.0.1<0>\n"
    for host, places in carried.items():
        for place in places.split():
            text += f"{host}:1:1 [0] NCCL INFO Channel 00/0 : 7[3] -> 8[0] [send] via NET/IB/{place}/GDRDMA\n"
    return text


@pytest.mark.parametrize(
    ("listed", "carried", "findings"),
    [
        ({"gpu1": "m0 m1", "gpu2": "m0 m1"}, {"gpu1": "0 1", "gpu2": "0 1"}, []),
        ({"gpu1": "m0 m1", "gpu2": "m0"}, {}, ["rail m1 of node gpu2 is not in use, but is used on other nodes"]),
        (
            {"gpu1": "m0 m1", "gpu2": "m0 m1"},
            {"gpu1": "0 1", "gpu2": "0"},
            ["rail m1 of node gpu2 is idle, but is used on"],
        ),
        # One node with more NICs than the others does not indicate a fault of the others.
        ({"gpu1": "m0 m1", "gpu2": "m0", "gpu3": "m0"}, {}, []),
        ({"gpu1": "m0 m1", "gpu2": "m0 m1"}, {"gpu1": "1", "gpu2": "1"}, []),
    ],
    ids=["all", "lacking", "idle", "one more", "idle on both"],
)
def test_rail_missing_on_one_node_is_named(
    listed: dict[str, str], carried: dict[str, str], findings: list[str]
) -> None:
    at = WHOLE.index("NCCL version")
    two = {**H100, "nics": [{"count": 2, "gbps": 1600, "rdma": True}]}
    found = verdict(WHOLE[:at] + rails(listed, carried) + WHOLE[at:], two)
    named = [finding for finding in found["findings"] if finding.startswith("rail ")]
    assert all(finding in found["reason"] for finding in named)
    assert len(named) == len(findings)
    assert all(finding.startswith(words) for finding, words in zip(named, findings))


def test_each_collective_has_its_own_floor_and_ceiling() -> None:
    text = "".join(table(0.5, program, 15 / 16) for program in ("all_gather", "alltoall"))
    runs = parse_text(text)["runs"]
    assert [(run["outcome"], run["rows"][-1]["out_of_place"]["busbw"]) for run in runs] == [("ok", 175)] * 2
    gathered = judge(runs[:1], H100, Expected(nodes=2, hardware="dgx_h100"))
    assert (gathered["floor"], gathered["ceiling"]) == (300, 370.8)
    exchanged = judge(runs[1:], H100, Expected(nodes=2, hardware="dgx_h100"))
    assert (exchanged["floor"], exchanged["ceiling"]) == (40, 93.75)
    assert "is impossible: dgx_h100 reaches at most 93.75 GB/s" in exchanged["reason"]


@pytest.mark.skipif(not SEED.is_file(), reason=f"{SEED} is not here")
@pytest.mark.parametrize(
    ("allowed", "wanted", "words"),
    [
        ({}, INCONCLUSIVE, "rank lines are missing, so the nodes that ran are unknown"),
        ({"allow_missing_ranks": True}, INCONCLUSIVE, "not checked"),
        ({"allow_unchecked": True, "allow_missing_ranks": True}, PASS, "81.53 GB/s at 8 GiB, floor 76"),
    ],
)
def test_published_dgx2h_run_needs_options_for_its_missing_data(
    allowed: dict[str, Any], wanted: str, words: str
) -> None:
    found = judge(
        parse_text(SEED.read_text())["runs"], site_catalogue({})["dgx2"], Expected(nodes=2, hardware="dgx2", **allowed)
    )
    assert (found["verdict"], found["measured_busbw"], found["at_size"]) == (wanted, 81.53, 8 << 30)
    assert words in found["reason"]
    assert (found["floor"], found["ceiling"]) == (76, 126.0)
    assert "81.53" in str(found["source"])


@pytest.mark.parametrize(
    ("domains", "given", "wanted", "words"),
    [
        # Two trays of one rack communicate over NVLink, two of different racks over their NICs.
        ((2,), None, FAIL, "too slow: 210 GB/s at 8 GiB, floor 730"),
        ((1, 1), None, PASS, "210 GB/s at 8 GiB, floor 180"),
        (
            None,
            None,
            INCONCLUSIVE,
            "floor 180: sufficient for several NVLink domains, not for one (730); the NVLink domains of",
        ),
        ((3,), None, INCONCLUSIVE, "not for one (730); 2 nodes took part, but the NVLink domains contain 3"),
        (None, 100.0, PASS, "floor 100"),
    ],
)
def test_trays_are_judged_by_the_network_that_connects_them(
    domains: tuple[int, ...] | None, given: float | None, wanted: str, words: str
) -> None:
    rack = {"hardware": "gb200_nvl72", "ranks": 16, "floor": given, "domains": domains}
    found = verdict(scaled(0.6), CATALOGUE["gb200_nvl72"], **rack)
    assert (found["verdict"], words in found["reason"]) == (wanted, True), found["reason"]


@pytest.mark.parametrize(
    ("share", "wanted", "words"),
    [
        (0.5, FAIL, "too slow: 175 GB/s at 8 GiB, floor 180"),
        (0.6, INCONCLUSIVE, "nvlink_domain is not set"),
        (2.2, PASS, "770 GB/s at 8 GiB, floor 180"),
    ],
)
def test_unknown_racks_use_the_lower_floor(share: float, wanted: str, words: str) -> None:
    found = verdict(scaled(share), RACK, hardware="gb200_nvl72", ranks=16)
    assert (found["verdict"], words in found["reason"]) == (wanted, True), found["reason"]
    assert any(
        "the lower floor of 180 GB/s was applied instead of 730 GB/s" in finding for finding in found["findings"]
    )


@pytest.mark.parametrize(
    ("profile", "asked", "said"),
    [
        (H100, {"floor": 180.0}, True),
        (H100, {"floor": 190.0}, False),
        ({**H100, "busbw": {"inter_node": {**H100["busbw"]["inter_node"], "floor_gbs": 150}}}, {}, True),
        (H100, {}, False),
        (CATALOGUE["l40s"], {"floor": 1.0, "ranks": 16}, True),
    ],
)
def test_floor_below_half_of_a_node_is_a_finding(profile: dict[str, Any], asked: dict[str, Any], *, said: bool) -> None:
    found = verdict(WHOLE, profile, **asked)
    assert any("is below half of" in finding for finding in found["findings"]) is said, found


SHARP = "gpu1:1:1 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA\n"


def test_in_network_reduction_has_a_separate_floor() -> None:
    four = {"nodes": 2, "hardware": "dgx_h100"}
    at = WHOLE.index("NCCL version")
    text = table(0.95)
    profile = {**H100, "busbw": {"inter_node": {**CATALOGUE["dgx_h100"]["busbw"]["inter_node"], "floors": []}}}
    assert verdict(text, profile, **four)["verdict"] == PASS
    summed = verdict(text[:at] + SHARP + text[at:], profile, **four)
    assert (summed["verdict"], summed["floor"]) == (FAIL, 348)


def test_differing_nic_names_and_rails_of_a_root_are_findings() -> None:
    two = {**H100, "nics": [{"count": 2, "gbps": 1600, "rdma": True}]}
    other = {"gpu1": {"listed": ["m0", "m1"], "carried": []}, "gpu2": {"listed": ["m0", "m2"], "carried": []}}
    found = causes([{"fabric": {"rails": other}}], two, "all_reduce", 2, None)
    assert [cause.counts for cause in found] == [False, False]
    idle = {
        "gpu1": {"listed": ["m0", "m1"], "carried": ["m0"]},
        "gpu2": {"listed": ["m0", "m1"], "carried": ["m0", "m1"]},
    }
    for collective, counts in (("all_reduce", True), ("broadcast", False)):
        (cause,) = causes([{"fabric": {"rails": idle}}], two, collective, 2, None)
        assert cause == ("rail m1 of node gpu1 is idle, but is used on other nodes", counts)


HEADER = WHOLE[: WHOLE.index("NCCL version")]
FAILED = "gpu3: Test NCCL failure common.cu:458 'unhandled system error (run with NCCL_DEBUG=INFO for details)'\n"
MODIFY_QP = (
    "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_5:1, curr state INIT, next state RTR, "
    "local GID index 3, local GID ::ffff:10.1.3.2, remote GID ::ffff:10.1.6.2"
)


@pytest.mark.parametrize("time", ["", "[2026-03-13 22:26:02] "])
@pytest.mark.parametrize("place", ["ibvwrap.c:262", "misc/ibvwrap.cc:376 (wrap_ibv_modify_qp)"])
@pytest.mark.parametrize(
    ("warning", "words"),
    [
        (MODIFY_QP, ("gpu3", "mlx5_5", "10.1.6.2", "NCCL_CROSS_NIC=0")),
        (MODIFY_QP.replace("110 Connection timed out", "22 Invalid argument"), ("mlx5_5", "NCCL_IB_GID_INDEX")),
        (
            "NET/IB : Got completion from peer 10.0.0.1<40393> with status=12 opcode=0 len=0 hca mlx5_10",
            ("gpu3", "10.0.0.1", "mlx5_10", "did not answer"),
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.1<1> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=x(0) hca mlx5_1",
            ("mlx5_1", "did not answer"),
        ),
        ("Something that nobody knows", ("gpu3: Something that nobody knows",)),
    ],
)
def test_crash_quotes_the_nccl_warning(time: str, place: str, warning: str, words: tuple[str, ...]) -> None:
    follows = f"{time}gpu4:1:2 [0] {place} NCCL WARN socketProgress: Connection closed by remote peer gpu3<123>\n"
    text = f"{HEADER}{follows}{time}gpu3:41234:41300 [5] {place} NCCL WARN {warning}\n"
    for output, outcome in ((text + FAILED, "crashed"), (text, "hung")):
        found = verdict(output)
        assert (found["verdict"], outcome in found["reason"]) == (INCONCLUSIVE, True)
        assert [word for word in words if word not in found["reason"]] == []
        assert ("Test NCCL failure" in found["reason"]) == (output != text)


@pytest.mark.parametrize(
    "words",
    ["Got async event : port error", "Got non-fatal async event: port error(10)", "async fatal event: port error"],
)
def test_warning_in_a_passed_run_is_a_finding(words: str) -> None:
    at = WHOLE.index("# Out of bounds")
    line = f"gpu2:4108:4188 [0] transport/net_ib.cc:1205 NCCL WARN NET/IB : mlx5_3:1 {words}\n"
    found = verdict(WHOLE[:at] + line * 3 + WHOLE[at:])
    assert found["verdict"] == PASS
    (finding,) = [each for each in found["findings"] if "warned" in each]
    assert "gpu2: NET/IB : mlx5_3:1" in finding
    assert "transceiver" in finding


def test_many_warnings_are_counted_and_known_faults_come_first() -> None:
    at = WHOLE.index("# Out of bounds")
    lines = "".join(f"gpu{number}:1:2 [0] x.cc:1 NCCL WARN odd\n" for number in range(9))
    port = "gpu2:1:2 [0] x.cc:1 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error\n"
    warned = [each for each in verdict(WHOLE[:at] + lines + port + WHOLE[at:])["findings"] if "NCCL warned" in each]
    assert len(warned) == 6
    assert "port error" in warned[0]
    assert "5 more" in warned[-1]


def test_run_with_cpu_times_is_not_judged() -> None:
    found = verdict(WHOLE.replace("    time ", " cputime "))
    assert (found["verdict"], "-C 1" in found["reason"]) == (INCONCLUSIVE, True)


def test_run_in_groups_is_not_judged_by_the_floor_of_all_ranks() -> None:
    groups = re.sub(
        r"(?m)^(#  Rank +(\d+) Group +)0", lambda found: f"{found[1]}{int(found[2]) // 8}", table(1.2, factor=14 / 8)
    )
    found = verdict(groups)
    assert (found["verdict"], "2 groups (NCCL_TESTS_SPLIT)" in found["reason"]) == (INCONCLUSIVE, True)
