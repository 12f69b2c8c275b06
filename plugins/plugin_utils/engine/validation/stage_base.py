# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The base classes of validation stages: one for all, and one for stages that run collectives."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from .node_checks import judged_test

if TYPE_CHECKING:
    from collections.abc import Callable

    from .result_presentation import Metric, Section, ShownTest
    from .validation_types import Culprit, Entry, Options, Planned, State, Test, Unresolved

Own = TypeVar("Own")


class Counts(Enum):
    """When the verdict of a test affects the verdict of the validation."""

    ALWAYS = "always"
    # A failure counts as intermittent (INCONCLUSIVE) if the same nodes passed another run of the test.
    UNLESS_IT_PASSED_TOO = "unless it passed too"
    # A test of the culprit search counts only until the search has finished.
    WHILE_SEARCHING = "while searching"


@dataclass(frozen=True)
class Next:
    """The next tests of a stage.

    Attributes:
        tests: empty if the stage is finished or cannot run.
        skipped: why the stage cannot run; otherwise empty.
        search: whether the culprit search requested them; its rounds are counted.
        wait: maximum seconds to wait for a test to start; None for the value of the option.
        label: name of the step; by default the stage of the first test.
    """

    tests: list[Planned] = field(default_factory=list)
    skipped: str = ""
    search: bool = False
    wait: int | None = None
    label: str = ""


class Stage(Generic[Own]):
    """A stage of a validation; registry.STAGES determines the order.

    A stage keeps no state between calls. The argument ``nodes`` contains the nodes that no earlier stage has excluded.

    Attributes:
        name: name in validation_stages, in option names and in the report.
        labels: stage names of its tests; by default only its name.
        choice: whether validation_stages may list the stage.
        form: a TypedDict of the options validation_NAME_* and of script, the job template job_NAME.sh.j2; None for a
            stage without options.
        counts: when its tests count for the verdict of the validation.
        infers: whether culprits may be inferred from its tests if a report lists none.
        title: heading of its section on the page; empty if its tests are listed with the curves and checks.
        maps_pairs: whether the page shows its tests of two nodes as a map of links.
        rank: sort position of its tests among those with the same verdict; the most informative tests have 0.
    """

    name: ClassVar[str]
    labels: ClassVar[tuple[str, ...]] = ()
    choice: ClassVar[bool] = True
    form: ClassVar[Any] = None
    counts: ClassVar[Counts] = Counts.ALWAYS
    infers: ClassVar[bool] = False
    title: ClassVar[str] = ""
    maps_pairs: ClassVar[bool] = False
    rank: ClassVar[int] = 2

    def own(self, options: Options) -> Own:
        """Return the options of the stage."""
        return cast("Own", options["own"][self.name])

    def requested(self, options: Options) -> bool:
        """Return whether the options request the stage."""
        return self.name in options["stages"]

    def problems(self, options: Options) -> list[str]:
        """Return the option problems that conversion does not find; also called if the stage is not requested."""
        del options
        return []

    def budget(self, options: Options) -> list[str]:
        """Return descriptions of the stage's tests with their maximum duration."""
        return [f"{self.name}: at most {options['test_time_limit']} s"]

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the next tests, given all results so far."""
        raise NotImplementedError

    def judge(self, options: Options, planned: Planned, entry: Entry, text: str | None) -> list[Test]:
        """Return the report entries of a test; it never raises, even on malformed output.

        Args:
            options: options of the validation.
            planned: the test from next_tests.
            entry: the result of its job.
            text: the output of the job, None if missing.
        """
        raise NotImplementedError

    def held_back(self, options: Options, state: State, nodes: list[str]) -> set[str]:
        """Return the nodes to exclude from the later stages."""
        del options, nodes
        return {item["node"] for test in self.tests_of(state) for item in test.get("blamed", [])}

    def blame(self, options: Options, state: State, nodes: list[str]) -> tuple[list[Culprit], list[Unresolved]]:
        """Return nodes that are faulty or lack a conclusive verdict; by default those that its tests find faulty."""
        del options, nodes
        found: dict[str, Culprit] = {}
        for test in self.tests_of(state):
            for item in test.get("blamed", []):
                node, reason = item["node"], f"{test['name']}: {item['node']}: {item['reason']}"
                found[node] = {"kind": "node", "nodes": [node], "reason": reason, "tests": [test["name"]], "rail": ""}
        return list(found.values()), []

    def suspected(self, options: Options, state: State, nodes: list[str]) -> list[Unresolved]:
        """Return nodes that may be slightly slow, but without conclusive evidence; they do not affect the verdict."""
        del options, state, nodes
        return []

    def searching(self, options: Options, state: State, nodes: list[str]) -> bool:
        """Return whether a culprit search of the stage needs more tests; ignores the limits."""
        del options, state, nodes
        return False

    def tests_of(self, state: State) -> list[Test]:
        """Return the tests of this stage so far."""
        return [test for test in state["tests"] if test["stage"] in (self.labels or (self.name,))]

    def read(self, value: object, plain: Callable[[object], str]) -> Any:  # noqa: ANN401 - the stage's own form
        """Return the stage-specific values from an untrusted report, or None if missing.

        Args:
            value: the value under the stage's name in a test.
            plain: converts any value to printable text.
        """
        del value, plain

    def section(self, figures: Any) -> Section:  # noqa: ANN401 - the type that read returns
        """Return the section of a test on the page, given the result of read if it is not None."""
        del figures
        return {"charts": [], "table": None, "note": "", "facts": []}

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return the Prometheus metrics of a test."""
        del test
        return []


class Collective(Stage[None]):
    """A stage whose tests run collectives, which use the links between nodes."""

    infers = True

    def judge(self, options: Options, planned: Planned, entry: Entry, text: str | None) -> list[Test]:
        """Return the report entries of a test, one per collective."""
        return judged_test(options, planned, entry, text)
