"""The embedded model: a small language model on this machine, behind llama.cpp's own server, without account or key."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import platformdirs

from atc._host.extras import install_command
from atc.errors import ModelError, ModelUnavailable, UsageError
from atc.models.base import Model
from atc.models.catalogue import CATALOGUE, DEFAULT_MODEL
from atc.models.embedded_process import EmbeddedServer, KeepPrompts, ServerSettings, kept_prefixes, shared
from atc.models.fetch import models_dir
from atc.models.machine import Sizes, fitting_sizes, missing_instructions, missing_library, needed_bytes, this_machine
from atc.models.messages import Message, ModelRequest, Reply, bounded_tokens
from atc.models.openai_compatible import OpenAICompatible
from atc.models.reply_format import ALL_KINDS

CONTEXT_TOKENS = 16_384
"""Tokens of prompt and reply for each slot; the default model takes 28 kB of memory a token when it starts."""
PROMPT_TOKENS = 4_000
"""Tokens of a prompt: two processor cores read some eighty a second."""


def runtime_installed() -> bool:
    """Whether the embedded model's runtime (the package ``xllamacpp``) is installed."""
    return importlib.util.find_spec("xllamacpp") is not None


def how_to_get_a_model() -> str:
    """Return what to do where there is no model, in words that follow "to get one,"."""
    return (
        f"either `{install_command('embedded')} && atc model pull`, "
        "or set ATC_MODEL=PROVIDER:NAME and the provider's key (anthropic:NAME and ANTHROPIC_API_KEY, say), "
        "or set OPENAI_BASE_URL, OPENAI_API_KEY and ATC_MODEL to use an OpenAI-compatible endpoint"
    )


