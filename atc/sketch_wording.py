"""A sketch → sentences for people: why tools are offered, and what feeds what. No code reads one back."""

from __future__ import annotations

from collections.abc import Iterator

from atc.graph.edge_text import WORDS
from atc.graph.suppliers import expression_of
from atc.sketch_facts import FeedFacts, SketchFacts, Why


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
        case "used_with":
            return f"used with {reason.tool} in earlier runs"
        case "planned":
            goals = sketch.subgoals
            goal = f": {goals[reason.number - 1]}" if 0 < reason.number <= len(goals) else ""
            return f"planned for sub-goal {reason.number}{goal}"
        case "asked":
            return f"query {reason.number} of the model"
        case "said":
            return ": ".join(["the model picked it", *filter(None, [" › ".join(reason.path)])])
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
        elif reason.kind in ("used_with", "earlier", "supplies") or (whole and reason.kind != "all"):
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
