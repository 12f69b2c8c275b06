# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a validation report as JUnit XML that is valid under the schema of Jenkins' xunit plugin (junit-10.xsd)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from .report_reader import everyone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .report_types import ReadReport


def junit(report: ReadReport) -> str:
    """Return the report as XML: one case per test, with a failure for FAIL and an error for INCONCLUSIVE.

    A left-out node is a case with an error. If no case has the verdict of the validation, a case is added, so that the
    file shows success only if the validation passed.
    """
    suite = TestSuite(f"busbar validation of {report['cluster']}")
    suite.timestamp = report["started"].removesuffix("Z")
    cases = list(_cases(report))
    if report["verdict"] != "PASS" and not any(case.result for case in cases):
        cases.append(_case("validation", "verdict", report["verdict"], report["reason"]))
    suite.add_testcases(cases)
    suite.add_property("backend", report["backend"])
    suite.add_property("verdict", report["verdict"])
    suite.update_statistics()
    whole = JUnitXml()
    whole.add_testsuite(suite)
    # Jenkins' schema (junit-10.xsd) rejects the attribute "skipped", which update_statistics() would add.
    whole.tests, whole.failures, whole.errors, whole.time = suite.tests, suite.failures, suite.errors, suite.time
    text = whole.tostring()
    return text.decode() if isinstance(text, bytes) else str(text)


def _cases(report: ReadReport) -> Iterator[TestCase]:
    for test in report["tests"]:
        output = [f"nodes: {', '.join(everyone(test)) or 'none'}", *test["findings"], *test["tail"]]
        # If the validation passed, each failed test passed when it was repeated, so it is not reported as a failure.
        verdict = "PASS" if report["verdict"] == "PASS" else test["verdict"]
        case = _case(test["name"], test["stage"], verdict, test["reason"], output)
        case.time = round(test["job"]["seconds"] or 0.0, 3)
        case.system_out = "\n".join([test["reason"], *output])
        yield case
    for node, reason in sorted(report["left_out"].items()):
        yield _case(node, "left_out", "INCONCLUSIVE", f"not tested: {reason}")


def _case(name: str, stage: str, verdict: str, reason: str, output: list[str] | None = None) -> TestCase:
    case = TestCase(name, classname=f"busbar.validation.{stage}", time=0.0)
    kind = {"FAIL": Failure, "INCONCLUSIVE": Error}.get(verdict)
    if kind is not None:
        result = kind(reason, verdict)
        result.text = "\n".join([reason, *(output or [])])
        case.result = [result]
    return case
