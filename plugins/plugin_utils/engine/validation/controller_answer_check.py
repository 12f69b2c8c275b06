# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Check the controller's answer to a validation, and reject it if a value is impossible.

A compromised controller could send any answer, and the provisioning host has root access to all hosts. Paths to read or
delete are therefore derived from the requested tests and not from the answer.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ..common.hostlist import fold_hosts
from ..common.printable import plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .validation_types import Entry, Planned, Result, Step

_JOB = re.compile(r"[0-9]{1,10}")
_TEXTS = ("state", "reason", "exit_code", "problem")
_MOST_TEXT = 2000
_MOST_REASONS = 1000
_MOST_SHOWN = 100


def output_path(pattern: str, job_id: str) -> str:
    """Return the path of a job's output.

    Args:
        pattern: the path passed to sbatch, with %j for the job ID.
        job_id: the job ID.

    Raises:
        ValueError: the job ID is invalid.
    """
    if not _JOB.fullmatch(job_id):
        message = f"{job_id!r} is not a job ID"
        raise ValueError(message)
    return pattern.replace("%j", job_id)


def checked_answer(options: Mapping[str, Any], step: Step, result: Mapping[str, Any], controller: str) -> Result:
    """Return a controller's checked answer; entries get ``output``, the path of the job's output on ``batch_host``.

    Args:
        options: options of the validation; `output` is the pattern of that path.
        step: the requested step, from next_step.
        result: the result of the slurm_tests module, which may be failed or unreachable.
        controller: name of the controller, for messages.

    Returns:
        tests, node_reasons and msg; if any value is impossible, no tests and a message with the value.
    """
    entries, planned = result.get("tests"), step["tests"]
    answer: Result = {"tests": [], "node_reasons": [], "msg": str(result.get("msg") or "")}
    if not entries:
        return answer
    try:
        if not isinstance(entries, list) or len(entries) != len(planned):
            _refuse("tests", "the answer", entries, f"not a list of the {len(planned)} requested test(s)")
        answer["tests"] = [_entry(options, test, entry) for test, entry in zip(planned, entries)]
    except ValueError as exc:
        answer["msg"] = f"{controller} {exc}. No output was fetched. Check whether {controller} is compromised"
    else:
        reasons = result.get("node_reasons")
        lines = reasons[:_MOST_REASONS] if isinstance(reasons, list) else []
        answer["node_reasons"] = [plain_text(line, _MOST_TEXT) for line in lines]
    return answer


def _refuse(key: str, where: str, value: object, why: str) -> NoReturn:
    shown = repr(value)
    shown = f"{shown[:_MOST_SHOWN]}…" if len(shown) > _MOST_SHOWN else shown
    message = f"returned {key} {shown} for {where}, which is {why}"
    raise ValueError(message)


def _entry(options: Mapping[str, Any], planned: Planned, given: object) -> Entry:
    """Return one entry of the answer with checked values.

    Raises:
        ValueError: a value is impossible.
    """
    name, job = planned["name"], planned["job"]
    if not isinstance(given, dict) or given.get("name") != name:
        _refuse("an entry", f"the test {name}", given, "has no entry of that name")
    entry: dict[str, Any] = {"name": name}
    for key, known in (("nodes", job["nodes"]), ("partners", job["candidates"])):
        entry[key] = _names(f"{key} of the test {name}", given.get(key), known)
    if len(entry["partners"]) > job["partners"]:
        _refuse("partners", f"the test {name}", entry["partners"], f"more than {job['partners']}")
    for key in ("left_out", "busy", "held", "held_by"):
        words = given.get(key)
        words = words if isinstance(words, dict) else {}
        _names(f"{key} of the test {name}", list(words), job["nodes"])
        entry[key] = {node: plain_text(why, _MOST_TEXT) for node, why in words.items()}
    entry |= {key: plain_text(given.get(key, ""), _MOST_TEXT) for key in _TEXTS}
    seconds = given.get("seconds")
    sound = isinstance(seconds, (int, float)) and math.isfinite(seconds)
    entry["seconds"] = float(seconds) if sound else 0.0  # type: ignore[arg-type]
    members = entry["nodes"] + entry["partners"]
    job_id, host = given.get("job_id"), given.get("batch_host")
    if host and (not isinstance(host, str) or host not in members):
        _refuse("batch_host", f"the test {name}", host, f"not one of its nodes ({fold_hosts(members)})")
    if job_id and (not isinstance(job_id, str) or not _JOB.fullmatch(job_id)):
        _refuse("job_id", f"the test {name}", job_id, "not a job ID")
    entry |= {"job_id": job_id or "", "batch_host": host or ""}
    entry["output"] = output_path(str(options["output"]), entry["job_id"]) if job_id and host else ""
    return cast("Entry", entry)


def _names(where: str, given: object, known: list[str]) -> list[str]:
    """Return node names after checking that each is known and listed once.

    Raises:
        ValueError: a name is unknown or listed twice.
    """
    if not isinstance(given, list):
        _refuse("a list", where, given, "none")
    names: list[Any] = given
    strange = next((name for name in names if not isinstance(name, str) or name not in known), None)
    if strange is not None or len(names) != len(set(names)):
        _refuse("a node", where, strange or names, f"not one of {fold_hosts(known) or 'none'}")
    return names
