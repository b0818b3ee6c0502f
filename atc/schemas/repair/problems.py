"""What is wrong with arguments after all repairs: what the schema says, and arguments that no parameter takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from atc.schemas.repair.places import Place
from atc.schemas.repair.spelling import is_spelling, like
from atc.schemas.validate import MAX_PROBLEMS, Problem, problems

MAX_SHOWN, MAX_NAMES = 200, 30
"""Characters of a name in a problem, and names of parameters in one."""
UNKNOWN = "additionalProperties"
"""The keyword of a problem with an argument that no parameter takes."""


def argument_problems(
    root: Place, arguments: dict[str, Any], near: Mapping[tuple[str | int, ...], str]
) -> Iterator[Problem]:
    """What is wrong with arguments, an unknown one first.

    Args:
        near: by its place in them, the parameter or value that is nearest to one which is not repaired.
    """
    members = root.members
    unknown = [] if root.is_open else [key for key in arguments if key not in members]
    takes = ", ".join(name[:MAX_SHOWN] for name in islice(members, MAX_NAMES)) or "none"
    more = f" and {len(members) - MAX_NAMES:,} more" if len(members) > MAX_NAMES else ""
    for key in unknown[:MAX_PROBLEMS]:
        slip = near.get((key,)) or slip_of(key, arguments, members)
        why = f"it may be {slip[:MAX_SHOWN]}" if slip else "nothing is left out of a call with effects"
        message = f"there is no such argument, and {why}; there are {takes}{more}"
        yield Problem((key[:MAX_SHOWN],), message, UNKNOWN)
    for problem in problems(root.schema, arguments):
        if not (unknown and not problem.path and problem.keyword == UNKNOWN):
            nearest = f"; the nearest is {near[problem.path]}" if problem.path in near else ""
            yield replace(problem, message=problem.message + nearest)


def slip_of(key: str, given: Mapping[str, Any], members: Mapping[str, Place]) -> str:
    """A parameter that is not given and spelt almost as an unknown key: too like it for the key to be left out."""
    free = (name for name in members if name not in given)
    return next((name for name in free if is_spelling(key, name) or like(key, name)), "")
