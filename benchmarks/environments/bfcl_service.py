"""The classes of BFCL multi-turn as tools: loaded when they are needed, called with wrong arguments too, compared."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from atc.errors import EnvironmentProblem, ToolError

Instances = dict[str, Any]
"""An instance of each class of a task, by the name of the class."""

PACKAGE, NUMBERS = "bfcl_eval", "mpmath"
INSTALL = "pip install --no-deps bfcl-eval==2026.3.23 mpmath"
_SOURCES = f"{PACKAGE}.eval_checker.multi_turn_eval.func_source_code"
_MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}

_ALL_READ = ("MathAPI",)
_READ = tuple(
    """
    get_ list_ view_ search_ estimate_ find display check_ filter_ compute_ retrieve_ verify_ notify_ liter_ gallon_
    """.split()
)
# `cd` moves a cursor that belongs to no state: the checker does not see it, and going up twice is no mishap.
_READS = ("cat", "cd", "diff", "du", "grep", "ls", "pwd", "sort", "tail", "wc")
_AT_MOST = {"precision": 1_000, "exponent": 1_000}
"""Arguments with which arithmetic grows without end."""


def reads(group: str, method: str) -> bool:
    """Whether a method leaves the public attributes as they are; one that is not known to is said to write."""
    known = method in _READS or method.startswith(_READ) or method.endswith("_get_login_status")
    return known or group in _ALL_READ


def load_class(name: str) -> type:
    """The class of that name out of the package.

    Raises:
        EnvironmentProblem: the package is not there; the message says how to install it.
    """
    try:
        loaded: type = getattr(importlib.import_module(f"{_SOURCES}.{_MODULES[name]}"), name)
    except (ImportError, AttributeError) as error:
        raise EnvironmentProblem(f"the classes of BFCL cannot be imported ({error}): {INSTALL}") from None
    except KeyError:
        raise EnvironmentProblem(f"BFCL has no class {name!r}: the data is of another version") from None
    return loaded


def instances(groups: Iterable[str], state: Mapping[str, Any], load: Callable[[str], type]) -> Instances:
    """New instances in their first state; a class without a scenario has none."""
    made: Instances = {}
    for group in groups:
        made[group] = load(group)()
        if hasattr(made[group], "_load_scenario"):
            made[group]._load_scenario(copy.deepcopy(state.get(group, {})))
    return made


def public_state(instance: Any) -> dict[str, Any]:
    """The attributes that BFCL's state checker compares."""
    return {name: value for name, value in vars(instance).items() if not name.startswith("_")}


def answer(instance: Any, method: str, arguments: Mapping[str, Any]) -> Any:
    """Call a method as a service would: with copies, and every refusal a ToolError.

    Raises:
        ToolError: the method returned an error, or broke over its arguments. Its outcome is unknown if the state
            changed before that.
    """
    for name, most in _AT_MOST.items():
        if isinstance(value := arguments.get(name), int | float) and abs(value) > most:
            raise ToolError(f"{name} must be at most {most}", status="invalid")
    before = copy.deepcopy(public_state(instance))
    try:
        value = getattr(instance, method)(**copy.deepcopy(dict(arguments)))
    except Exception as error:  # these classes check little; a service would not fall over
        message, status = f"{type(error).__name__}: {error}", "invalid"
    else:
        if not (isinstance(value, dict) and "error" in value):
            return _plain(value)
        message, status = str(value["error"]), "error"
    acted = public_state(instance) != before
    raise ToolError(message, status=status, outcome="unknown" if acted else "refused")


def _plain(value: Any) -> Any:
    """A copy in JSON values; numbers of other libraries become floats."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(key): _plain(part) for key, part in value.items()}
        case list() | tuple() | set():
            return [_plain(part) for part in value]
    return float(value) if hasattr(value, "__float__") else str(value)
