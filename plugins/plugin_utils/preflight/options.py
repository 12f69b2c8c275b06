"""Are the options that a site sets those of the roles, and are their values of the right type?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ...module_utils.common.problems import Problem, advice, make_problem
from ..common.near_names import near_name, near_option
from .other_toolkits import foreign_variable
from .removed import REMOVED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

__all__ = [
    "FORMER_NAMES",
    "Option",
    "Setting",
    "former_problems",
    "places_of",
    "type_problem",
    "type_problems",
    "unknown_problems",
]

_OWN = "a variable of your own: rename it, or name it in preflight_allowed_variables"
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
# Variables by which Ansible reaches a host, for a suggestion where one is misspelt.
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
# Keys by which entries of lists are known.
_NAMING = ("name", "path", "user", "profile")
# Roles that take lists as text with commas, as `-e` gives them.
_TAKE_TEXT = frozenset({"preflight", "validation"})
_NAMES = {"dict": "mapping", "str": "text", "int": "integer", "float": "number", "bool": "truth value"}


class Option(NamedTuple):
    """An option of a role: which one, '' for none, and what its meta/argument_specs.yml says of it."""

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
    settings: Iterable[Setting], known: Collection[str], families: Sequence[str], allowed: Iterable[str]
) -> list[Problem]:
    """Return the variables that are not options of any role although their names say so.

    Those are names that begin with the name of a role, names with a typing error in that part, and names of another
    toolkit. The last are advice where they do not begin with the name of a role: a site may have such a variable.

    Args:
        settings: what the site sets.
        known: names of all options and of the other variables that the collection reads.
        families: what an option's name begins with, without the underscore.
        allowed: the site's own variables that resemble options.
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
    """Return the options of an earlier busbar that have another name now, or were removed."""
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
    """Return the present name of an option of an earlier busbar, '' when it was removed, None when it never was one."""
    if name in known:
        return None
    present = _renamed(name)
    if present in known:
        return present
    return "" if name in REMOVED or (present and not foreign_variable(name)) else None


def _renamed(name: str) -> str:
    """Return the name of an option that had another in an earlier busbar."""
    return next((new + name[len(old) :] for old, new in FORMER_NAMES if name.startswith(old)), "")


def _by_name(settings: Iterable[Setting]) -> dict[str, list[Setting]]:
    found: dict[str, list[Setting]] = {}
    for setting in settings:
        found.setdefault(setting.name, []).append(setting)
    return found


def type_problems(settings: Iterable[Setting], options: Mapping[str, Option]) -> list[Problem]:
    """Return the options whose value is of another type than their role takes, and entries with wrong keys.

    Args:
        settings: what the site sets; values with templates are passed over.
        options: the options of all roles by name.
    """
    problems = []
    for setting in settings:
        option = options.get(setting.name)
        if option:
            problems += type_problem(setting, option)
    return problems


def type_problem(setting: Setting, option: Option) -> list[Problem]:
    """Return what is wrong with the type of a value, and with the entries within it.

    Args:
        setting: the option as it is set.
        option: what its role says of it.
    """
    remedy = f"see the options in roles/{option.role}/README.md" if option.role else "see docs/inventory.md"
    return [
        make_problem(
            _hosts([setting]), key, problem + places_of([setting]), f"did you mean {near}? {remedy}" if near else remedy
        )
        for key, problem, near in _text_for_list(setting, option)
        or _value_faults(setting.name, setting.value, option.spec)
    ]


def _text_for_list(setting: Setting, option: Option) -> list[tuple[str, str, str]]:
    """Return the fault of a list that is given as text: Ansible takes it, and roles read its letters."""
    value, spec = setting.value, option.spec
    if not isinstance(value, str) or _is_template(value) or spec.get("type") != "list":
        return []
    return [] if option.role in _TAKE_TEXT else [(setting.name, f"is text, and must be {_expected(spec)}", "")]


