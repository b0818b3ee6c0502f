"""The replies of a query planner (ToolQP §3.1, Fig. 7): how they are read; and what stands in any of its turns.

A conversation is: the task, a plan with sub-goals, then one ``<query>`` a turn, each answered by the tools that it
found, until ``<stop_retrieval>``. :mod:`atc_research.toolqp.dialogue` writes it. Small models seldom keep to a format,
so reading never fails: it makes the best of what was said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from atc import Message, Protocol, UsageError
from atc.plugins.learning import Role, fenced
from atc_research.prompting import prompt

STOP = "<stop_retrieval>"
TOP = 5
"""Tools that are shown after a query (k of §3.2)."""
MAX_QUERIES = 10
"""Queries of one task at most (App. C.4)."""
MAX_GOALS = 8
MAX_TEXT = 400
"""Characters of a query or a sub-goal."""
MAX_TASK = 4_000
"""Characters of a task that a planner is shown."""

_MAX_READ = 20_000
_MAX_PLAN = 2_000
_DESCRIPTION = 120
_PARAMETERS = 6

_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w-]*[ \t]*$", re.MULTILINE)
_TAG = re.compile(r"(?:</|(?<!\w)<)[a-zA-Z][\w -]{0,40}/?>")  # list<int> holds none
_BREAKDOWN = re.compile(
    r"<task_?breakdown>(.*?)(?:</task_?breakdown>|(?=<(?:sub_?goals|plan|query)>)|\Z)", re.DOTALL | re.IGNORECASE
)
_PLAN = re.compile(r"<(plan|sub_?goals)>(.*?)(?:</\1>|<query>|\Z)", re.DOTALL | re.IGNORECASE)
_QUERY = re.compile(
    r"<(query|search|search_query)>(.*?)(?:</\1>|<(?=/?(?:query|search|stop|plan)\b)|\Z)", re.DOTALL | re.IGNORECASE
)
_STOP = re.compile(
    r"[<\[]\s*+/?\s*+stop(?:[_ -]retrieval)?+\s*+/?\s*+[>\]]|(?:^|(?<=[.:!]\s))\W{0,3}stop_retrieval\W*$", re.IGNORECASE
)
_STOP_WORDS = frozenset(
    {
        "stop",
        "stop_retrieval",
        "stop retrieval",
        "done",
        "end",
        "none",
        "n/a",
        "na",
        "null",
        "finished",
        "complete",
        "no more queries",
    }
)
_NUMBER = re.compile(
    r"^(\s*)(?:\*\*)?(?:(?:step|sub-?goal|goal|query)\s*)?#?(\d{1,2})(?:\*\*)?\s*(?:[.):\]](?!\d)|-\s)\s*(.*)$",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^(\s*)[-*•–+](?!\*)\s+(.*)$")
_LABEL = re.compile(
    r"^(?:(?:the|my|a|your)\s+)?(?:(?:next|first|new|functional|search|tool|final)\s+){0,3}(?:query|queries|search)"
    r"\s*+(?:is)?\s*+[:=]\s*+",
    re.IGNORECASE,
)
_ROLE_MARK = re.compile(r"\[(/?[A-Z_]{3,20})\]")
_ECHO = re.compile(r"^[^\n<]*\bor <stop_retrieval>[.:]?", re.MULTILINE | re.IGNORECASE)
"""The text of our last turn, repeated by the planner."""
_INSTRUCTION = "what the tool does, likely parameter names, its category"
"""The first turn's description of a query; a reply that repeats it is no query."""
_ROLE = re.compile(r"^[^\S\n]*+(?:assistant|user|system|human|found)\s*:", re.MULTILINE | re.IGNORECASE)
_JSON_LIST, _JSON_LIST_END = re.compile(r"\[\s*+\""), re.compile(r"\"\s*+\]")
_CUT_LIST = re.compile(r"[\[,]\s*+\"((?:[^\"\\\n]|\\.)++)\"")
"""The whole texts of a JSON list that was cut."""
_INLINE_LIST = re.compile(r"(?<!\S)\d{1,2}[.)]\s+")


@dataclass(frozen=True)
class Plan:
    """The plan of a task, before anything is searched for.

    Attributes:
        text: the plan in words (𝒫 of §3.1), without tags and fences; the list of sub-goals where there are no others.
        goals: its sub-goals ({sₙ}) in order; empty when the reply held none.
    """

    text: str
    goals: tuple[str, ...] = ()


# -- reading ---------------------------------------------------------------------------------------------------------


