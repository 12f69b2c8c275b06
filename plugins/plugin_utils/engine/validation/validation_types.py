# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The data of a validation: options, planned tests, job results, and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from .option_types import NotRequired, Span

if TYPE_CHECKING:
    from ....module_utils.hardware.machine_parts import Part


class CheckJob(TypedDict):
    """The job for a kind of check: time limit in seconds, sbatch arguments."""

    script: str
    time_limit: Annotated[int, Span(None, None)]
    arguments: NotRequired[list[str]]


class Options(TypedDict):
    """The options of a validation, without the prefix validation_.

    Attributes:
        nodes: nodes to test.
        pool: all nodes that may take part.
        hardware: node to name of its hardware profile.
        nvlink_domains: node to name of its NVLink domain; empty or missing if unknown.
        stages: names of the requested stages.
        check_jobs: kind of check to its job.
        floor_gbs: a number, or collective to number.
        spread_limit: percent.
        drift: ignore, finding or fail; the effect of values below those of earlier reports.
        straggler_limit: percent below the median of the peers; 0 disables the comparison.
        topology: switch to its nodes.
        partition: name, or hardware profile to name; the same for account and qos.
        script: job script for collectives.
        output: pattern of the path of a job's output, with %j for the job ID.
        started: ISO 8601.
        began: seconds since 1970.
        wait: seconds to wait for a test to start.
        out_of_service: whether drained or reserved nodes are tested.
        reservation: existing reservation in which the jobs run; empty to create one if needed.
        resume: drained nodes to resume after passing: own (drained by busbar), all or none.
        test_time_limit: seconds per test.
        time_limit: seconds for all tests, 0 for no limit.
        search_repeats: maximum number of measurements of a test of the search in one job.
        search_drop: percent below other tests of the search from which a node can be blamed.
        last_results: node to whether it passed in the newest report that judged it.
        slurm_topology: switch or block to its nodes, as declared to Slurm.
        drain_limit: percent of the pool.
        own: by stage name, the options of each requested stage that has options.
    """

    backend: str
    nodes: list[str]
    partners: Annotated[int, Span(0)]
    pool: list[str]
    hardware: dict[str, str]
    nvlink_domains: dict[str, str]
    catalogue: dict[str, Any]
    stages: list[str]
    node_checks: NotRequired[list[str]]
    check_jobs: NotRequired[dict[str, CheckJob]]
    p2p_floor_gbs: NotRequired[float]
    binary: str
    image: str
    inspector: NotRequired[str]
    mpi_ranks_per_node: Annotated[int, Span(1)]
    min_bytes: str
    max_bytes: str
    step_factor: Annotated[int, Span(2)]
    iterations: Annotated[int, Span(1)]
    collectives: list[str]
    search_collective: str
    rails: list[str]
    repeats: Annotated[int, Span(1, 100)]
    spread_limit: Annotated[int, Span(0, 100)]
    drift: str
    straggler_limit: Annotated[int, Span(0, 50)]
    floor_gbs: Any
    allow_unchecked: bool
    allow_known_causes: bool
    sbatch_arguments: list[str]
    partition: NotRequired[Any]
    account: NotRequired[Any]
    qos: NotRequired[Any]
    script: str
    output: str
    user: str
    cluster: str
    started: str
    began: float
    wait: Annotated[int, Span(0)]
    allow_busy: NotRequired[bool]
    out_of_service: NotRequired[bool]
    reservation: NotRequired[str]
    resume: NotRequired[str]
    test_time_limit: Annotated[int, Span(1)]
    time_limit: Annotated[int, Span(0)]
    locate_rounds: Annotated[int, Span(0)]
    search_repeats: NotRequired[Annotated[int, Span(1, 100)]]
    search_drop: NotRequired[Annotated[int, Span(1, 50)]]
    last_results: NotRequired[dict[str, bool]]
    slurm_topology: NotRequired[dict[str, list[str]]]
    topology: dict[str, list[str]]
    drain_failed: bool
    drain_limit: Annotated[int, Span(0, 100)]
    own: dict[str, Any]


class Job(TypedDict):
    """A job in the format of the slurm_tests module.

    The job runs on its nodes and on partners from the candidates. It requires the minimum number of available nodes.
    """

    name: str
    nodes: list[str]
    candidates: list[str]
    partners: int
    minimum: int
    script: str
    arguments: list[str]
    output: str


class Planned(TypedDict):
    """A test that will run.

    Attributes:
        name: name of the test and of its output.
        stage: name of the stage in the report.
        kind: collective, or another kind of test.
        collectives: the measured collectives, in order.
        rail: the only NIC of each node that the test may use; empty for all.
        nic_alone: whether GPUs may communicate only through NICs.
        repeats: number of measurements of each collective; 0 for the default of the options.
        time_limit: seconds, if it differs from that of the options.
    """

    name: str
    stage: str
    kind: str
    ranks_per_node: int
    job: Job
    collectives: NotRequired[list[str]]
    rail: NotRequired[str]
    nic_alone: NotRequired[bool]
    repeats: NotRequired[int]
    time_limit: NotRequired[int]


