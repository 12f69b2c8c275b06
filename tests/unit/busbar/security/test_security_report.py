"""What lynis finds, what explains it, and how both are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.lynis import parse_report
from busbar.errors import UsageError
from busbar.security.report import (
    FIXES,
    SHIPPED,
    Explanation,
    as_data,
    as_markdown,
    as_text,
    read_exceptions,
    rows_of,
    with_unfixed,
)

if TYPE_CHECKING:
    from pathlib import Path

# Lines of a report of lynis 3.1.4 on Debian 13.
REPORT = """\
lynis_version=3.1.4
warning[]=FIRE-4512|iptables module(s) loaded, but no rules active|-|-|
suggestion[]=SSH-7408|Consider hardening SSH configuration|MaxSessions (set 10 to 2)|-|
details[]=SSH-7408|sshd|desc:sshd option MaxSessions;field:MaxSessions;prefval:2;value:10;|
suggestion[]=BANN-7126|Add a legal banner to /etc/issue, to warn unauthorized users|-|-|
details[]=KRNL-6000|sysctl|desc:No description;field:kernel.core_uses_pid;prefval:1;value:0;|
details[]=KRNL-6000|sysctl|desc:Log all packages;field:net.ipv4.conf.all.log_martians;prefval:1;value:0;|
suggestion[]=KRNL-6000|One or more sysctl values differ from the scan profile and could be tweaked||Change sysctl value|
exception_event[]=PKGS-7410|Could not find any kernel packages via package manager|
lynis_tests_done=246
hardening_index=64
finish=true
"""


def _found(level: str, test: str, text: str = "x", detail: str = "") -> dict[str, str]:
    return {"level": level, "test": test, "text": text, "detail": detail}


def _answer(*findings: dict[str, str], index: int = 64) -> dict[str, Any]:
    return {"version": "3.1.4", "index": index, "tests": 246, "findings": list(findings)}


def test_each_finding_of_a_report_is_read() -> None:
    found = parse_report(REPORT)
    assert (found["version"], found["index"], found["tests"]) == ("3.1.4", 64, 246)
    assert [(one["level"], one["test"], one["detail"]) for one in found["findings"]] == [
        ("warning", "FIRE-4512", ""),
        ("suggestion", "SSH-7408", "MaxSessions (set 10 to 2)"),
        ("suggestion", "BANN-7126", ""),
        ("suggestion", "KRNL-6000", "kernel.core_uses_pid is 0, the profile has 1"),
        ("suggestion", "KRNL-6000", "net.ipv4.conf.all.log_martians is 0, the profile has 1"),
        ("exception", "PKGS-7410", ""),
    ]


@pytest.mark.parametrize("line", ["finish=true\n", "hardening_index=64\n", "lynis_version=3.1.4\n"])
def test_a_report_of_an_audit_that_did_not_end_is_none(line: str) -> None:
    with pytest.raises(ValueError, match="the audit did not end"):
        parse_report(REPORT.replace(line, ""))
    with pytest.raises(ValueError, match="the audit did not end"):
        parse_report("")


def test_equal_findings_are_one_line_and_what_is_explained_comes_last() -> None:
    answers = {
        f"gpu{number}": _answer(_found("suggestion", "A-1"), _found("suggestion", "B-1")) for number in (1, 2, 3)
    }
    answers["ctl"] = _answer(_found("suggestion", "B-1"), _found("warning", "C-1"), index=70)
    rows = rows_of(answers, [Explanation("B-*", "*", "since")])
    assert [(row.test, row.hosts, row.reason) for row in rows] == [
        ("C-1", ("ctl",), ""),
        ("A-1", ("gpu1", "gpu2", "gpu3"), ""),
        ("B-1", ("gpu1", "gpu2", "gpu3", "ctl"), "since"),
    ]
    text = as_text(answers, rows)
    assert text.splitlines()[:2] == ["WARNING ctl: C-1: x", "SUGGESTION gpu[1-3]: A-1: x"]
    assert text.endswith("hardening index: gpu[1-3] 64, ctl 70; 2 to look at, 1 explained")
    assert as_data(answers, rows)["hosts"]["ctl"] == {"version": "3.1.4", "index": 70, "tests": 246}


def test_an_explanation_of_one_detail_explains_no_other() -> None:
    answers = {
        "ctl": _answer(_found("suggestion", "S", detail="Port (set 22)"), _found("suggestion", "S", detail="X11"))
    }
    assert [row.reason for row in rows_of(answers, [Explanation("S", "Port*", "since")])] == ["", "since"]


def test_the_page_has_what_is_explained_as_well_and_no_foreign_mark_up() -> None:
    answers = {"ctl": _answer(_found("warning", "A", "<script>|"), _found("suggestion", "B"))}
    page = as_markdown(answers, rows_of(answers, [Explanation("B", "*", "since")]), "2026-11-25")
    assert "| warning | A | &lt;script>\\| | ctl |" in page
    assert "| suggestion | B | x | ctl | since |" in page
    assert "## To look at\n\nNothing." in as_markdown({}, [], "2026-11-25")


def test_each_shipped_explanation_has_a_reason_and_stands_once() -> None:
    shipped = read_exceptions(SHIPPED)
    assert len({(one.test, one.detail) for one in shipped}) == len(shipped)
    assert all(one.reason.endswith(".") for one in shipped)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: b", "is no list"),
        ("- {test: A}", "entry 1 is not test, reason"),
        ("- {test: A, reason: ''}", "entry 1"),
        ("- {test: A, reason: b, host: ctl}", "entry 1"),
        ("- {test: A, reason: b}\n- {test: 1, reason: b}", "entry 2"),
        ("- {", "expected"),
    ],
)
def test_exceptions_that_cannot_be_read_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "exceptions.yml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_exceptions(path)
    with pytest.raises(UsageError, match="No such file"):
        read_exceptions(tmp_path / "missing.yml")


def test_packages_without_a_security_fix_are_warned_about_and_can_be_explained() -> None:
    debian = {"id": "debian", "version": "12", "name": "Debian 12"}
    answer = {"version": "3.0.8", "index": 60, "tests": 1, "findings": [], "system": debian}
    old = with_unfixed({**answer, "versions": {"slurm": "22.05.8-4+deb12u3", "munge": "0.5.15-2+deb12u1"}})
    (row,) = rows_of({"ctl": old, "gpu1": old}, [])
    assert (row.level, row.test, row.hosts, row.reason) == ("warning", FIXES, ("ctl", "gpu1"), "")
    assert "22.05.8-4+deb12u3" in row.text
    assert "docs/upgrade.md" in row.detail
    (explained,) = rows_of({"ctl": old}, [Explanation(FIXES, "*", "moves to Debian 13 in May")])
    assert explained.reason == "moves to Debian 13 in May"
    assert with_unfixed(answer)["findings"] == []