def parse_plan(text: str) -> Plan:
    """Read a reply to the first turn.

    With or without tags; the sub-goals as a numbered or bulleted list (its sub-items are left to the text), as a JSON
    list, as lines, or as sentences. At most :data:`MAX_GOALS`. The words are those of ``<task_breakdown>``, where it is
    there.
    """
    visible = visible_reply(text)
    breakdown = _BREAKDOWN.search(visible)
    words = _untagged(breakdown[1]).strip()[:_MAX_PLAN] if breakdown else ""
    if breakdown and (rest := visible[: breakdown.start()] + visible[breakdown.end() :]).strip():
        visible = rest  # sub-goals stand beside the words; words alone are taken apart
    body = next((body for body in _bodies(visible) if _goals(body)), "")
    queries = [match[2] for match in _QUERY.finditer(visible)]
    # a planner that began to search at once: its queries are the plan
    goals = _goals(body) or tuple(filter(None, map(_first_query, queries)))
    whole = _untagged(_STOP.sub("", body)).strip()[:_MAX_PLAN]
    return Plan(words or whole or "\n".join(goals), _unique(goals)[:MAX_GOALS])


def parse_query(text: str) -> str | None:
    """Read a reply to a later turn: the query, or ``None`` when the planner stops or writes none.

    Of several queries the first counts, for each is answered by itself. A stop that stands before any query, or beside
    words without a tag, is a stop.
    """
    visible = visible_reply(text)
    stopped = _STOP.search(visible)
    for match in _QUERY.finditer(visible):
        if stopped and stopped.start() < match.start():
            return None
        if _STOP.search(match[2]):
            return None
        if query := _first_query(match[2]):
            return None if _is_stop(query) else query
    if stopped:
        return None
    query = _first_query(visible)
    return None if _is_stop(query) else query


def visible_reply(text: str) -> str:
    """Return a reply without what was only thought, and without code fences."""
    visible = _THOUGHTS.sub("", text[:_MAX_READ])
    visible = visible.rpartition("</think>")[2]  # a template may have opened it
    turns = [turn for turn in _ROLE.split(visible) if turn.strip()]  # it may have played the other side too
    return _ECHO.sub("", _FENCE.sub("", turns[0] if turns else ""))


def _bodies(reply: str) -> Iterator[str]:
    """Yield where a plan may stand: before an end whose beginning was the prompt's, in tags, before a first query."""
    before, end, _ = reply.partition("</plan>")
    if end and "<plan>" not in before:
        yield before
    for match in _PLAN.finditer(reply):
        yield match[2]
    yield re.split(r"<query>", reply, maxsplit=1, flags=re.IGNORECASE)[0]


def _untagged(text: str) -> str:
    return _TAG.sub(" ", text)


def _goals(body: str) -> tuple[str, ...]:
    listed = _from_json(_json_list(body) or body)
    if listed is not None:
        return _unique(map(_cleaned, listed))
    lines = [line for line in _untagged(_STOP.sub("", body)).splitlines() if line.strip()]
    for marker in (_NUMBER, _BULLET):
        marked = [match for line in lines if (match := marker.match(line))]
        if len(marked) == 1 and marker is _NUMBER and (parts := _inline(marked[0][0])):
            return _unique(map(_cleaned, parts))
        if marked:
            indent = min(len(match[1].expandtabs()) for match in marked)
            top = [match for match in marked if len(match[1].expandtabs()) == indent]
            return _unique(_cleaned(match[match.lastindex or 0]) for match in top)
    lines = [line for line in lines if not line.rstrip().endswith(":")]
    if len(lines) == 1:
        lines = _inline(lines[0]) or re.split(r"(?<=[a-z)\]'\"][.!?;])\s+(?=[A-Z\d])", lines[0])
    return _unique(map(_cleaned, lines))


def _json_list(body: str) -> str:
    """Return the text from where a JSON list of texts begins to where the last one ends; empty if there is none."""
    begins = _JSON_LIST.search(body)
    ends = [found.end() for found in _JSON_LIST_END.finditer(body, begins.end())] if begins else []
    return body[begins.start() : ends[-1]] if begins and ends else ""


def _inline(line: str) -> list[str]:
    """Return ``"1. this 2. that"`` as a list; empty when it is none."""
    parts = [part.strip(" ;,") for part in _INLINE_LIST.split(line)]
    return [part for part in parts[1:] if part] if len(parts) > 2 and line.lstrip().startswith("1") else []


def _first_query(reply: str) -> str:
    """Return the first query that a text holds; empty when it holds none."""
    listed = _from_json(reply)
    if listed is not None:
        return next(filter(None, map(_cleaned, listed)), "")
    lines = [line.strip() for line in _untagged(reply).splitlines() if line.strip()]
    lines = [line for line in lines if not line.endswith(":")] or lines
    marked = [match for line in lines for marker in (_NUMBER, _BULLET) if (match := marker.match(line))]
    if marked:
        return _cleaned(marked[0][marked[0].lastindex or 0])
    labelled = [line for line in lines if _LABEL.match(line)]
    if labelled:
        return _cleaned(labelled[0])
    paragraph = re.split(r"\n\s*\n", _untagged(reply).strip())[0]
    text = " ".join(line for line in map(str.strip, paragraph.splitlines()) if line in lines)
    return _cleaned(text or " ".join(lines))


