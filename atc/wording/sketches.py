"""Edges of the tool graph as people read and type them: ``search_user.results[].id`` feeds ``get_user.user_id``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from atc._records.records import FeedFacts, SketchFacts, Why
from atc.catalogue.graph.edges import Evidence, Path
from atc.catalogue.graph.suppliers import expression_of, fields_of
from atc.errors import UsageError
from atc.schemas.protocol import JsonSchema, Protocol, called_after_sources, parameters_of
from atc.schemas.validate import resolve

WORDS: Mapping[Evidence, str] = {
    "corrected": "you say so",
    "seen": "seen in runs",
    "stated": "the document says so",
    "names": "names fit",
    "predicted": "predicted",
}
"""Each kind of evidence in a few words, the surest first."""
WORDS_OF_SUBSTITUTES = {
    "types": "its types fit",
    "use": "it took its place in runs",
    "corrected": "you say so",
}
_LISTED = 8


def path_text(path: Sequence[str]) -> str:
    """A place in a response: ``results[].id``; ``[]`` alone for the items of a response that is a list."""
    text = ""
    for step in path:
        text += step if step == "[]" or not text else f".{step}"
    return text


def place_text(tool: str, path: Sequence[str]) -> str:
    """A field of a tool's response: ``search_user.results[].id``; the tool alone where the place is not known."""
    text = path_text(path)
    return f"{tool}{'' if text.startswith('[]') or not text else '.'}{text}"


def known_tool(name: str, tools: Mapping[str, Protocol]) -> str:
    """A tool's key as it was typed, if there is such a tool.

    Raises:
        UsageError: there is none; the message names those that are called so with a source in front, or spelt alike.
    """
    if name in tools:
        return name
    if shared := called_after_sources(name, tools.values()):
        raise UsageError(f"several sources have a tool {name!r}: name the one that you mean, {' or '.join(shared)}")
    raise UsageError(f"there is no tool {name[:80]!r}{_nearest(name, tools, 'the tools are')}")


def read_feed(
    supplier: str,
    consumer: str,
    tools: Mapping[str, Protocol],
    shapes: Mapping[str, JsonSchema] | None = None,
) -> tuple[str, Path, str, str]:
    """An edge as it was typed: supplier, path, consumer and parameter, as the store of what was learnt takes it.

    Args:
        supplier: ``TOOL.FIELD``, such as ``search_user.results[].id``; ``TOOL`` alone: the place is not known.
        consumer: ``TOOL.PARAMETER``; a parameter by its original name, or as programs write it.
        tools: by key.
        shapes: responses that were observed, of tools that document none.

    Raises:
        UsageError: one of both is not written so, or there is no such tool, field or parameter.
    """
    giving, path = _split(supplier, tools, "the first", "TOOL.FIELD, such as search_user.results[].id")
    taking, parameter = read_parameter(consumer, tools, "the second")
    if giving == taking:
        raise UsageError(f"{giving} cannot feed itself: name two tools")
    return giving, _path(giving, path, tools, shapes or {}), taking, parameter


def read_parameter(text: str, tools: Mapping[str, Protocol], which: str) -> tuple[str, str]:
    """A parameter as it was typed, ``TOOL.PARAMETER``: the tool, and the parameter's original name.

    Args:
        text: the parameter by its original name, or as programs write it.
        tools: by key.
        which: part of what was typed it is: ``the second``.

    Raises:
        UsageError: it is not written so, or there is no such tool or parameter.
    """
    tool, parameter = _split(text, tools, which, "TOOL.ARGUMENT, such as get_user.user_id")
    known = {name: each.original for each in parameters_of(tools[tool]) for name in (each.name, each.original)}
    if parameter not in known:
        what = f"{parameter[:80]!r} is no argument of {tool}" if parameter else f"write {tool}.ARGUMENT"
        raise UsageError(what + (_nearest(parameter, known, "it takes") if known else "; it takes none"))
    return tool, known[parameter]


def _split(text: str, tools: Mapping[str, Protocol], which: str, form: str) -> tuple[str, str]:
    """The tool that a text begins with, the longest that fits, and what follows it."""
    dots = [place for place, character in enumerate(text) if character in ".["]
    for end in (len(text), *reversed(dots)):
        if text[:end] in tools:
            return text[:end], text[end:].removeprefix(".")
    name = text[: dots[0]] if dots else text
    if not name:
        raise UsageError(f"{which} part of an edge is {text[:80]!r}: write {form}")
    return known_tool(name, tools), ""


