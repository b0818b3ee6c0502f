"""How one endpoint is asked for a format: by ``response_format`` or a grammar, else in the prompt.

There are two kinds of ``response_format``, ``json_schema`` and the older ``json_object``, and endpoints that know one,
both or neither. Which, shows at the first request: what is refused, or sent and not kept to, is not sent again. That is
reported once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from atc.models.context_errors import exceeded
from atc.models.error_bodies import told
from atc.models.messages import ModelRequest, Reply
from atc.models.reply_format import ReplyFormat
from atc.models.reply_schema import Enforced

if TYPE_CHECKING:
    import openai

Way = Literal["json_schema", "json_object", "words"]
_WAYS: tuple[Way, ...] = ("json_schema", "json_object", "words")
_HOW = {"json_object": "as a JSON object that the prompt describes", "words": "in the prompt alone"}
_NAMES = re.compile(
    r"response[ _]?format|json[ _]?(?:schema|object|mode|output)|structured[ _]?(?:output|generation|decoding)"
    r"|guided[ _]|constrained[ _](?:decoding|generation|sampling)|grammar",
    re.IGNORECASE,
)
_ABOUT_SCHEMA = re.compile(r"(?:invalid|unsupported) (?:json[ _])?schema|schema conver|parse grammar", re.IGNORECASE)
_BARE = re.compile(
    r"\W*(?:4\d\d\W+)?(?:bad|invalid|malformed|unsupported)?[ _]?(?:request|parameters?|arguments?|input|fields?)?"
    r"(?:[ _]error)?\W*|unprocessable (?:entity|content)\W*|validation error\W*",
    re.IGNORECASE,
)
"""An error that names nothing."""
_MOST_REMEMBERED = 64  # formats of one endpoint
_READ = 4_000  # characters of an error that are looked at
_REFUSALS = (400, 404, 415, 422)
"""Statuses of a request that the endpoint does not take."""


@dataclass
class EndpointFormats:
    """What is known of one endpoint.

    Attributes:
        grammars: it takes GBNF under ``grammar``, as llama.cpp's server does.
        way: the best way that was not refused.
    """

    grammars: bool = False
    way: Way = "json_schema"
    _turned_down: set[str] = field(default_factory=set)  # formats that were, where others are not
    _news: str = ""  # what was found out and not reported yet
    _reported: bool = False

    def of(self, request: ModelRequest) -> tuple[ModelRequest, dict[str, Any]]:
        """The request with the prompt that it needs, and the members of its body that hold the reply to its format."""
        wanted = request.format
        if wanted is None:
            return request, {}
        way = self._way(wanted)
        if way == "grammar":
            return request, {"grammar": wanted.grammar}
        if way == "words" or wanted.enforced is None:
            return request.with_format_in_prompt(), {}
        if way == "json_object":
            return request.with_format_in_prompt(), {"response_format": {"type": "json_object"}}
        schema = {"name": "reply", "schema": wanted.enforced.schema, "strict": wanted.enforced.strict}
        return request, {"response_format": {"type": "json_schema", "json_schema": schema}}

    def _way(self, wanted: ReplyFormat) -> Way | Literal["grammar"]:
        if wanted.kind == "grammar":
            return "grammar"
        if wanted.enforced is None or wanted.text in self._turned_down:
            return "words"
        if self.grammars and wanted.grammar is not None:
            return "grammar"
        return "words" if self.way == "json_object" and wanted.enforced.wrapped else self.way

    def refused(self, request: ModelRequest, body: Mapping[str, Any], error: openai.APIStatusError) -> bool:
        """Whether an error turns down the format as it was sent. The next way is taken from now on.

        An error that names nothing at all may be about the format: :meth:`undo` where it was not.
        """
        if request.format is None or request.format.kind == "grammar":
            return False
        sent = body.keys() & {"response_format", "grammar"}
        if (
            not sent
            or error.status_code not in (*_REFUSALS, 500, 501)
            or exceeded(told(error.message, error.body), error.body)
        ):
            return False
        message = f"{told(error.message, error.body)} {error.param or ''}"[:_READ]
        named, bare = _NAMES.search(message), error.status_code in (400, 422) and _is_bare(error.body)
        if not named and not bare:
            return False
        if "grammar" in sent or _ABOUT_SCHEMA.search(message):
            self._turn_down(request.format)
        else:
            self._leave(body["response_format"]["type"], "refuses")
        return True

    def undo(self, way: Way, error: openai.APIStatusError) -> None:
        """Go back to an earlier way: the request was refused without a format, too."""
        if error.status_code in _REFUSALS and self.way != way:
            self.way, self._news = way, ""

    def look(self, request: ModelRequest, replies: Sequence[Reply]) -> None:
        """Look whether the endpoint kept to ``response_format``: all that it may then say is an object of some keys."""
        wanted = request.format
        way = "words" if wanted is None else self._way(wanted)
        if wanted is None or wanted.enforced is None or way == "grammar" or way == "words":
            return
        texts = [reply.text.strip() for reply in replies]
        if any(text and not text.startswith("{") for text in texts):
            self._leave(way, "does not keep to", "words")
        ended = [text for text, reply in zip(texts, replies, strict=True) if text and reply.finish_reason == "stop"]
        if way == "json_object" or request.sampling.stop or all(_has_its_keys(t, wanted.enforced) for t in ended):
            return
        if wanted.enforced.strict:
            self._leave(way, "does not keep to", "words")
        else:
            self._turn_down(wanted)  # of such schemas an endpoint keeps as much as it can

    def news(self) -> str:
        """A new fact about the endpoint, reported once, as the end of a sentence; empty where nothing is new."""
        news, self._news = self._news, ""
        if not news or self._reported:
            return ""
        self._reported = True
        return news

    def _leave(self, sent: Way, how: str, to: Way | None = None) -> None:
        """Take the next way after one that was sent. Another request may have found out meanwhile, or more."""
        to = to or _WAYS[_WAYS.index(sent) + 1]
        if _WAYS.index(to) > _WAYS.index(self.way):
            self.way = to
            self._news = f"{how} response_format ({sent}): replies of a given form are asked for {_HOW[to]} from now on"

    def _turn_down(self, wanted: ReplyFormat) -> None:
        if len(self._turned_down) >= _MOST_REMEMBERED:
            self._turned_down.clear()
        self._turned_down.add(wanted.text)


def _is_bare(body: object) -> bool:
    """Whether the body of an error says nothing about what is wrong."""
    words = str(body or "")
    if isinstance(body, Mapping):
        words = next((str(body[name]) for name in ("message", "detail", "error") if body.get(name)), "")
    return len(words) < 80 and _BARE.fullmatch(words) is not None


def _has_its_keys(text: str, enforced: Enforced) -> bool:
    """Whether a reply is an object of the schema's keys. Bounds of values are not kept by every endpoint."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    keys = enforced.schema.get("properties")
    if not isinstance(value, dict) or not keys:
        return isinstance(value, dict)
    return value.keys() <= keys.keys() and set(enforced.schema.get("required", ())) <= value.keys()