def _from_json(text: str) -> list[str] | None:
    """Return the texts of a JSON list, or of a JSON object and the first list in it; ``None`` when there is none."""
    stripped = _untagged(text).strip()
    if stripped[:1] not in ("[", "{", '"'):
        return None
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return _CUT_LIST.findall(stripped) or None if _JSON_LIST.match(stripped) else None
    if isinstance(value, dict):
        value = next((member for member in value.values() if isinstance(member, list)), list(value.values()))
    items = value if isinstance(value, list) else [value]
    texts = [next(iter(item.values()), "") if isinstance(item, dict) else item for item in items]
    return [item for item in texts if isinstance(item, str)]


def _cleaned(text: str) -> str:
    """Return one line without labels, emphasis and quotes around it, cut at a word."""
    line = " ".join(_untagged(text).split()).replace("**", "").replace("__", "")
    line = line.strip(" `*")
    line = _LABEL.sub("", line).strip(" `*").rstrip(" :")
    if len(line) > 1 and line[0] in "\"'“‘«" and line[-1] in "\"'”’»":
        line = line[1:-1].strip()
    if len(line) > MAX_TEXT:
        line = line[: MAX_TEXT + 1].rpartition(" ")[0] or line[:MAX_TEXT]
    return line if any(c.isalnum() for c in line) else ""


def _is_stop(query: str) -> bool:
    bare = query.lower().strip(" .!")
    return not bare or bare in _STOP_WORDS or bare == _INSTRUCTION


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))


# -- writing ---------------------------------------------------------------------------------------------------------


def show_query(query: str) -> str:
    """Return a query as the planner writes it."""
    return f"<query>{harmless(query)}</query>"


def show_results(protocols: Iterable[Protocol], top: int = TOP) -> str:
    """Return what a query found, best first: ``name(what it must be given): what it does``, a line each.

    Names and descriptions come from outside. Each is one short line in a fence, and can neither end the fence nor hold
    a tag of the conversation or of a chat template.

    Args:
        protocols: the tools found; the first ``top`` are shown.
    """
    lines = [f"{number}. {summary(protocol)}" for number, protocol in enumerate(list(protocols)[:top], 1)]
    return "```text\n" + "\n".join(lines or ["(nothing)"]) + "\n```"


def summary(protocol: Protocol) -> str:
    """Return a tool in one harmless line."""
    needed = [harmless(name, 40) for name in protocol.required[:_PARAMETERS]]
    if len(protocol.required) > _PARAMETERS:
        needed.append("…")
    described = harmless(first_sentence(protocol.description), _DESCRIPTION)
    return f"{protocol.name}({', '.join(needed)}): {described or '(no description)'}"


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, or its beginning."""
    flat = " ".join(text[: 8 * _DESCRIPTION].split())
    end = re.search(r"(?<=[a-z)\]'\"])[.!?](?=\s|$)", flat)
    return flat[: end.start()] if end and end.start() >= 20 else flat


def harmless(text: str, limit: int = MAX_TEXT) -> str:
    """Return one printable line that cannot act as a tag, a fence or a role of a chat template."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    line = _ROLE_MARK.sub(r"(\1)", fenced(line.replace("<", "‹").replace(">", "›")))
    return line if len(line) <= limit else f"{line[: limit - 2].rstrip()} …"


# -- how turns are written ---------------------------------------------------------------------------------------------
# How the turns of a query planner are written (ToolQP §3.1, Fig. 7), at run time and in training data alike.
#
# Every message of a conversation comes from one :class:`Turns`, so that a planner that was trained on trajectories
# meets the turns that it was trained on. How replies are read is in :mod:`atc_research.toolqp.dialogue`.

Form = Literal["list", "paper"]
"""The form of a plan: ``list``, numbered sub-goals in ``<plan>``; ``paper`` (Fig. 7), a plan in words in
``<task_breakdown>`` and a JSON list of sub-goals in ``<sub_goals>``."""

MAX_WORDS = 2_000
"""Characters of a plan in words."""
_PLAN_TOKENS: dict[Form, int] = {"list": 250, "paper": 500}