def _path(tool: str, text: str, tools: Mapping[str, Protocol], shapes: Mapping[str, JsonSchema]) -> Path:
    if not text:
        return ()
    returns = tools[tool].returns or shapes.get(tool)
    if returns is None:  # nothing is known of its response: the user's word is taken
        return tuple(step for part in text.replace("[]", ".[].").split(".") if (step := part.strip()))
    known: dict[str, Path] = {"[]": ("[]",)} if "items" in resolve(returns, returns) else {}
    for path in fields_of(returns):
        known.setdefault(path_text(path), path)
        known.setdefault(path_text((*path, "[]")), (*path, "[]"))
    if text not in known:
        names = [name for name in known if not name.endswith("[]") or name == "[]"]
        listed = _nearest(text, names, "it returns") if names else f"; write {tool} alone for the response as a whole"
        raise UsageError(f"{text[:80]!r} is no field of what {tool} returns{listed}")
    return known[text]


def _nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    names = list(known)
    near = difflib.get_close_matches(name[:80], names, 3, 0.6)
    near += [each for each in names if name and each.lower().endswith(name.lower()[-80:]) and each not in near]
    if near:
        return f": did you mean {' or '.join(near[:3])}?"
    return f"; {otherwise} {', '.join(names[:_LISTED])}{', …' if len(names) > _LISTED else ''}"


# ----------------------------------------------------------------------------------------------------------------------
# A sketch → sentences for people: why tools are offered, and what feeds what. No code reads one back.


def need(feed: FeedFacts) -> str:
    """One sentence for an edge: what needs an argument, and what supplies it."""
    return f"{feed.consumer} needs {feed.parameter}: {source(feed)} supplies it"


def source(feed: FeedFacts) -> str:
    """The expression that reads the value of an edge; the tool alone where the place is not known."""
    return expression_of(feed.supplier, feed.path, feed.arguments) if feed.path else feed.supplier


def why(reason: Why, sketch: SketchFacts) -> str:
    """A few words: why a tool is offered."""
    match reason.kind:
        case "all":
            return "all tools are offered"
        case "words":
            return "the words of the task"
        case "meaning":
            return "the meaning of the task"
        case "supplies":
            return f"supplies {reason.parameter} of {reason.tool}"
        case "takes":
            return f"takes {reason.parameter} from {reason.tool}"
        case "used_with":
            return f"used with {reason.tool} in earlier runs"
        case "planned":
            goals = sketch.subgoals
            goal = f": {goals[reason.number - 1]}" if 0 < reason.number <= len(goals) else ""
            return f"planned for sub-goal {reason.number}{goal}"
        case "asked":
            return f"query {reason.number} of the model"
        case "earlier":
            return "an earlier task used it"
        case "first":
            return "nothing fits the task's words; it is among the first"
        case "given":
            return "your retriever gave it"


def lines(chosen: SketchFacts, *, whole: bool = False) -> Iterator[str]:
    """Lines that say why tools are offered.

    Args:
        chosen: the sketch.
        whole: all of it; else what the user would not guess: tools that the task does not speak of.
    """
    supplied = {(each.supplier, each.consumer, each.parameter): each for each in chosen.feeds}
    for tool, reason in chosen.why.items():
        if reason.kind == "supplies" and (edge := supplied.get((tool, reason.tool, reason.parameter))) is not None:
            yield need(edge)
        elif reason.kind in ("takes", "used_with", "earlier", "supplies") or (whole and reason.kind != "all"):
            yield f"{tool}: {why(reason, chosen)}"
    if not whole:
        return
    if len(chosen.layers) > 1:
        yield "layers, each of which may feed the next: " + "; then ".join(", ".join(layer) for layer in chosen.layers)
    yield from map(feed, chosen.feeds)
    yield from (f"instead of {tool}: {' or '.join(others)}" for tool, others in chosen.substitutes.items())


def feed(edge: FeedFacts) -> str:
    """One line for an edge, with its evidence."""
    times = f", {edge.seen:.0f} times" if edge.evidence == "seen" and edge.seen >= 1 else ""
    return f"{edge.consumer}({edge.parameter}) ← {source(edge)}  ({WORDS[edge.evidence]}{times})"
