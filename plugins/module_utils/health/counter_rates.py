"""Compute rates and growth of counters within a time window.

A sample is a pair of time (seconds since 1970) and value. A counter that decreased was reset, for example by a reboot;
earlier values do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Samples = Sequence[Sequence[float]]

__all__ = ["growth", "kept", "rate"]

# Without a limit, a node that is checked every second would keep megabytes of samples.
_MOST = 400


def _since_reset(samples: Samples) -> list[Sequence[float]]:
    """Return the samples since the last reset of the counter, oldest first."""
    begin = max((place for place in range(1, len(samples)) if samples[place][1] < samples[place - 1][1]), default=0)
    return list(samples[begin:])


def rate(samples: Samples, now: float, value: float, unit_s: float) -> float:
    """Return the growth of a counter per unit of time, measured over at least one unit.

    Args:
        samples: earlier samples, oldest first.
        now: time of the current value.
        value: current value.
        unit_s: the unit in seconds.
    """
    known = _since_reset([*samples, (now, value)])
    old = [each for each in known[:-1] if each[0] <= now - unit_s]
    first = old[-1] if old else known[0]
    return (value - first[1]) / max((now - first[0]) / unit_s, 1.0)


def growth(samples: Samples, now: float, value: float, window_s: float) -> float:
    """Return the growth of a counter within a window; the value of the first sample is the baseline."""
    known = [*samples, (now, value)]
    inside = [place for place, each in enumerate(known) if each[0] >= now - window_s]
    steps = (known[place][1] - known[place - 1][1] for place in inside if place > 0)
    return sum(step for step in steps if step > 0)


def kept(
    samples: Mapping[str, Samples], new: Mapping[str, float], now: float, window_s: float
) -> dict[str, list[list[float]]]:
    """Return the old and new samples to keep for a window.

    The last sample before the window is kept as the baseline for growth.
    """
    result = {}
    for name in {*samples, *new}:
        old = [list(map(float, each)) for each in samples.get(name, ())]
        after = next((place for place, each in enumerate(old) if each[0] >= now - window_s), len(old))
        rest = old[max(after - 1, 0) :]
        if name in new:
            rest.append([now, float(new[name])])
        elif rest and rest[-1][0] < now - window_s:
            continue
        if len(rest) > _MOST:
            rest = [rest[0], *rest[-_MOST:]]
        if rest:
            result[name] = rest
    return result
