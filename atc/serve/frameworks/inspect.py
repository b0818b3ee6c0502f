"""An agent as a solver of Inspect (``inspect_ai`` ≥ 0.3.285)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from atc.errors import EnvironmentProblem

if TYPE_CHECKING:
    from inspect_ai.solver import Solver


def to_inspect(
    *,
    effects: Mapping[str, Literal["read", "write"]] | None = None,
    untrusted: Sequence[str] | str = (),
    only: Sequence[str] | str | None = None,
    approve: Literal["inspect", "always"] = "inspect",
    sentence: bool = False,
    parse_text: bool = False,
    **settings: Any,
) -> Solver:
    """Make a solver of Inspect: the tools of a task become ATC's, its model writes the programs.

    Calls of the model and of tools are Inspect's own: with its limits, its approval, its log. On the command line it is
    ``inspect eval TASK --solver atc/code_mode``, and each of these arguments one ``-S NAME=VALUE``. No state is kept
    from one sample to the next.

    Args:
        effects: for shell patterns of tools, ``"read"`` if a call changes nothing, ``"write"`` if it does. What nobody
            speaks of is unknown, and counts as a write: it is not repeated by a revised program.
        untrusted: such patterns of the tools that return what strangers write.
        only: such patterns of the tools to offer.
        approve: ``"inspect"``: Inspect's approval policy alone decides about calls. ``"always"``: before it, ATC
            refuses what no yes to all covers, such as a write whose recipient a stranger's text chose.
        sentence: the answer is a sentence about the value, where the program says one; else it is the value as text.
        parse_text: what a tool returns as JSON or YAML text of an object or a list reaches the program as that.
        **settings: any field of :class:`atc.Settings` but those of the model and of what is kept.

    Raises:
        EnvironmentProblem: ``inspect-ai`` is not installed.
        UsageError: an argument is wrong.
    """
    try:
        from atc.serve.frameworks.inspect_solver import code_mode
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "inspect_ai":
            raise
        raise EnvironmentProblem("the package inspect-ai is not installed", fix="pip install inspect-ai") from None
    made: Solver = code_mode(
        effects=effects,
        untrusted=untrusted,
        only=only,
        approve=approve,
        sentence=sentence,
        parse_text=parse_text,
        **settings,
    )
    return made
