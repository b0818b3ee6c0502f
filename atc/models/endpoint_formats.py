"""How one endpoint is asked for a format: by ``response_format`` or a grammar, else in the prompt.

There are two kinds of ``response_format``, ``json_schema`` and the older ``json_object``, and endpoints that know one,
both or neither. Which, shows at the first request: what is refused, or sent and not kept to, is not sent again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from atc.models.messages import ModelRequest, Reply
from atc.models.reply_format import ReplyFormat

if TYPE_CHECKING:
    import openai

Way = Literal["json_schema", "json_object", "words"]
_NAMES = re.compile(r"response_format|json_schema|json_object|structured[ _]?outputs?|guided_|grammar", re.IGNORECASE)
_ABOUT_SCHEMA = re.compile(r"(?:invalid|unsupported) (?:json[ _])?schema|schema conver|parse grammar", re.IGNORECASE)
_MOST_REMEMBERED = 64  # formats of one endpoint
_READ = 4_000  # characters of an error that are looked at


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
        """Whether an error turns down the format as it was sent. The next way is taken from now on."""
        if request.format is None or request.format.kind == "grammar":
            return False
        message = f"{error.message} {error.param or ''}"[:_READ]
        sent = body.keys() & {"response_format", "grammar"}
        if not sent or error.status_code not in (400, 415, 422, 500, 501) or not _NAMES.search(message):
            return False
        if "grammar" in sent or _ABOUT_SCHEMA.search(message):
            if len(self._turned_down) >= _MOST_REMEMBERED:
                self._turned_down.clear()
            self._turned_down.add(request.format.text)
        else:
            self.way = "json_object" if self.way == "json_schema" else "words"
        return True

    def look(self, request: ModelRequest, replies: Sequence[Reply]) -> None:
        """Look whether the endpoint kept to ``response_format``: all that it may then say is an object."""
        if request.format is None or self._way(request.format) not in ("json_schema", "json_object"):
            return
        if any(reply.text.strip() and not reply.text.lstrip().startswith("{") for reply in replies):
            self.way = "words"