@dataclass(frozen=True)
class Turns:
    """The writer of a conversation.

    Attributes:
        form: of the plan.
        eager: the sub-goals are searched for at once, and what all of them find stands in one turn after the plan;
            else the planner begins with a query for the first (the paper).
        example: a worked example stands before the task; without one the planner is asked zero-shot (the paper).
        providers: tools that supply what found ones require stand first among the results.
        patient: a query that finds nothing new is answered like any other (the paper); else it ends the search.
    """

    form: Form = "list"
    eager: bool = True
    example: bool = True
    providers: bool = True
    patient: bool = False

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise UsageError(f"a plan has no form {self.form!r}: give one of {', '.join(get_args(Form))}")

    @property
    def plan_tokens(self) -> int:
        """Return the number of tokens that a plan may take."""
        return _PLAN_TOKENS[self.form]

    # -- what the planner is told --------------------------------------------------------------------------------------

    def opening(self, task: str) -> list[Message]:
        """Return the messages before the planner's first turn."""
        system = Message("system", prompt(self._named("system")), fixed=True)
        example = worked_example(self) if self.example else ()
        return [system, *example, Message("user", self.task(task))]

    def task(self, task: str) -> str:
        """Return the message that gives the task."""
        task = task if len(task) <= MAX_TASK else f"{task[:MAX_TASK]} …"
        return prompt(self._named("task"), task=fenced(task))

    def begin(self) -> str:
        """Return the message after the plan, where the planner searches for the first sub-goal itself."""
        return prompt(self._named("begin"))

    def results(self, tools: Iterable[Protocol]) -> str:
        """Return the message after a query, or after the plan where the sub-goals were searched for.

        Args:
            tools: all that are shown, the best first.
        """
        shown = list(tools)
        return prompt(self._named("results"), results=show_results(shown, len(shown)))

    # -- what the planner says -----------------------------------------------------------------------------------------

    def plan(self, plan: Plan) -> str:
        """Return a plan as the planner says it. In the form ``list`` its words are the sub-goals."""
        goals = [harmless(goal) for goal in plan.goals]
        if self.form == "list":
            return "\n".join(["<plan>", *(f"{number}. {goal}" for number, goal in enumerate(goals, 1)), "</plan>"])
        words = harmless(plan.text, MAX_WORDS) or "; ".join(goals)
        listed = json.dumps(goals, ensure_ascii=False)
        return f"<task_breakdown>\n{words}\n</task_breakdown>\n<sub_goals>\n{listed}\n</sub_goals>"

    def query(self, query: str) -> str:
        """Return a query as the planner says it."""
        return show_query(query)

    @property
    def stop(self) -> str:
        """Return how the planner ends the search."""
        return STOP

    def _named(self, part: str) -> str:
        return f"turns_{part}" if self.form == "list" else f"turns_paper_{part}"


PRODUCT = Turns()
"""The turns of a run with ``retrieval=planned``."""


# -- the worked example ------------------------------------------------------------------------------------------------
# The worked example that a planner is shown (the paper has none; :attr:`atc_research.toolqp.dialogue.Turns.example`).
#
# Without it a small model plans what no tool does ("verify the result") and gives the instruction for a query as its
# query. It is written by the same writer as the turns, so that it is in their format.

_TASK = "How many pages has the longest book of the author of 'Mio'? And what does it cost in yen?"
_GOALS = ("list the books of an author", "get the pages and the price of a book", "convert an amount to a currency")
_WORDS = (
    "For a question about the books of an author, find tools that list an author's books, that give the pages and the "
    "price of a book, and that convert an amount of money to another currency."
)
_QUERIES = (
    "list the books of an author; author_id; books",
    "pages and price of a book; book_id; books",
    "convert an amount to a currency; amount, to; money",
)
_MISSING = "find a book by its title; title, author_id; books"


@cache
def worked_example(turns: Turns) -> tuple[Message, ...]:
    """Return a task, its plan, what that finds, one query for an identifier that is missing, and the end."""
    by_author = _tool("list_books", "The books of an author.", "author_id")
    of_book = _tool("get_book", "Pages, language and price of a book.", "book_id")
    convert = _tool("convert_amount", "An amount of money in another currency.", "amount", "to")
    currencies = _tool("list_currencies", "All currencies.")
    by_title = _tool("search_books", "Books by words of their title, with their authors.", "title")
    libraries = _tool("search_libraries", "Libraries by their name.", "name")

    steps = [(_MISSING, [by_title, libraries])]
    if turns.eager:
        after_plan = turns.results([by_author, of_book, convert, currencies])
    else:
        after_plan = turns.begin()
        found = ([by_author, by_title], [of_book, by_author], [convert, currencies])
        steps = [*zip(_QUERIES, found, strict=True), *steps]
    messages = [_message("user", turns.task(_TASK)), _message("assistant", turns.plan(Plan(_WORDS, _GOALS)))]
    messages.append(_message("user", after_plan))
    for query, tools in steps:
        messages += [_message("assistant", turns.query(query)), _message("user", turns.results(tools))]
    return (*messages, _message("assistant", turns.stop))


def _message(role: Role, content: str) -> Message:
    return Message(role, content, fixed=True)


def _tool(name: str, description: str, *required: str) -> Protocol:
    return Protocol(name=name, description=description, parameters={"type": "object", "required": list(required)})