class EmbeddedModel(Model):
    """A model that runs on this machine, in a process of its own that is started at the first call.

    Everyone in this Python process with the same settings shares that process; it is stopped by the last one's
    :meth:`aclose`, at exit, and when this process dies in whatever way.

    Args:
        model_path: a GGUF file; the default model in the user's cache when not given.
        slots: replies that can be written at the same time.
        threads: processor threads; one a core of those that this process may use when not given.
        context_tokens: what prompt and reply may take together, for each slot; when not given 16,384, or what the model
            was trained for, or what there is memory for.
        prompt_tokens: that a prompt should have at most.
        keep: what is kept on disk of what it has read, for the next process: ``"tools"``: instructions, and documents
            of tools; ``"instructions"`` alone; or ``"nothing"``.
    """

    enforces = ALL_KINDS
    wants_example = True

    def __init__(
        self,
        model_path: str | Path | None = None,
        slots: int = 1,
        threads: int | None = None,
        context_tokens: int | None = None,
        prompt_tokens: int = PROMPT_TOKENS,
        keep: KeepPrompts = "tools",
    ) -> None:
        for what, value in (("slots", slots), ("threads", threads), ("context_tokens", context_tokens)):
            if value is not None and value < 1:
                raise UsageError(f"an embedded model with {value} {what} cannot work: give 1 or more")
        self.path = default_path() if model_path is None else Path(model_path).expanduser()
        entry = self._entry = next((entry for entry in CATALOGUE.values() if entry.file == self.path.name), None)
        known = entry.name if entry else self.path.stem
        self.name = f"embedded:{known}"
        wanted = context_tokens or min(CONTEXT_TOKENS, entry.trained_tokens if entry else CONTEXT_TOKENS)
        self.sizes = Sizes(slots, wanted, needed_bytes(0, slots, wanted))
        """Slots and context: as many as there is memory for, if they were not given."""
        with contextlib.suppress(OSError):  # no file: the first call says so
            self.sizes = fitting_sizes(self.path.stat().st_size, slots, wanted, fixed=context_tokens is not None)
        self.context_tokens = self.sizes.context_tokens
        self.prompt_tokens = prompt_tokens
        self.keep = keep
        self._ask_for_context = entry is None  # llama.cpp reads in the file what it was trained for, and takes no more
        self.settings = ServerSettings(
            model_path=str(self.path.absolute()),
            alias=known,
            slots=self.sizes.slots,
            threads=threads or this_machine().threads,
            context_tokens=self.context_tokens,
            prompts_dir="" if keep == "nothing" else str(platformdirs.user_cache_path("atc") / "prompts"),
        )
        self._user = object()  # who holds the shared server
        self._starting: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"EmbeddedModel({str(self.path)!r}, slots={self.settings.slots})"

    def check(self) -> None:
        """Check that the file and the runtime are there, without starting anything.

        Raises:
            ModelUnavailable: one is missing; the message says how to get it.
        """
        if not self.path.is_file():
            other = "" if self._entry is not None else " Name a GGUF file that is there (embedded:FILE)."
            raise ModelUnavailable(
                f"no language model: {self.path} is not there.{other} To get one, {how_to_get_a_model()}"
            )
        if self._entry is not None and self.path.stat().st_size != self._entry.size:
            raise ModelUnavailable(f"{self.path} is incomplete: delete it and run `atc model pull {self._entry.name}`")
        if not runtime_installed():
            raise ModelUnavailable(
                f"the embedded model's runtime, xllamacpp, is not installed. To get a model, {how_to_get_a_model()}"
            )
        if library := missing_library():
            package = {"libgomp.so.1": "libgomp1", "libstdc++.so.6": "libstdc++6"}[library]
            raise ModelUnavailable(
                f"the embedded model's runtime needs {library}, which small container images lack: "
                f"run `apt-get install {package}`, or your system's own command"
            )
        if missing := missing_instructions():
            raise ModelUnavailable(
                f"this processor has no {', '.join(missing).upper()}, which the embedded model's runtime needs: "
                "set OPENAI_BASE_URL, OPENAI_API_KEY and ATC_MODEL to use an OpenAI-compatible endpoint"
            )

    def prepare(self) -> None:
        """Start the server's process; meanwhile the caller does other things."""
        if self._starting is not None:
            return
        with contextlib.suppress(ModelUnavailable):
            self.check()
            self._starting = threading.Thread(target=self._start, daemon=True)
            self._starting.start()
            threading.Thread(target=importlib.import_module, args=("openai",), daemon=True).start()

    def _start(self) -> None:
        with contextlib.suppress(ModelUnavailable):
            shared.get(self.settings, self._user)

    async def context_size(self) -> int:
        if self._ask_for_context:
            with contextlib.suppress(ModelUnavailable):  # the first request says so
                size = await self._client(await self._server(), known=False).context_size()
                self.context_tokens, self._ask_for_context = min(self.context_tokens, size), False
        return self.context_tokens

    async def count_tokens(self, text: str) -> int:
        with contextlib.suppress(ModelUnavailable):
            return await self._client(await self._server()).count_tokens(text)
        return bounded_tokens(text)

    async def generate(self, request: ModelRequest) -> Reply:
        server = await self._server()
        client = self._client(server)
        try:
            seconds = await self._load_prefix(server, request.messages)
            async with server.gate.beside():
                reply = await client.generate(request)
        except (ModelError, ModelUnavailable) as error:
            raise self._explained(error, server) from None
        return replace(reply, seconds=reply.seconds + seconds)

    async def aclose(self) -> None:
        await anyio.to_thread.run_sync(self._release)

    def _release(self) -> None:
        if self._starting is not None:  # else it would come up after all
            self._starting.join()
            self._starting = None
        shared.release(self.settings, self._user)

    async def _server(self) -> EmbeddedServer:
        self.check()
        return await anyio.to_thread.run_sync(shared.get, self.settings, self._user)

    async def _load_prefix(self, server: EmbeddedServer, messages: Sequence[Message]) -> float:
        """Return seconds. Nothing else may be read before it is saved: who is not alone leaves it to another."""
        cache, prefixes = server.prompt_cache, kept_prefixes(messages, self.keep)
        if cache is None or not prefixes or cache.key(prefixes[0]) in cache.loaded:
            return 0.0
        began = time.monotonic()
        async with server.gate.alone() as alone:
            levels = [(cache.key(prefix), prefix) for prefix in prefixes] if alone else []
            unread = 0
            for key, _ in levels:  # the longest first: a shorter one is within it
                if key in cache.loaded or await anyio.to_thread.run_sync(cache.restore, key):
                    break
                unread += 1
            cache.loaded.update(key for key, _ in levels[unread:])
            for key, prefix in reversed(levels[:unread]):
                if tokens := await server.read(prefix):
                    await anyio.to_thread.run_sync(cache.save, key, tokens + 1)
                cache.loaded.add(key)
        return time.monotonic() - began

    def _client(self, server: EmbeddedServer, *, known: bool = True) -> OpenAICompatible:
        # Two cores read some fifty tokens of a prompt a second: the first piece of a reply may be minutes away.
        return OpenAICompatible(
            self.settings.alias,
            server.url,
            server.api_key,
            timeout_s=1800,
            stall_s=1800,
            max_attempts=2,
            context_tokens=self.context_tokens if known else None,
            name=self.name,
            direct=True,
            takes_grammars=True,
        )

    def _explained(self, error: ModelError | ModelUnavailable, server: EmbeddedServer) -> ModelError | ModelUnavailable:
        if server.alive():
            return error
        return ModelError(f"the embedded model's server ended in the middle of work: {server.why_ended()}")


def default_path() -> Path:
    """Where the default model's file is, or would be."""
    return models_dir() / CATALOGUE[DEFAULT_MODEL].file
