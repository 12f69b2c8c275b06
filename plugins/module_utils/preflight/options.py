"""Are the options that a site sets those of the roles, and are their values of the right type?"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["FORMER_NAMES", "Option", "Setting", "former_problems", "type_problem", "type_problems", "unknown_problems"]

_ALLOWED = "preflight_allowed_variables"
_MOST_PLACES = 3
# Options of an earlier busbar: what their name began with, and what it begins with now; the first that fits counts.
FORMER_NAMES = (
    ("nccl_validation_time_limit", "validation_test_time_limit"),
    ("nccl_validation_total_limit", "validation_time_limit"),
    ("nccl_validation_", "validation_"),
    ("slurm_health_check_", "node_health_"),
    ("slurm_health_check", "node_health_check"),
    ("tls_own_files", "tls_custom_certificate"),
    ("tls_reached_by", "tls_subject_alt_names"),
    ("alertmanager_own_routes", "alertmanager_extra_routes"),
    ("node_exporter_facts", "node_exporter_extra_metrics"),
)
_FORMER = tuple(old for old, _new in FORMER_NAMES)
_CLOSE = 0.6
_NAMES = {"dict": "mapping", "str": "text", "int": "integer", "float": "number", "bool": "truth value"}


class Option(NamedTuple):
    """An option of a role: which one, and what its meta/argument_specs.yml says of it."""

    role: str
    spec: Mapping[str, Any]


class Setting(NamedTuple):
    """A variable as it is set in one place.

    Attributes:
        name: of the variable.
        value: as it is written, templates not worked out.
        scope: of whom, such as `group all`, `host gpu1` or `-e`.
        host: the host when it is set for one alone, else ''.
        place: file and line, '' when unknown.
    """

    name: str
    value: Any
    scope: str
    host: str = ""
    place: str = ""


def unknown_problems(
    settings: Iterable[Setting], known: Iterable[str], families: Sequence[str], allowed: Iterable[str]
) -> list[Problem]:
    """Return the variables that begin like an option of a role and are none.

    Args:
        settings: what the site sets.
        known: names of all options and of the other variables that the collection reads.
        families: what an option's name begins with, without the underscore.
        allowed: the site's own variables that begin alike.
    """
    names, prefixes = set(known), tuple(f"{family}_" for family in families)
    names.update(allowed)
    found: dict[str, list[Setting]] = {}
    for setting in settings:
        is_former = setting.name.startswith(_FORMER)  # former_problems() tells of it
        if setting.name.startswith(prefixes) and setting.name not in names and not is_former:
            found.setdefault(setting.name, []).append(setting)
    problems = []
    for name, where in found.items():
        near = difflib.get_close_matches(name, names, n=1, cutoff=_CLOSE)
        remedy = f"did you mean {near[0]}? " if near else ""
        remedy += f"Correct the name; a variable of your own: rename it, or name it in {_ALLOWED}"
        problem = f"is no option of any role{_places(where)}"
        problems.append(make_problem(_hosts(where), name, problem, remedy))
    return problems


def former_problems(settings: Iterable[Setting]) -> list[Problem]:
    """Return the options that are set by a name that they had in an earlier busbar."""
    found: dict[str, list[Setting]] = {}
    for setting in settings:
        if setting.name.startswith(_FORMER):
            found.setdefault(setting.name, []).append(setting)
    return [
        make_problem(
            _hosts(where),
            name,
            f"is now called {present_name(name)}{_places(where)}",
            f"set {present_name(name)} instead",
        )
        for name, where in found.items()
    ]


def present_name(name: str) -> str:
    """Return the name of an option that had another in an earlier busbar."""
    return next((new + name[len(old) :] for old, new in FORMER_NAMES if name.startswith(old)), name)


def type_problems(settings: Iterable[Setting], options: Mapping[str, Option]) -> list[Problem]:
    """Return the options whose value is of another type than their role takes; values with templates are passed over.

    Args:
        settings: what the site sets.
        options: the options of all roles by name.
    """
    problems = []
    for setting in settings:
        option = options.get(setting.name)
        if option and not _has_template(setting.value):
            problems += type_problem(setting, option)
    return problems


def type_problem(setting: Setting, option: Option) -> list[Problem]:
    """Return what is wrong with the type of a value, at most one problem.

    Args:
        setting: the option as it is set.
        option: what its role says of it.
    """
    kind = str(option.spec.get("type") or "str")
    if setting.value is None or kind == "raw":
        return []
    outer = {key: option.spec[key] for key in ("type", "elements", "choices") if key in option.spec}
    if not _errors(setting, outer):
        return []
    found = f"is {_type_words(setting.value)}"
    choices = ", ".join(map(str, option.spec.get("choices") or []))
    if not _errors(setting, {"type": kind}):
        wrong = [each for each in setting.value if _is_wrong(each, option.spec)] if _is_list(setting.value) else []
        found = f"has an entry that is {_type_words(wrong[0])}" if wrong else found
    else:
        choices = ""
    problem = f"must be one of: {choices}" if choices else f"{found}, and must be {_expected(option.spec)}"
    remedy = f"correct it as roles/{option.role}/README.md says"
    return [make_problem(_hosts([setting]), setting.name, problem + _places([setting]), remedy)]


def _errors(setting: Setting, spec: Mapping[str, Any]) -> list[str]:
    """Return what Ansible says against the type of a value, and of the entries of a list."""
    value = [_hollow(each) for each in setting.value] if _is_list(setting.value) else _hollow(setting.value)
    return list(ArgumentSpecValidator({setting.name: dict(spec)}).validate({setting.name: value}).error_messages)


def _hollow(value: object) -> object:
    """Return a mapping or list without what is in it, anything else as it is.

    Ansible copies the value that it checks, and a copy of one that it has not worked out takes all variables along:
    seconds, for a list of a few users.
    """
    return {} if isinstance(value, dict) else [] if _is_list(value) else value


def _is_wrong(value: object, spec: Mapping[str, Any]) -> bool:
    kind = spec.get("elements")
    return bool(kind) and bool(_errors(Setting("entry", value, ""), {"type": kind}))


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _expected(spec: Mapping[str, Any]) -> str:
    """Return a type in words: 'a list of mappings'."""
    kind = str(spec.get("type") or "str")
    if kind == "list":
        elements = str(spec.get("elements") or "")
        plural = {"str": "texts"}.get(elements, f"{_NAMES.get(elements, elements)}s")
        return f"a list of {plural}" if elements else "a list"
    name = _NAMES.get(kind, kind)
    return name if kind == "str" else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _type_words(value: object) -> str:
    """Return the type of a value in words; never the value, which may be a secret."""
    for kinds, words in (
        (bool, "a truth value"),
        (int, "an integer"),
        (float, "a number"),
        (str, "text"),
        (dict, "a mapping"),
        (list, "a list"),
    ):
        if isinstance(value, kinds):
            return words
    return "nothing" if value is None else f"a {type(value).__name__}"


def _has_template(value: object) -> bool:
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, dict):
        return any(_has_template(each) for pair in value.items() for each in pair)
    return any(map(_has_template, value)) if isinstance(value, list) else False


def _places(where: Sequence[Setting]) -> str:
    """Return where a variable is set, for the end of a sentence."""
    shown = list(dict.fromkeys(f"{each.scope}{f' in {each.place}' if each.place else ''}" for each in where))
    more = f" and {len(shown) - _MOST_PLACES} more" if len(shown) > _MOST_PLACES else ""
    return f" (set for {'; '.join(shown[:_MOST_PLACES])}{more})".replace("set for -e", "given by -e")


def _hosts(where: Iterable[Setting]) -> list[str]:
    return [each.host for each in where if each.host]
