"""What is known of an endpoint: its context and its tokens, as it states them, and the formats that it takes.

There is no standard for the first two. Most servers tell the context in their list of models, each under a name of its
own; llama.cpp, LM Studio and Ollama have routes of their own. Each is asked once at most, within seconds in all, at the
endpoint's own address alone; what fails or is odd is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import anyio
import httpx

from atc._host.http_body import ENCODINGS, TooLarge, read_body
from atc.errors import ToolError
from atc.models.endpoint_client import trusted
from atc.models.endpoint_errors import exceeded, told
from atc.models.messages import ModelRequest, Reply
from atc.models.reply_format import Enforced, ReplyFormat

if TYPE_CHECKING:
    import openai


_WAIT_S = 5.0  # for all questions about the context together, and for one count
_MOST_BYTES = 16 << 20  # of an answer; OpenRouter's list has some hundred models
_MOST_TEXT = 400_000  # characters that are sent to be counted
_LEAST, _MOST = 256, 100_000_000  # tokens of a context; anything else is no such number
_OLLAMA_TOKENS = 4_096  # its context below 24 GiB of graphics memory, for a model that is not loaded
# Under these names an entry of a list of models tells its context: vLLM and SGLang; llama.cpp; OpenRouter, Together,
# Fireworks and Ollama's /api/ps; Groq; Mistral and LM Studio; LM Studio, for a loaded model; Anthropic; GitHub Copilot.
_NAMES = tuple(
    """
    max_model_len n_ctx context_length context_window max_context_length loaded_context_length max_input_tokens
    max_context_window_tokens
    """.split()
)
_PARTS = ("meta", "metadata", "limits", "capabilities", "top_provider")  # of an entry, in which they may stand


class EndpointFacts:
    """Asks an endpoint about itself.

    Args:
        base_url: its address up to and without ``/chat/completions``.
        model: the model's name at it.
        headers: to be sent, the key among them; never to another address, for redirects are not followed.
        direct: never go through a proxy.
    """

    def __init__(self, base_url: str, model: str, headers: Mapping[str, str], *, direct: bool = False) -> None:
        self._base, self._model, self._direct = base_url.rstrip("/"), model, direct
        self._root = self._base.removesuffix("/v1")
        self._headers = dict(headers)
        self._counts = True  # as far as is known

    async def context_tokens(self) -> int | None:
        """Tokens of prompt and reply together, the least of what it states; ``None``: it states none."""
        with anyio.move_on_after(_WAIT_S):
            async with self._client() as client:
                entry = await self._entry(client, f"{self._base}/models")
                owner = entry.get("owned_by")
                if sizes := list(_sizes(entry)):
                    return min(sizes)
                if owner == "llamacpp":  # older ones state it here alone
                    props = _members(await self._asked(client, "GET", f"{self._root}/props"))
                    return min(_sizes(_members(props.get("default_generation_settings"))), default=None)
                if owner == "organization_owner":  # LM Studio
                    return min(_sizes(await self._entry(client, f"{self._root}/api/v0/models")), default=None)
                if await self._asked(client, "GET", f"{self._root}/api/version") is not None:
                    return await self._ollama(client)
        return None

    async def count(self, text: str) -> int | None:
        """Tokens of a text; ``None`` where the endpoint has no tokenizer for others: it is asked no more then."""
        if not self._counts or not text or len(text) > _MOST_TEXT:
            return None if text else 0
        # llama.cpp reads `content`, vLLM and SGLang `model` and `prompt`; each ignores the other's.
        request = {"model": self._model, "prompt": text, "add_special_tokens": False, "content": text}
        answer: Any = None
        with anyio.move_on_after(_WAIT_S):
            async with self._client() as client:
                answer = await self._asked(client, "POST", f"{self._root}/tokenize", request)
        tokens = _members(answer).get("tokens")
        count = len(tokens) if isinstance(tokens, list) else 0
        self._counts = 0 < count <= 2 * len(text.encode("utf-8", "replace")) + 8
        return count if self._counts else None

    async def _ollama(self, client: httpx.AsyncClient) -> int | None:
        """Ollama cuts a longer prompt without a word, so what it has loaded counts and not what the model could."""
        running = _members(await self._asked(client, "GET", f"{self._root}/api/ps")).get("models")
        names = (self._model, f"{self._model}:latest")
        loaded = [each for each in _entries(running) if each.get("name") in names or each.get("model") in names]
        if sizes := [size for each in loaded for size in _sizes(each)]:
            return min(sizes)
        shown = _members(await self._asked(client, "POST", f"{self._root}/api/show", {"model": self._model}))
        if not shown:
            return None
        set_to = re.search(r"^num_ctx\s{1,80}(\d{1,9})\s*$", str(shown.get("parameters", ""))[:10_000], re.MULTILINE)
        return int(set_to[1]) if set_to else _OLLAMA_TOKENS

    async def _entry(self, client: httpx.AsyncClient, url: str) -> Mapping[str, Any]:
        """The model's entry in a list of models; Together's stands without a frame."""
        answer = await self._asked(client, "GET", url)
        listed = answer if isinstance(answer, list) else _members(answer).get("data")
        names = (self._model, f"models/{self._model}")  # Gemini lists them so
        return next((each for each in _entries(listed) if each.get("id") in names), {})

    async def _asked(self, client: httpx.AsyncClient, method: str, url: str, body: object = None) -> Any:
        try:
            async with client.stream(method, url, json=body) as answer:
                return json.loads(await read_body(answer, _MOST_BYTES)) if answer.status_code == 200 else None
        except (httpx.HTTPError, httpx.InvalidURL, TooLarge, ToolError, ValueError, RecursionError):
            return None

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers={"Accept-Encoding": ENCODINGS, **self._headers},
            timeout=_WAIT_S,
            trust_env=not self._direct,
            verify=trusted(trust_env=not self._direct),
            follow_redirects=False,
            limits=httpx.Limits(max_keepalive_connections=0),  # some close without a word
        )


def _members(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entries(value: object) -> list[Mapping[str, Any]]:
    return [_members(each) for each in value] if isinstance(value, list) else []


def _sizes(entry: Mapping[str, Any], depth: int = 2) -> Iterator[int]:
    for name in _NAMES:
        size = entry.get(name)
        if isinstance(size, int) and _LEAST <= size <= _MOST:
            yield size
    for part in _PARTS if depth else ():
        yield from _sizes(_members(entry.get(part)), depth - 1)


Way = Literal["json_schema", "json_object", "words"]
_WAYS: tuple[Way, ...] = ("json_schema", "json_object", "words")
_HOW = {"json_object": "as a JSON object that the prompt describes", "words": "in the prompt alone"}
_ABOUT_FORMAT = re.compile(
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
    """How one endpoint is asked for a format: by ``response_format`` or a grammar, else in the prompt.

    There are two kinds of ``response_format``, ``json_schema`` and the older ``json_object``, and endpoints that know
    one, both or neither. Which, shows at the first request: what is refused, or sent and not kept to, is not sent
    again. That is reported once.

    Attributes:
        grammars: it takes choices as GBNF under ``grammar``, as llama.cpp's server does.
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
        if wanted.enforced is None or wanted.text in self._turned_down:
            return "words"
        if self.grammars and wanted.grammar is not None:
            return "grammar"
        return "words" if self.way == "json_object" and wanted.enforced.wrapped else self.way

    def refused(self, request: ModelRequest, body: Mapping[str, Any], error: openai.APIStatusError) -> bool:
        """Whether an error turns down the format as it was sent. The next way is taken from now on.

        An error that names nothing at all may be about the format: :meth:`undo` where it was not.
        """
        if request.format is None:
            return False
        sent = body.keys() & {"response_format", "grammar"}
        if (
            not sent
            or error.status_code not in (*_REFUSALS, 500, 501)
            or exceeded(told(error.message, error.body), error.body)
        ):
            return False
        message = f"{told(error.message, error.body)} {error.param or ''}"[:_READ]
        named, bare = _ABOUT_FORMAT.search(message), error.status_code in (400, 422) and _is_bare(error.body)
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

    def look(self, request: ModelRequest, reply: Reply) -> None:
        """Look whether the endpoint kept to ``response_format``: all that it may then say is an object of some keys."""
        wanted = request.format
        way = "words" if wanted is None else self._way(wanted)
        if wanted is None or wanted.enforced is None or way == "grammar" or way == "words":
            return
        text = reply.text.strip()
        if text and not text.startswith("{"):
            self._leave(way, "does not keep to", "words")
        whole = bool(text) and reply.finish_reason == "stop"
        if way == "json_object" or request.sampling.stop or not whole or _has_its_keys(text, wanted.enforced):
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
