"""Check that the variables of a site are known options, and that their values have the correct type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ...module_utils.common.problems import Problem, advice, make_problem
from ..common.near_names import near_name, near_option
from .other_toolkits import foreign_variable
from .removed_options import REMOVED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_OWN = "for a custom variable, rename it or add it to preflight_allowed_variables"
_MOST_PLACES = 3
# Renamed options as pairs of old and new prefix. The first match applies.
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
# Ansible's connection variables, for suggestions on misspelled names.
CONNECTION_VARIABLES = frozenset(
    f"ansible_{name}"
    for name in (
        *("become", "become_exe", "become_flags", "become_method", "become_pass", "become_password", "become_user"),
        *(
            "connection",
            "host",
            "password",
            "pipelining",
            "port",
            "private_key_file",
            "python_interpreter",
            "remote_tmp",
        ),
        *("shell_executable", "shell_type", "ssh_args", "ssh_common_args", "ssh_executable", "ssh_extra_args"),
        *("ssh_host", "ssh_pass", "ssh_password", "ssh_pipelining", "ssh_port", "ssh_private_key_file", "ssh_retries"),
        *("ssh_timeout", "ssh_transfer_method", "ssh_user", "sudo_pass", "timeout", "user"),
    )
)
# Keys with the name of a list entry, for messages.
_NAMING = ("name", "path", "user", "profile")
# Roles that accept a list as a comma-separated string, as given with `-e`.
_TAKE_TEXT = frozenset({"preflight", "validation"})
_NAMES = {"dict": "mapping", "str": "text", "int": "integer", "float": "number", "bool": "truth value"}


class Option(NamedTuple):
    """An option: role ('' for none), and entry in meta/argument_specs.yml."""

    role: str
    spec: Mapping[str, Any]


class Setting(NamedTuple):
    """A variable as set in one place.

    Attributes:
        name: name of the variable.
        value: the raw value, with templates.
        scope: for example `group all`, `host gpu1` or `-e`.
        host: the host if it is set for a single one, else ''.
        place: file and line, or '' if unknown.
    """

    name: str
    value: Any
    scope: str
    host: str = ""
    place: str = ""


def unknown_problems(
    settings: Iterable[Setting], known: Collection[str], families: Sequence[str], allowed: Iterable[str]
) -> list[Problem]:
    """Return a problem for each variable that is probably meant as an option but is not one.

    These have the prefix of a role, a typo in the prefix, or the name of an option of another toolkit. The latter are
    advice unless they have the prefix of a role, because the site may read the variable itself.

    Args:
        settings: the variables that the site sets.
        known: names of all options, and of other variables that the collection reads.
        families: prefixes of options, without the underscore.
        allowed: custom variables of the site with similar names.
    """
    prefixes = tuple(f"{family}_" for family in families)
    names = {*known, *allowed, *CONNECTION_VARIABLES}
    problems = []
    for name, where in _by_name(settings).items():
        if name in names or former_name(name, known) is not None:
            continue
        belongs, foreign = name.startswith(prefixes), foreign_variable(name)
        near = near_option(name, known) if belongs else near_name(name, names)
        if foreign:
            ours = f"set {', '.join(foreign.ours)}" if foreign.ours else "delete it"
            problem = f"is a variable of {foreign.toolkit}, which busbar does not read{places_of(where)}"
            found = make_problem(_hosts(where), name, problem, f"{ours}; {_OWN}")
            problems.append(found if belongs else advice(found))
        elif belongs or near:
            remedy = f"did you mean {near}? Correct the name; {_OWN}" if near else f"correct the name; {_OWN}"
            problem = f"is not an option of any role{places_of(where)}"
            problems.append(make_problem(_hosts(where), name, problem, remedy))
    return problems


def former_problems(settings: Iterable[Setting], known: Collection[str]) -> list[Problem]:
    """Return the options that were renamed or removed."""
    problems = []
    for name, where in _by_name(settings).items():
        present = former_name(name, known)
        if present:
            problem = f"is now called {present}{places_of(where)}"
            problems.append(make_problem(_hosts(where), name, problem, f"set {present} instead"))
        elif present is not None:
            instead = REMOVED.get(name) or REMOVED.get(_renamed(name)) or ""
            remedy = f"delete the line{f'; {instead}' if instead else ''}"
            problems.append(make_problem(_hosts(where), name, f"was removed{places_of(where)}", remedy))
    return problems


def former_name(name: str, known: Collection[str]) -> str | None:
    """Return the current name of a renamed option, '' for a removed one, or None if it never existed."""
    if name in known:
        return None
    present = _renamed(name)
    if present in known:
        return present
    return "" if name in REMOVED or (present and not foreign_variable(name)) else None


def _renamed(name: str) -> str:
    """Return the new name of a renamed option, or ''."""
    return next((new + name[len(old) :] for old, new in FORMER_NAMES if name.startswith(old)), "")


def _by_name(settings: Iterable[Setting]) -> dict[str, list[Setting]]:
    found: dict[str, list[Setting]] = {}
    for setting in settings:
        found.setdefault(setting.name, []).append(setting)
    return found


def type_problems(settings: Iterable[Setting], options: Mapping[str, Option]) -> list[Problem]:
    """Return a problem for each value of the wrong type, and for each entry with unknown keys.

    Args:
        settings: the variables that the site sets; values with templates are skipped.
        options: the options of all roles by name.
    """
    problems = []
    for setting in settings:
        option = options.get(setting.name)
        if option:
            problems += type_problem(setting, option)
    return problems


def type_problem(setting: Setting, option: Option) -> list[Problem]:
    """Return the type problems with a value and its entries.

    Args:
        setting: the option as set by the site.
        option: its specification.
    """
    remedy = f"see the options in roles/{option.role}/README.md" if option.role else "see docs/inventory.md"
    value = setting.value
    if option.role in _TAKE_TEXT and _is_text_for_list(value, option.spec):
        value = value.split(",")
    return [
        make_problem(
            _hosts([setting]), key, problem + places_of([setting]), f"did you mean {near}? {remedy}" if near else remedy
        )
        for key, problem, near in _value_faults(setting.name, value, option.spec)
    ]


def _is_text_for_list(value: object, spec: Mapping[str, Any]) -> bool:
    """Return whether a list is set as a string, which Ansible accepts but roles would split into characters."""
    return isinstance(value, str) and spec.get("type") == "list" and not _is_template(value)


def _value_faults(key: str, value: object, spec: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield key, problem and suggested name for each error in a value."""
    kind = str(spec.get("type") or "str")
    if value is None or kind == "raw" or _is_template(value) or _is_plainly(value, kind, spec):
        return
    if _is_text_for_list(value, spec):
        yield key, f"is text (expected {_expected(spec)})", ""
        return
    outer = {name: spec[name] for name in ("type", "elements", "choices") if name in spec}
    entries = [each for each in value if not _is_template(each)] if isinstance(value, list) else value
    # Ansible converts a list or mapping to a string instead of rejecting it.
    if _errors(key, entries, outer) or (kind in {"str", "path"} and isinstance(value, (dict, list))):
        yield key, _type_fault(key, entries, spec), ""
        if not isinstance(entries, list):
            return
    for place, entry in _entries(key, entries):
        yield from _entry_faults(place, entry, spec.get("options") or {})


