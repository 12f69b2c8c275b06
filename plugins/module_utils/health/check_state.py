"""Read and write the state that the health check of a node keeps between runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from .counter_rates import kept
from .finding import OFF, Finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .finding import Answer

__all__ = ["State", "read_state", "reset_by_admin", "with_answers", "write_state"]


class State(NamedTuple):
    """State between runs.

    Attributes:
        boot: boot id; events of an earlier boot are discarded.
        samples: counters by name, each a list of time and value.
        events: findings that are kept until a reboot or until an administrator resumes the node.
        log_since: time up to which the kernel log was read, seconds since 1970.
        passes: number of consecutive checks without a draining finding.
        last_findings: findings of the last check, problem by key, for the history.
        rebooted: whether the node has rebooted since the last check.
    """

    boot: str = ""
    samples: Mapping[str, Sequence[Sequence[float]]] = {}
    events: Sequence[Finding] = ()
    log_since: float = 0.0
    passes: int = 0
    last_findings: Mapping[str, str] = {}
    rebooted: bool = False


def read_state(path: Path, boot: str) -> State:
    """Return the state of this boot; empty if it is missing or unreadable."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        samples = {
            str(name): [[float(at), float(value)] for at, value in each] for name, each in found["samples"].items()
        }
        events = [Finding(*map(str, each)) for each in found["events"]]
        # "standing" is the name of the key in files of earlier releases.
        last = found.get("last_findings", found.get("standing", {}))
        last_findings = {str(key): str(problem) for key, problem in last.items()}
        passes = int(found["passes"])
        state = State(str(found["boot"]), samples, events, float(found["log_since"]), passes, last_findings)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return State(boot)
    # A reboot resets the hardware's counters and the number of link flaps.
    if state.boot == boot:
        return state
    return State(boot, passes=state.passes, last_findings=state.last_findings, rebooted=bool(state.boot))


def with_answers(state: State, answers: Mapping[str, Answer], now: float, window_s: float) -> State:
    """Return the state after a run.

    Args:
        state: state before the run.
        answers: results of the checks by name.
        now: seconds since 1970.
        window_s: longest window of a counter, in seconds.
    """
    new = {name: value for answer in answers.values() for name, value in answer.samples.items()}
    events = {(each.check, each.value): each for each in state.events}
    for answer in answers.values():
        for each in answer.events:
            key = each.check, each.value
            if key not in events or each.is_state:
                events[key] = each
    events = {key: each for key, each in events.items() if each.severity != OFF}
    kernel = answers.get("kernel")
    # If reading the log failed, the next run reads it from the same position.
    since = now if kernel is not None and not kernel.unknown else state.log_since
    return state._replace(
        samples=kept(state.samples, new, now, window_s), events=list(events.values()), log_since=since
    )


def reset_by_admin(state: State) -> State:
    """Return the state with events and old samples removed, for a node that an administrator drained or resumed."""
    return state._replace(events=(), samples={name: each[-1:] for name, each in state.samples.items() if each})


def write_state(path: Path, state: State) -> None:
    """Write the state atomically.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(state._asdict()), encoding="utf-8")
    temporary.replace(path)
