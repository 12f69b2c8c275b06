"""Executes modules once more, each in a process of its own, and says which one answers otherwise than before."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

__all__ = ["MAIN", "digest", "drift", "main"]

MAIN = "ansible_collections.busbar.cluster.plugins.module_utils.common.replay"
# What is never the same twice, or is not told in check mode, and decides nothing.
_FLEETING = frozenset(
    {"start", "end", "delta", "elapsed", "diff", "invocation", "warnings", "deprecations", "executed_commands"}
)
# Of a unit; the rest of its status is memory, CPU time and the like.
_UNIT = ("LoadState", "ActiveState", "UnitFileState", "FragmentPath", "DropInPaths", "NeedDaemonReload")
_PART = 1 << 16


def digest(output: str) -> str:
    """Return what identifies the answer of a module, by what it printed; '' when it printed no answer."""
    found = _parsed(output)
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest() if found else ""


def drift(executions: list[dict[str, Any]], limit_s: float) -> str:
    """Return in what the first execution differs from the one before, '' when none does.

    Args:
        executions: each with task, module, profile, arguments, environment, whether it is dry, and digest.
        limit_s: seconds that each may take.
    """
    for execution in executions:
        output = _output(execution, limit_s)
        if output is None:
            return f"{execution['task']}: no answer in {limit_s:g} s"
        if digest(output) != execution["digest"]:
            return f"{execution['task']}: {_told(output, execution)}"
    return ""


def _parsed(output: str) -> dict[str, Any]:
    try:
        found = json.loads(output, object_hook=_unread)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    kept = {key: value for key, value in found.items() if key not in _FLEETING}
    if isinstance(status := kept.get("status"), dict) and "ActiveState" in status:
        kept["status"] = {key: status[key] for key in _UNIT if key in status}
    if "cmd" in kept and not kept.get("failed"):
        # "Would not run" in check mode, where it is "Did not run" otherwise.
        kept.pop("msg", None)
    if isinstance(facts := kept.get("ansible_facts"), dict):
        # Of some facts Ansible makes sets.
        kept["ansible_facts"] = {
            key: sorted(map(str, each)) if isinstance(each, list) else each for key, each in facts.items()
        }
    return kept


def _unread(found: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of a file without the time at which somebody read it."""
    return {key: value for key, value in found.items() if key != "atime"}


def _told(output: str, execution: dict[str, Any]) -> str:
    """Return how an answer differs, for people; of a task with secrets not in its own words."""
    found = _parsed(output)
    if not found:
        return "no answer"
    if found.get("failed"):
        secret = execution["arguments"].get("_ansible_no_log")
        return "fails" if secret else str(found.get("msg") or "fails")
    if found.get("skipped"):
        return "cannot be looked at without doing it"
    return (
        "would change something"
        if execution["dry"] and found.get("changed")
        else "answers otherwise than in the last full run"
    )


def _output(execution: dict[str, Any], limit_s: float) -> str | None:
    """Return what a module prints, None when it takes too long."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        _become(execution, writer)
    os.close(writer)
    parts, ends, ended = [], time.monotonic() + limit_s, False
    while not ended and (left := ends - time.monotonic()) > 0:
        if select.select([reader], [], [], left)[0]:
            part = os.read(reader, _PART)
            parts.append(part)
            ended = not part
    os.close(reader)
    if not ended:
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return b"".join(parts).decode("utf-8", "replace") if ended else None


def _become(execution: dict[str, Any], writer: int) -> None:
    """Turn this process into one that Ansible would have started for the module; never returns."""
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, descriptor in enumerate((nothing, writer, nothing)):
            os.dup2(descriptor, number)
        os.environ.update(dict(word.split("=", 1) for word in execution["environment"]))
        arguments = execution["arguments"] | {"_ansible_check_mode": execution["dry"]}
        from ansible.module_utils._internal._ansiballz import _loader  # noqa: PLC0415 - there is none on a host

        _loader.run_module(
            json_params=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode(),
            profile=execution["profile"],
            module_fqn=execution["module"],
            modlib_path=sys.path[0],
            extensions={},
        )
    except SystemExit:
        pass
    finally:
        sys.stdout.flush()
        os._exit(0)


def main() -> None:
    """Take executions from standard input, and print in what the first differs."""
    # Loaded here once, for all children.
    import ansible.module_utils.basic  # noqa: F401, PLC0415 - there is none on a host

    asked = json.load(sys.stdin)
    json.dump(drift(asked["executions"], asked["limit_s"]), sys.stdout)
