# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The protocol of a stage of a validation, and the base of the stages that run collectives."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from .node_checks import judged_test

if TYPE_CHECKING:
    from collections.abc import Callable

    from .model import Culprit, Entry, Options, Planned, State, Test, Unresolved
    from .section import Metric, Section, ShownTest

__all__ = ["Collective", "Counts", "Next", "Own", "Stage"]

Own = TypeVar("Own")


class Counts(Enum):
    """When the verdict of a test counts for that of the validation."""

    ALWAYS = "always"
    # What failed, and passed with the same nodes at another time, comes and goes: INCONCLUSIVE.
    UNLESS_IT_PASSED_TOO = "unless it passed too"
    # A question of the culprit search: it says nothing by itself once the search is over.
    WHILE_SEARCHING = "while searching"


@dataclass(frozen=True)
class Next:
    """What a stage wants to run next.

    Attributes:
        tests: none when it is over, or cannot run.
        skipped: why it cannot run.
        search: whether the culprit search asks; its rounds are counted.
        wait: seconds for a test to begin at most; None for what the options say.
        label: what the step is called; the stage of the first test where it is empty.
    """

    tests: list[Planned] = field(default_factory=list)
    skipped: str = ""
    search: bool = False
    wait: int | None = None
    label: str = ""


class Stage(Generic[Own]):
    """A stage; the order of registry.STAGES is the order in which they run.

    A stage keeps nothing between calls: what it says follows from its arguments. ``nodes`` are always those that
    nothing has come up against in the stages before it.

    Attributes:
        name: in validation_stages, and of its options and figures.
        labels: what its tests call their stage; its name alone by default.
        choice: whether validation_stages may name it.
        form: a TypedDict of its options validation_NAME_*, and script, the job template job_NAME.sh.j2; None for a
            stage that has neither.
        counts: when its tests count for the verdict of the validation.
        infers: whether readers of a report without named culprits may tell them from its tests.
        title: heading of its section on the page; empty for tests that stand among curves and checks.
        maps_pairs: whether its tests of two nodes make a map of the ways between nodes.
        rank: place of its tests among those of equal verdict, the most telling first; 0 speaks for the whole.
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
        """Return the stage's own options."""
        return cast("Own", options["own"][self.name])

    def requested(self, options: Options) -> bool:
        """Return whether the options ask for the stage."""
        return self.name in options["stages"]

    def problems(self, options: Options) -> list[str]:
        """Return what is wrong with the options beyond their types, each with its remedy; also if not asked for."""
        del options
        return []

    def budget(self, options: Options) -> list[str]:
        """Return what is going to run and how long it may take, in words for the line of the budget."""
        return [f"{self.name}: at most {options['test_time_limit']} s"]

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the tests that come next, given all that came back so far."""
        raise NotImplementedError

    def judge(self, options: Options, planned: Planned, entry: Entry, text: str | None) -> list[Test]:
        """Return the report's entries of a test; it never raises, whatever the output is.

        Args:
            options: of the validation.
            planned: the test, as next_tests gave it.
            entry: what became of its job.
            text: the output of the job, None where there is none.
        """
        raise NotImplementedError

    def held_back(self, options: Options, state: State, nodes: list[str]) -> set[str]:
        """Return the nodes that take no part in what follows."""
        del options, nodes
        return {item["node"] for test in self.tests_of(state) for item in test.get("blamed", [])}

    def blame(self, options: Options, state: State, nodes: list[str]) -> tuple[list[Culprit], list[Unresolved]]:
        """Return which nodes are faulty, and of whom nothing can be said; by default those whom its tests blame."""
        del options, nodes
        found: dict[str, Culprit] = {}
        for test in self.tests_of(state):
            for item in test.get("blamed", []):
                node, reason = item["node"], f"{test['name']}: {item['node']}: {item['reason']}"
                found[node] = {"kind": "node", "nodes": [node], "reason": reason, "tests": [test["name"]], "rail": ""}
        return list(found.values()), []

    def suspected(self, options: Options, state: State, nodes: list[str]) -> list[Unresolved]:
        """Return whom nothing is proven against, but who may be somewhat slow; it counts for no verdict."""
        del options, state, nodes
        return []

    def searching(self, options: Options, state: State, nodes: list[str]) -> bool:
        """Return whether a culprit search of the stage wants more tests, bounds aside."""
        del options, state, nodes
        return False

    def tests_of(self, state: State) -> list[Test]:
        """Return the tests of this stage so far."""
        return [test for test in state["tests"] if test["stage"] in (self.labels or (self.name,))]

    def read(self, value: object, plain: Callable[[object], str]) -> Any:  # noqa: ANN401 - the stage's own form
        """Return the stage's figures out of a report that anybody may have written; None where there are none.

        Args:
            value: what stands under the name of the stage in a test.
            plain: makes printable text of anything.
        """
        del value, plain

    def section(self, figures: Any) -> Section:  # noqa: ANN401 - as read gave it
        """Return what the page shows of a test: figures are what read gave, and never None."""
        del figures
        return {"charts": [], "table": None, "note": "", "facts": []}

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return the figures of a test for Prometheus."""
        del test
        return []


class Collective(Stage[None]):
    """A stage whose tests run collectives, and say something about the nodes and the links between them."""

    infers = True

    def judge(self, options: Options, planned: Planned, entry: Entry, text: str | None) -> list[Test]:
        """Return the report's entries of a test, one per collective."""
        return judged_test(options, planned, entry, text)
