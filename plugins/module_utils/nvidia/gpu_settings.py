"""Validate declared GPU settings, compare them with the GPUs, and plan the nvidia-smi calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["HARMLESS", "LOCKS", "Fault", "Step", "boot_lines", "merge_settings", "settings_errors", "settings_plan"]

DEFAULT = "default"
KEYS = (
    "persistence",
    "compute_mode",
    "ecc",
    "power_limit_w",
    "graphics_clocks_mhz",
    "memory_clocks_mhz",
    "application_clocks_mhz",
    "vboost",
)
# Changes that do not affect running jobs.
HARMLESS = frozenset({"persistence"})
COMPUTE_MODES = ("default", "exclusive_process", "prohibited")
# Options that lock and unlock clocks; nvidia-smi does not report whether they are locked.
LOCKS = {"graphics_clocks_mhz": ("-lgc", "-rgc"), "memory_clocks_mhz": ("-lmc", "-rmc")}
_PAIR = 2
_WATT = 0.5
# Settings that are lost when the driver is unloaded; without persistence this happens when the last program ends.
_VOLATILE = ("power_limit_w", *LOCKS, "application_clocks_mhz", "vboost")


class Fault(NamedTuple):
    """A setting that some GPUs do not support."""

    gpus: tuple[int, ...]
    key: str
    problem: str
    remedy: str


class Step(NamedTuple):
    """One nvidia-smi call: setting, GPUs, options, current and new value."""

    key: str
    gpus: tuple[int, ...]
    words: tuple[str, ...]
    before: str
    after: str


def merge_settings(profile: Mapping[str, Any] | None, host: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a node: host settings override the profile; null leaves a setting unchanged."""
    merged = {**(profile or {}), **(host or {})}
    return {key: value for key, value in merged.items() if value is not None}


def settings_errors(settings: object) -> list[str]:
    """Return the errors in declared settings that do not depend on the GPU."""
    if not isinstance(settings, dict):
        return [f"must be a dictionary of {', '.join(KEYS)}"]
    problems = [f"{key}: unknown setting; known: {', '.join(KEYS)}" for key in settings if key not in KEYS]
    problems += [
        f"{key}: must be true or false"
        for key in ("persistence", "ecc")
        if key in settings and not isinstance(settings[key], bool)
    ]
    mode = settings.get("compute_mode", DEFAULT)
    if mode not in COMPUTE_MODES:
        problems.append(f"compute_mode: must be one of {', '.join(COMPUTE_MODES)}")
    power = settings.get("power_limit_w", DEFAULT)
    if power != DEFAULT and not _number(power):
        problems.append("power_limit_w: must be watts per GPU, or default")
    for key in LOCKS:
        value = settings.get(key, DEFAULT)
        if value != DEFAULT and not _clock(value) and not _range(value):
            problems.append(f"{key}: must be MHz, a list of lowest and highest MHz, or default")
    clocks = settings.get("application_clocks_mhz", DEFAULT)
    if clocks != DEFAULT and not (
        isinstance(clocks, dict) and set(clocks) == {"graphics", "memory"} and all(map(_clock, clocks.values()))
    ):
        problems.append("application_clocks_mhz: must have graphics and memory in MHz, or be default")
    vboost = settings.get("vboost", DEFAULT)
    if vboost != DEFAULT and (isinstance(vboost, bool) or not isinstance(vboost, int) or vboost < 0):
        problems.append("vboost: must be a step of the slider, 0 or more, or default")
    fleeting = [key for key in _VOLATILE if settings.get(key, DEFAULT) != DEFAULT]
    if settings.get("persistence") is False and fleeting:
        problems.append(f"{', '.join(fleeting)}: would be reset when no program uses the GPU; set persistence: true")
    return problems


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _clock(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _range(value: object) -> bool:
    return isinstance(value, list) and len(value) == _PAIR and all(map(_clock, value)) and value[0] <= value[1]


def boot_lines(settings: Mapping[str, Any]) -> list[str]:
    """Return the nvidia-smi options that restore the settings after a boot, one call per line.

    Settings that the GPU stores (ECC) and defaults are omitted.
    """
    lines = ["-pm 1"] if settings.get("persistence") else []
    mode = settings.get("compute_mode", DEFAULT)
    lines += [f"-c {mode.upper()}"] if mode != DEFAULT else []
    power = settings.get("power_limit_w", DEFAULT)
    lines += [f"-pl {power:g}"] if power != DEFAULT else []
    lines += [line for key in LOCKS for line in _lock_line(key, settings)]
    clocks = settings.get("application_clocks_mhz", DEFAULT)
    lines += [f"-ac {clocks['memory']},{clocks['graphics']}"] if clocks != DEFAULT else []
    vboost = settings.get("vboost", DEFAULT)
    return lines + ([f"boost-slider --vboost {vboost}"] if vboost != DEFAULT else [])


def _lock_line(key: str, settings: Mapping[str, Any]) -> list[str]:
    value = settings.get(key, DEFAULT)
    if value == DEFAULT:
        return []
    low, high = value if isinstance(value, list) else (value, value)
    return [f"{LOCKS[key][0]} {low},{high}"]


def settings_plan(
    settings: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]], locked: Sequence[str]
) -> tuple[list[Fault], list[Step]]:
    """Return unsupported settings and the required nvidia-smi calls; GPUs that need the same change share a call.

    Args:
        settings: declared settings without errors in settings_errors().
        gpus: result of `settings_found`.
        locked: nvidia-smi options that have locked clocks since the driver was loaded.
    """
    faults: dict[tuple[str, str, str], list[int]] = {}
    steps: dict[tuple[str, tuple[str, ...], str, str], list[int]] = {}
    for gpu in gpus:
        for key in KEYS:
            if key not in settings:
                continue
            for reason in _cannot(key, settings[key], gpu):
                faults.setdefault((key, *reason), []).append(gpu["index"])
            for words, before, after in _missing(key, settings, gpu, locked):
                steps.setdefault((key, words, before, after), []).append(gpu["index"])
    return (
        [Fault(tuple(indexes), *reason) for reason, indexes in faults.items()],
        [Step(key, tuple(indexes), words, before, after) for (key, words, before, after), indexes in steps.items()],
    )