def _value_faults(key: str, value: object, spec: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with a value: where, what, and the name that a misspelt one stands for."""
    kind = str(spec.get("type") or "str")
    if value is None or kind == "raw" or _is_template(value) or _is_plainly(value, kind, spec):
        return
    outer = {name: spec[name] for name in ("type", "elements", "choices") if name in spec}
    entries = [each for each in value if not _is_template(each)] if isinstance(value, list) else value
    # Ansible takes the text of a list or mapping for text.
    if _errors(key, entries, outer) or (kind in {"str", "path"} and isinstance(value, (dict, list))):
        yield key, _type_fault(key, entries, spec), ""
        if not isinstance(entries, list):
            return
    for place, entry in _entries(key, entries):
        yield from _entry_faults(place, entry, spec.get("options") or {})


def _entry_faults(place: str, entry: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with the keys of an entry; `options` says which it may have, none when it may have any."""
    for name, value in entry.items() if options else ():
        if name in options:
            yield from _value_faults(f"{place}.{name}", value, options[name])
        else:
            problem = f"is not a key of such an entry, which may have {', '.join(options)}"
            yield f"{place}.{name}", problem, near_name(str(name), options)
    missing = [name for name, spec in options.items() if spec.get("required") and name not in entry]
    if missing:
        yield place, f"lacks {', '.join(missing)}", ""


def _entries(key: str, value: object) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the mappings within a value, each with its place: by name where entries have one."""
    if isinstance(value, dict):
        return [(key, value)]
    return [
        (f"{key}[{next((entry[name] for name in _NAMING if entry.get(name)), number)}]", entry)
        for number, entry in enumerate(value if isinstance(value, list) else [])
        if isinstance(entry, dict)
    ]


def _type_fault(key: str, value: object, spec: Mapping[str, Any]) -> str:
    """Return what is wrong with the type of a value that is."""
    found = f"is {_type_words(value)}"
    choices = ", ".join(map(str, spec.get("choices") or []))
    if not _errors(key, value, {"type": spec.get("type") or "str"}):
        wrong = [each for each in value if _is_wrong(each, spec)] if isinstance(value, list) else []
        found = f"has an entry that is {_type_words(wrong[0])}" if wrong else found
    else:
        choices = ""
    return f"must be one of: {choices}" if choices else f"{found}, and must be {_expected(spec)}"


def _is_plainly(value: object, kind: str, spec: Mapping[str, Any]) -> bool:
    """Whether a value is right at first sight, as most are: Ansible's own check takes a hundred times as long."""
    plain = {"str": str, "path": str, "int": int, "float": float, "bool": bool}.get(kind)
    return plain is not None and "choices" not in spec and isinstance(value, plain)


def _errors(key: str, value: Any, spec: Mapping[str, Any]) -> list[str]:  # noqa: ANN401 - as a site writes it
    """Return what Ansible says against the type of a value, and of the entries of a list."""
    hollow = [_hollow(each) for each in value] if _is_list(value) else _hollow(value)
    return list(ArgumentSpecValidator({key: dict(spec)}).validate({key: hollow}).error_messages)


def _hollow(value: object) -> object:
    """Return a mapping or list without what is in it, anything else as it is.

    Ansible copies the value that it checks, and a copy of one that it has not worked out takes all variables along:
    seconds, for a list of a few users.
    """
    return {} if isinstance(value, dict) else [] if _is_list(value) else value


def _is_wrong(value: object, spec: Mapping[str, Any]) -> bool:
    kind = spec.get("elements")
    return bool(kind) and bool(_errors("entry", value, {"type": kind}))


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


def _is_template(value: object) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def places_of(where: Sequence[Setting]) -> str:
    """Return where a variable is set, for the end of a sentence."""
    shown = list(dict.fromkeys(f"{each.scope}{f' in {each.place}' if each.place else ''}" for each in where))
    more = f" and {len(shown) - _MOST_PLACES} more" if len(shown) > _MOST_PLACES else ""
    return f" (set for {'; '.join(shown[:_MOST_PLACES])}{more})".replace("set for -e", "given by -e")


def _hosts(where: Iterable[Setting]) -> list[str]:
    return [each.host for each in where if each.host]