def _entry_faults(place: str, entry: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the problems with an entry's keys; empty `options` allow any key."""
    for name, value in entry.items() if options else ():
        if name in options:
            yield from _value_faults(f"{place}.{name}", value, options[name])
        else:
            problem = f"is not a valid key (allowed: {', '.join(options)})"
            yield f"{place}.{name}", problem, near_name(str(name), options)
    missing = [name for name, spec in options.items() if spec.get("required") and name not in entry]
    if missing:
        yield place, f"lacks {', '.join(missing)}", ""


def _entries(key: str, value: object) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the mappings within a value, each with its key, such as users[alice], or its index without a name."""
    if isinstance(value, dict):
        return [(key, value)]
    return [
        (f"{key}[{next((entry[name] for name in _NAMING if entry.get(name)), number)}]", entry)
        for number, entry in enumerate(value if isinstance(value, list) else [])
        if isinstance(entry, dict)
    ]


def _type_fault(key: str, value: object, spec: Mapping[str, Any]) -> str:
    """Return the type error of an invalid value as text."""
    found = f"is {_type_words(value)}"
    choices = ", ".join(map(str, spec.get("choices") or []))
    if not _errors(key, value, {"type": spec.get("type") or "str"}):
        wrong = [each for each in value if _is_wrong(each, spec)] if isinstance(value, list) else []
        found = f"has an entry that is {_type_words(wrong[0])}" if wrong else found
    else:
        choices = ""
    return f"must be one of: {choices}" if choices else f"{found} (expected {_expected(spec)})"


def _is_plainly(value: object, kind: str, spec: Mapping[str, Any]) -> bool:
    """Return whether a value is obviously valid, to skip Ansible's check, which takes a hundred times as long."""
    plain = {"str": str, "path": str, "int": int, "float": float, "bool": bool}.get(kind)
    return plain is not None and "choices" not in spec and isinstance(value, plain)


def _errors(key: str, value: Any, spec: Mapping[str, Any]) -> list[str]:  # noqa: ANN401 - any YAML value
    """Return Ansible's error messages for the type of a value and of a list's entries."""
    hollow = [_hollow(each) for each in value] if _is_list(value) else _hollow(value)
    return list(ArgumentSpecValidator({key: dict(spec)}).validate({key: hollow}).error_messages)


def _hollow(value: object) -> object:
    """Return an empty mapping or list instead of a filled one, and any other value unchanged.

    Ansible copies the value that it checks. A copy of an untemplated value includes all variables, which takes seconds.
    """
    return {} if isinstance(value, dict) else [] if _is_list(value) else value


def _is_wrong(value: object, spec: Mapping[str, Any]) -> bool:
    kind = spec.get("elements")
    return bool(kind) and bool(_errors("entry", value, {"type": kind}))


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _expected(spec: Mapping[str, Any]) -> str:
    """Return a type as text: 'a list of mappings'."""
    kind = str(spec.get("type") or "str")
    if kind == "list":
        elements = str(spec.get("elements") or "")
        plural = {"str": "texts"}.get(elements, f"{_NAMES.get(elements, elements)}s")
        return f"a list of {plural}" if elements else "a list"
    name = _NAMES.get(kind, kind)
    return name if kind == "str" else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _type_words(value: object) -> str:
    """Return the type of a value as text, without the value, which may be a secret."""
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


def _is_template(value: object) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def places_of(where: Sequence[Setting]) -> str:
    """Return the places that set a variable, in parentheses for a message."""
    shown = list(dict.fromkeys(f"{each.scope}{f' in {each.place}' if each.place else ''}" for each in where))
    more = f" and {len(shown) - _MOST_PLACES} more" if len(shown) > _MOST_PLACES else ""
    return f" (set for {'; '.join(shown[:_MOST_PLACES])}{more})".replace("set for -e", "given by -e")


def _hosts(where: Iterable[Setting]) -> list[str]:
    return [each.host for each in where if each.host]
