"""What lynis finds on a host, from the report that it leaves as lines of `key=value`.

The form is that of lynis 3: https://cisofy.com/documentation/lynis/#report-file, and of its functions ReportWarning,
ReportSuggestion and ReportException (include/functions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EXCEPTION", "LEVELS", "SUGGESTION", "WARNING", "parse_report"]

WARNING, SUGGESTION, EXCEPTION = "warning", "suggestion", "exception"
LEVELS = (WARNING, SUGGESTION, EXCEPTION)
_KEYS = {"warning[]": WARNING, "suggestion[]": SUGGESTION, "exception_event[]": EXCEPTION}
_NOTHING = ("", "-")


def _differing(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """What differs from lynis's profile, by test: one suggestion stands for all of them."""
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        test, _, told = [*value.split("|"), "", ""][:3]
        fields = dict(part.partition(":")[::2] for part in told.split(";"))
        if key == "details[]" and {"field", "value", "prefval"} <= set(fields):
            said = f"{fields['field']} is {fields['value']}, the profile has {fields['prefval']}"
            found.setdefault(test, []).append(said)
    return found


def _findings(pairs: list[tuple[str, str]]) -> Iterator[dict[str, str]]:
    differing = _differing(pairs)
    for key, value in pairs:
        if key not in _KEYS:
            continue
        test, text, detail = [*value.split("|"), "", ""][:3]
        own = "" if detail in _NOTHING else detail
        for said in [own] if own else differing.get(test, [own]):
            yield {"level": _KEYS[key], "test": test, "text": text, "detail": said}


def parse_report(text: str) -> dict[str, Any]:
    """Return `version`, `index` (0 to 100), `tests` and `findings`, each with `level`, `test`, `text` and `detail`.

    Raises:
        ValueError: it is no report, or of an audit that did not end.
    """
    pairs = [(key, value) for key, found, value in (line.partition("=") for line in text.splitlines()) if found]
    single = dict(pairs)
    missing = [key for key in ("lynis_version", "hardening_index", "lynis_tests_done", "finish") if not single.get(key)]
    if missing:
        message = f"the report of lynis has no {missing[0]}: the audit did not end"
        raise ValueError(message)
    return {
        "version": single["lynis_version"],
        "index": int(single["hardening_index"]),
        "tests": int(single["lynis_tests_done"]),
        "findings": list(_findings(pairs)),
    }
