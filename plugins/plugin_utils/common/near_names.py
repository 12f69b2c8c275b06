"""Find the known name that is most similar to a misspelled one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Minimum length for two typos, because these turn a short name into another valid one: tls and ssh, mode and nodes.
_LONG_NAME, _LONG_WORD = 8, 6
_LONGEST_ABBREVIATION = 3


def near_name(name: str, known: Iterable[str]) -> str:
    """Return the known name within one or two typos, or an empty string."""
    most = 1 if len(name) < _LONG_NAME else 2
    close = [(errors, other) for other in known if 0 < (errors := _errors(name, other, most)) <= most]
    return min(close)[1] if close else ""


def near_option(name: str, known: Iterable[str]) -> str:
    """Return the known name within one or two typos, with reordered words, or with one abbreviated word; else ''."""
    names = sorted(known)
    words = name.split("_")
    return near_name(name, names) or next((other for other in names if _has_words(other.split("_"), words)), "")


def _errors(name: str, other: str, most: int) -> int:
    """Return the number of typos between two names, or more than `most` for dissimilar names."""
    # Most pairs differ in too many letters, which is faster to detect than the edit distance.
    if abs(len(name) - len(other)) > most or (_letters(name) ^ _letters(other)).bit_count() > 2 * most:
        return most + 1
    words, others = name.split("_"), other.split("_")
    if len(words) != len(others):
        return _steps(name, other)
    pairs = [(word, each, _steps(word, each)) for word, each in zip(words, others, strict=True) if word != each]
    if any(steps > 1 and min(len(word), len(each)) < _LONG_WORD for word, each, steps in pairs):
        return most + 1
    return sum(steps for _word, _each, steps in pairs)


@cache
def _letters(name: str) -> int:
    """Return the set of letters in a name, as a bit mask."""
    return sum({1 << ord(letter) % 64 for letter in name})


def _steps(first: str, second: str) -> int:
    """Return the edit distance: the number of letters to add, remove, replace or swap."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        above, before, row = before, row, [i]
        for j, other in enumerate(second, 1):
            steps = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                steps = min(steps, above[j - 2] + 1)
            row.append(steps)
    return row[-1]


def _has_words(known: list[str], words: list[str]) -> bool:
    if sorted(known) == sorted(words):
        return True
    differing = [pair for pair in zip(known, words, strict=False) if pair[0] != pair[1]]
    return len(known) == len(words) and len(differing) == 1 and _abbreviates(*sorted(differing[0], key=len))


def _abbreviates(short: str, long: str) -> bool:
    """Return whether a word such as db abbreviates a longer one: same first letter, other letters in the same order."""
    rest = iter(long[1:])
    return 1 < len(short) <= _LONGEST_ABBREVIATION and short[0] == long[0] and all(each in rest for each in short[1:])
