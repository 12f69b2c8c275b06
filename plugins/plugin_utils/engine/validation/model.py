# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The data of a validation: its options, what is planned, what came back, and what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from .options import NotRequired, Span

if TYPE_CHECKING:
    from ....module_utils.hardware.machine_parts import Part

__all__ = [
    "FIRST",
    "Blamed",
    "CheckJob",
    "Culprit",
    "Drain",
    "Entry",
    "Job",
    "JobEnd",
    "Options",
    "Peers",
    "Planned",
    "Report",
    "Result",
    "State",
    "Step",
    "Test",
    "Unresolved",
]


class CheckJob(TypedDict):
    """The job of a kind of check: time_limit in seconds, arguments of sbatch, problems of the check's own options."""

    script: str
    time_limit: Annotated[int, Span(None, None)]
    arguments: NotRequired[list[str]]
    problems: NotRequired[list[str]]


class Options(TypedDict):
    """The options of a validation, without the prefix validation_.

    Attributes:
        nodes: to be tested.
        pool: all nodes that may take part.
        hardware: node to name of its profile in the catalogue.
        nvlink_domains: node to name of its NVLink domain, empty or missing where it is not known.
        stages: names of those that are asked for.
        check_jobs: kind of check to its job.
        floor_gbs: a number, or collective to number; as catalogue.collectives reads it.
        spread_limit: percent.
        drift: ignore, finding or fail; what is done about figures below those of earlier reports.
        straggler_limit: percent below the median of its peers, 0 where none are compared.
        topology: switch to its nodes.
        partition: name, or hardware profile to name; so are account and qos.
        script: of the job of collectives.
        output: pattern of the path to which a job writes, with %j for its number.
        started: ISO 8601.
        began: seconds since 1970.
        wait: seconds for one test to begin.
        out_of_service: whether nodes are tested that are drained or reserved.
        reservation: of the site, in which the jobs run; empty for one that is made where it is needed.
        resume: which drained nodes are resumed that passed: own (drained by busbar), all or none.
        test_time_limit: seconds of one test.
        time_limit: seconds of all tests, 0 for no limit.
        search_repeats: how often the search has a test measured in one job at most.
        search_drop: percent by which a test of the search is slower than others before somebody is blamed.
        standing: node to whether the newest report that judged it shows it to be good.
        slurm_topology: switch or block to its nodes, as Slurm is told.
        drain_limit: percent of the pool.
        own: the options of each stage that is asked for and has some, by its name.
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
    standing: NotRequired[dict[str, bool]]
    slurm_topology: NotRequired[dict[str, list[str]]]
    topology: dict[str, list[str]]
    drain_failed: bool
    drain_limit: Annotated[int, Span(0, 100)]
    own: dict[str, Any]


class Job(TypedDict):
    """A job as the module slurm_tests takes it: it runs on nodes, and on some partners out of candidates.

    It needs the minimum of nodes to make sense.
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
    """A test that is to be run.

    Attributes:
        name: of the test and of its output.
        stage: what the report calls its stage.
        kind: collective, or what else it is.
        collectives: what its job measures, one after the other.
        rail: the one NIC of each node that it may use; empty for all.
        nic_alone: whether nothing but NICs may lie between two GPUs.
        repeats: how often each collective is measured; 0 for as often as the options say.
        time_limit: seconds, where the test has a limit of its own.
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
    """What became of a job, as controller_answer.checked_answer gives it; seconds that it ran.

    The problem is what kept it from running or from its end; busy are nodes with the jobs of others that had them, held
    those that were drained, each with the reason, and held_by who had drained these.
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
    """The answer of a controller to a step; no tests, and a message, when it could not run them."""

    tests: list[Entry]
    node_reasons: list[str]
    msg: str


class JobEnd(TypedDict):
    """What the report says of a job."""

    job_id: str
    state: str
    exit_code: str
    batch_host: str
    seconds: float | None
    problem: str


class Blamed(TypedDict):
    """A node that a test itself blames."""

    node: str
    reason: str


class Peers(TypedDict):
    """The tests that are like one, itself among them: how many, their median, and the least that is ordinary, GB/s."""

    count: int
    median: float
    least: float


class Test(TypedDict):
    """The report's entry of a test; bandwidths in GB/s, sizes in bytes.

    Beside these keys a stage keeps its own figures under its name. What a check read adds its keys
    as well.
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
    """What is to be run next: no tests when the validation is over.

    Attributes:
        stage: what the tests call theirs; empty when it is over.
        search: whether the culprit search asks.
        wait: seconds for a test to begin.
        time_limit: seconds of a test.
        stopped: why the validation ends before its time.
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
    """What is known after some steps.

    Attributes:
        left_out: nodes that were left out of a test, each with the reason.
        busy: nodes that the jobs of others had, each with these jobs.
        held: nodes that were drained and tested all the same, each with the reason of the drain.
        held_by: who had drained these, and when.
        not_started: names of tests that did not begin, or gave way, because others have their nodes or took them out
            of service.
        node_reasons: lines of ``sinfo -R``.
        problem: why no test could be run any more.
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


# What is known before the first test.
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
    """Who is to blame: kind is node, rail, link or boundary; tests are the names of those that show it."""

    kind: str
    nodes: list[str]
    reason: str
    tests: list[str]
    rail: str


class Unresolved(TypedDict):
    """Nodes of which nothing can be said for certain."""

    nodes: list[str]
    reason: str


class Drain(TypedDict):
    """Which nodes to drain, each with the reason for Slurm, or why none is, and what became of it."""

    nodes: list[Blamed]
    refused: str
    done: NotRequired[list[dict[str, str]]]


class Report(TypedDict):
    """The report of a validation, as report.json holds it."""

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
