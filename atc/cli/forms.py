"""One form for the help of all commands: what stands for a value, and where exit codes are explained."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

EPILOG = "Exit codes: 0 done, 1 not done, 2 wrong use, 3 something is missing. `atc help exit-codes` lists all."

_METAVARS = {
    "SOURCE": ("--tools",),
    "DIR": ("--documents", "--index", "--into"),
    "URL": ("--advertise", "--oauth-issuer", "--resource-url"),
    "PATTERN": ("--allow-effects", "--only"),
    "TYPE": ("--answer",),
    "HOST": ("--allow-host", "--host"),
    "TEXT": ("--about", "--instructions", "--reply", "--task"),
    "ask|never|always|park": ("--approve",),
    "reads": ("--probe",),
}
_OF_OPTION = {name: metavar for metavar, names in _METAVARS.items() for name in names}
_OF_TYPE = {int: "N", float: "N", Path: "FILE", str: "NAME"}


def unify(command: Any) -> None:
    """Give the arguments and options of a command, and of those below it, one form of what stands for a value."""
    for each in command.params:
        if each.param_type_name == "argument":
            each.metavar = each.metavar or each.name.upper().rstrip("_")
            vars(each)["display_type_rich"] = lambda ctx: None  # the name says what it is
        elif each.is_flag or each.count:
            each.metavar = ""
        elif (found := _OF_OPTION.get(each.opts[0])) is not None:
            each.metavar = found
        elif each.metavar is None:
            each.metavar = _of_type(each)
    setattr(command, "get_params", partial(switches, command.get_params))  # noqa: B010 - of one command
    inner = getattr(command, "commands", None)
    if inner is None or command.invoke_without_command:
        command.epilog = command.epilog or EPILOG
    for each in (inner or {}).values():
        if each.params:  # one that is imported when it runs has none yet
            unify(each)


def switches(params_of: Callable[[Any], Any], context: Any) -> Any:
    """Return the parameters that help shows, ``--help`` among them; nothing stands for a value of a switch."""
    params = params_of(context)
    for each in params:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return params


def _of_type(option: Any) -> str | None:
    """Return what stands for the value of an option; ``None`` for one of a few words, which its help lists."""
    descriptor = getattr(option, "type_descriptor", None)  # Typer's own; a version without it shows what it shows
    if descriptor is None or descriptor.is_choice:
        return None
    kinds = [*get_args(descriptor.annotation), descriptor.annotation]
    return next((metavar for kind, metavar in _OF_TYPE.items() if kind in kinds), None)