class Entry(TypedDict):
    """The result of a job, as checked_answer returns it.

    Attributes:
        busy: nodes that other jobs use, each with these jobs.
        held: drained nodes, each with the drain reason.
        held_by: user who drained each of these nodes.
        seconds: run time.
        problem: why the job did not start or finish.
    """

    name: str
    nodes: list[str]
    partners: list[str]
    left_out: dict[str, str]
    busy: NotRequired[dict[str, str]]
    held: NotRequired[dict[str, str]]
    held_by: NotRequired[dict[str, str]]
    job_id: str
    state: str
    reason: str
    exit_code: str
    batch_host: str
    output: str
    seconds: float
    problem: str


class Result(TypedDict):
    """The controller's answer to a step: the tests, or only a message if it could not run them."""

    tests: list[Entry]
    node_reasons: list[str]
    msg: str


class JobEnd(TypedDict):
    """A job in the report."""

    job_id: str
    state: str
    exit_code: str
    batch_host: str
    seconds: float | None
    problem: str


class Blamed(TypedDict):
    """A node that the test itself finds faulty."""

    node: str
    reason: str


class Peers(TypedDict):
    """A test and its peers: their number, their median, and the lowest tolerated value, in GB/s."""

    count: int
    median: float
    least: float


class Test(TypedDict):
    """The report entry of a test; bandwidths in GB/s, sizes in bytes.

    Each stage adds its values under its name, and each check the keys of its results.
    """

    name: str
    stage: str
    kind: str
    collective: str
    rail: str
    nodes: list[str]
    partners: list[str]
    left_out: dict[str, str]
    hardware: str
    ranks: int
    measured_busbw: float | None
    at_size: int | None
    floor: float | None
    ceiling: float | None
    source: str | None
    verdict: str
    reason: str
    findings: list[str]
    environment: dict[str, str]
    differences: NotRequired[dict[str, dict[str, list[str]]]]
    parts: dict[str, list[Part]]
    job: JobEnd
    output: str | None
    tail: list[str]
    runs: list[dict[str, Any]]
    blamed: NotRequired[list[Blamed]]
    peers: NotRequired[Peers]


class Step(TypedDict):
    """The tests to run next; without tests when the validation is finished.

    Attributes:
        stage: stage name of the tests; empty when finished.
        search: whether the culprit search requested them.
        wait: seconds to wait for a test to start.
        time_limit: seconds per test.
        stopped: why the validation ends early.
        skipped: stages that cannot run, each with the reason.
    """

    stage: str
    search: bool
    tests: list[Planned]
    stopped: str
    skipped: dict[str, str]
    wait: int
    time_limit: int


class State(TypedDict):
    """The results so far.

    Attributes:
        left_out: nodes left out of a test, each with the reason.
        busy: nodes used by other jobs, each with these jobs.
        held: drained nodes that were tested anyway, each with the drain reason.
        held_by: user and time of each of these drains.
        not_started: names of tests that did not start, or were preempted, because their nodes were busy or taken out of
            service.
        node_reasons: lines of ``sinfo -R``.
        problem: why no more tests could run.
    """

    tests: list[Test]
    left_out: dict[str, str]
    busy: dict[str, str]
    held: dict[str, str]
    held_by: dict[str, str]
    not_started: list[str]
    node_reasons: list[str]
    search_rounds: int
    problem: str


# The state before the first test.
FIRST: State = {
    "tests": [],
    "left_out": {},
    "busy": {},
    "held": {},
    "held_by": {},
    "not_started": [],
    "node_reasons": [],
    "search_rounds": 0,
    "problem": "",
}


class Culprit(TypedDict):
    """A culprit: kind is node, rail, link or boundary; tests are the names of the tests that prove it."""

    kind: str
    nodes: list[str]
    reason: str
    tests: list[str]
    rail: str


class Unresolved(TypedDict):
    """Nodes without a conclusive verdict."""

    nodes: list[str]
    reason: str


class Drain(TypedDict):
    """The nodes to drain with their drain reasons, or why no node is drained, and the result of each drain."""

    nodes: list[Blamed]
    refused: str
    done: NotRequired[list[dict[str, str]]]


class Report(TypedDict):
    """A validation report, the content of report.json."""

    schema: int
    verdict: str
    reason: str
    busy: dict[str, str]
    busy_allowed: bool
    not_tested: bool
    cluster: str
    started: str
    backend: str
    nodes: list[str]
    left_out: dict[str, str]
    culprits: NotRequired[list[Culprit]]
    unresolved: list[Unresolved]
    suspected: NotRequired[list[Unresolved]]
    skipped: dict[str, str]
    stopped: str
    search_rounds: int
    drain: Drain
    held: dict[str, str]
    held_by: dict[str, str]
    resumed: NotRequired[list[dict[str, str]]]
    leftovers: NotRequired[list[str]]
    tests: list[Test]
    node_reasons: list[str]
    settings: dict[str, Any]