def _cannot(key: str, value: Any, gpu: Mapping[str, Any]) -> list[tuple[str, str]]:  # noqa: ANN401 - any setting
    """Return why the GPU does not support a value, with the remedy."""
    if value == DEFAULT:
        return []
    power = gpu["power"]
    has = {"power_limit_w": None not in {power["now"], power["least"], power["most"]}}
    has |= {name: gpu[name] is not None for name in ("persistence", "ecc", "compute_mode", "vboost")}
    if not has.get(key, bool(gpu["supported"])):
        return [("not supported by the GPU", f"remove {key} from the settings of this hardware or host")]
    if key == "power_limit_w":
        least, most = power["least"], power["most"]
        taken = f"{least:g} to {most:g}"
        return [] if least <= value <= most else [(f"{value:g} W: the GPU supports {taken} W", f"choose {taken}")]
    if key == "vboost" and value > gpu["vboost"]["most"]:
        most = gpu["vboost"]["most"]
        return [(f"{value}: the GPU supports 0 to {most}", f"choose 0 to {most}")]
    return [] if key in has else _clock_faults(key, value, gpu["supported"])


def _clock_faults(key: str, value: Any, supported: Mapping[int, Sequence[int]]) -> list[tuple[str, str]]:  # noqa: ANN401
    """Return the clocks that the GPU does not support."""
    memory = sorted(supported)
    known = ", ".join(map(str, memory))
    if key == "application_clocks_mhz":
        if value["memory"] not in supported:
            return [(f"the GPU does not support a memory clock of {value['memory']} MHz", f"choose one of {known}")]
        graphics = supported[value["memory"]]
        if value["graphics"] in graphics:
            return []
        near = min(graphics, key=lambda each: abs(each - value["graphics"]))
        return [(f"the GPU does not support a graphics clock of {value['graphics']} MHz", f"the nearest is {near}")]
    clocks = memory if key == "memory_clocks_mhz" else sorted({each for row in supported.values() for each in row})
    wrong = [each for each in (value if isinstance(value, list) else [value]) if not clocks[0] <= each <= clocks[-1]]
    if not wrong:
        return []
    rejected = " and ".join(map(str, wrong))
    return [
        (f"{rejected} MHz: the GPU supports {clocks[0]} to {clocks[-1]} MHz", f"choose {clocks[0]} to {clocks[-1]}")
    ]


def _missing(
    key: str, settings: Mapping[str, Any], gpu: Mapping[str, Any], locked: Sequence[str]
) -> list[tuple[tuple[str, ...], str, str]]:
    """Return the needed options, with current and new value."""
    value = settings[key]
    if key in LOCKS:
        return _lock_step(key, settings, locked)
    now, words, after = _present(key, value, gpu)
    if now is None or now == after:
        return []
    return [(words, now, after)]


def _present(key: str, value: Any, gpu: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...], str]:  # noqa: ANN401
    """Return the current value (None if unsupported), the options that set the new value, and the new value."""
    if key in {"persistence", "ecc"}:
        option, now = ("-pm", gpu["persistence"]) if key == "persistence" else ("-e", gpu["ecc_pending"])
        return _switch(now), (option, str(int(value))), _switch(value) or ""
    if key == "compute_mode":
        return gpu[key], ("-c", value.upper()), value
    if key == "power_limit_w":
        power, wanted = gpu["power"]["now"], gpu["power"]["default"] if value == DEFAULT else value
        same = power is None or wanted is None or abs(power - wanted) < _WATT
        return (None, (), "") if same else (f"{power:g} W", ("-pl", f"{wanted:g}"), f"{wanted:g} W")
    if key == "vboost":
        slider, level = gpu["vboost"], 0 if value == DEFAULT else value
        return (str(slider["now"]) if slider else None), ("boost-slider", "--vboost", str(level)), str(level)
    present = gpu["applications"]
    clocks = gpu["default_applications"] if value == DEFAULT else value
    words = ("-rac",) if value == DEFAULT else ("-ac", f"{value['memory']},{value['graphics']}")
    return (None, (), "") if present is None or clocks is None else (_clock_text(present), words, _clock_text(clocks))


def _lock_step(key: str, settings: Mapping[str, Any], locked: Sequence[str]) -> list[tuple[tuple[str, ...], str, str]]:
    option, free = LOCKS[key]
    before = next((line.partition(" ")[2] for line in locked if line.startswith(f"{option} ")), "")
    after = "".join(_lock_line(key, settings)).partition(" ")[2]
    if before == after:
        return []
    return [((option, after) if after else (free,), before or "not locked", after or "not locked")]


def _switch(value: bool | None) -> str | None:  # noqa: FBT001 - formats a boolean
    return None if value is None else "on" if value else "off"


def _clock_text(clocks: Mapping[str, int]) -> str:
    return f"graphics {clocks['graphics']}, memory {clocks['memory']} MHz"
