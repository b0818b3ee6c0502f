"""The seam by which the agent finds the tools for a task; by default an index is searched."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, runtime_checkable
from typing import Protocol as Interface

from atc._records.records import WhyKind
from atc.catalogue.sketch import Sketch, Why, all_of
from atc.errors import EncoderUnavailable, UsageError
from atc.models.messages import Ask
from atc.settings import Settings
from atc.tools.tool import Toolset

if TYPE_CHECKING:
    from atc.catalogue.index.index import ToolIndex
    from atc.catalogue.index.search import Hit
    from atc.catalogue.index.snapshot import Progress
    from atc.catalogue.index.vectors import Encoder

Way = Literal["auto", "lexical", "hybrid"]
"""The ways to search an index; beside these, a setting may name a retriever of another package."""
_OTHERS = 2_000
"""Tools of an index that are passed over because the agent does not have them."""
MAX_EMBEDDED = 5_000
"""Tools that ``auto`` reads for their meaning at the first search; it takes the encoder some ten seconds a thousand."""


@runtime_checkable
class Retriever(Interface):
    """Finds the tools for a task."""

    async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Ask) -> Sketch:
        """Return ``limit`` of ``tools`` at most, the likeliest first; what is empty in the sketch is filled in.

        Args:
            ask: asks the language model of the run, within its budget.
        """
        ...


def as_sketch(found: object, retriever: object) -> Sketch:
    """Return what a retriever gave.

    Raises:
        UsageError: it is no sketch.
    """
    if isinstance(found, Sketch):
        return found
    name, given = type(retriever).__name__, type(found).__name__
    raise UsageError(f"{name}.retrieve must return an atc.Sketch of tools, not {given}: Sketch(tools.only(*names))")


class IndexRetriever:
    """Searches an index: by words, and by meaning too where there is an encoder (:mod:`atc.catalogue.index.sieve`).

    Args:
        index: of the tools, its ids being their names, or the folder of one that was saved; made of the tools that are
            given when not given.
        way: ``auto`` (words, and meaning where an encoder is there), ``lexical``, or ``hybrid`` (as the index can).
        folder: where the indexes that are made here are kept; nowhere when not given.
        encoder: of the vectors of such an index; the one of this machine for ``auto`` when not given.
    """

    def __init__(
        self,
        index: ToolIndex | str | Path | None = None,
        way: Way = "hybrid",
        *,
        folder: Path | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        if isinstance(index, str | Path):
            from atc.catalogue.index.index import ToolIndex

            index = ToolIndex.load(index)
        self._index = index
        self._own: tuple[Toolset, ToolIndex] | None = None
        self._way: Way = way
        self._folder, self._encoder = folder, encoder
        self._lock = threading.Lock()
        self.notices: tuple[str, ...] = ()
        """What the user may want to know of the index that was made last."""

    async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Ask) -> Sketch:
        """Return all tools where they fit the limit anyway; no index is asked then."""
        return await self.search(task, tools, limit)

    async def search(self, task: str, tools: Toolset, limit: int, report: Progress | None = None) -> Sketch:
        """Retrieve as :meth:`retrieve` does.

        Args:
            report: told, in another thread, how far an index is that has to be made.
        """
        if len(tools) <= limit:
            return all_of(tools)
        from atc.catalogue.index.sieve import sieved

        index = await self._of(tools, report)
        more = limit + min(max(0, len(index) - len(tools)), _OTHERS)  # an index may be of more tools than these
        hits = sieved(index, task, more, "lexical" if self._way == "lexical" else None)
        why = _reasons(hits, tools)
        if hits and not why:
            raise UsageError(
                f"the index has no tool of these, but {hits[0].id!r} and the like: build it of the same tools"
            )
        # where no tool has a word in common with the task, the first ones are offered
        chosen = [*why][:limit] or [*tools][:limit]
        reasons = {name: why.get(name) or Why(kind="first") for name in chosen}
        return Sketch(tools.only(*chosen), len(tools), why=reasons, notices=self.notices)

    async def index_of(self, tools: Toolset) -> ToolIndex:
        """Return the index that is searched for some tools; where there is none, it is made."""
        return await self._of(tools, None)

    async def _of(self, tools: Toolset, report: Progress | None) -> ToolIndex:
        if self._index is not None:
            return self._index
        if self._own is None or self._own[0] is not tools:
            stopped = threading.Event()
            try:
                await asyncio.to_thread(self._make, tools, report, stopped)
            except asyncio.CancelledError:
                stopped.set()  # the thread ends at its next step; what it has embedded is kept
                raise
        assert self._own is not None
        return self._own[1]

    def _make(self, tools: Toolset, report: Progress | None, stopped: threading.Event) -> None:
        from atc.catalogue.index.index_cache import kept_index

        def told(stage: str, done: int, total: int) -> None:
            if stopped.is_set():
                raise _Stopped
            if report is not None:
                report(stage, done, total)

        with self._lock:  # another run of this agent may be making it
            if self._own is None or self._own[0] is not tools:
                encoder, notices = self._encoder, list[str]()
                if self._way == "auto" and encoder is None:
                    encoder, notices = encoder_for(len(tools))
                index, problem = kept_index(tools, encoder, self._folder, told)
                self.notices = (*notices, *([problem] if problem else []))
                self._own = (tools, index)


def by_index(settings: Settings) -> IndexRetriever:
    """Return the retriever of the ways that search an index (:data:`Way`).

    Raises:
        ToolIndexError: the setting ``tool_index`` names an index that cannot be read.
    """
    return IndexRetriever(settings.tool_index, cast(Way, settings.retrieval), folder=settings.catalogue / "indexes")


def _reasons(hits: Sequence[Hit], tools: Toolset) -> dict[str, Why]:
    """Return which counted for more in each hit, words or meaning, each as a part of the best of its kind."""
    words = max((hit.lexical or 0.0 for hit in hits), default=0.0) or 1.0
    vectors = max((hit.dense or 0.0 for hit in hits), default=0.0) or 1.0
    kinds: dict[str, WhyKind] = {
        hit.id: "meaning" if (hit.dense or 0.0) / vectors > (hit.lexical or 0.0) / words else "words" for hit in hits
    }
    return {name: Why(kind=kind) for name, kind in kinds.items() if name in tools}


_QUIET = "`ATC_RETRIEVAL=lexical` keeps to words, without this line"


def encoder_for(count: int) -> tuple[Encoder | None, list[str]]:
    """Return the encoder of this machine, where it is there and the tools are not too many; else what to tell the user.

    Args:
        count: of the tools.
    """
    from atc.catalogue.index.minilm import MiniLM

    encoder = MiniLM()
    try:
        encoder.check()
    except EncoderUnavailable as problem:
        how = f": {problem.fix}" if problem.fix else ""
        return None, [f"tools are found by words only; an embedding model finds them by meaning too{how}; {_QUIET}"]
    if count > MAX_EMBEDDED:
        return None, [
            f"{count:,} tools are found by words only, because embedding them takes minutes: `atc tools index` makes "
            "an index by meaning too, and `--index` names it"
        ]
    return encoder, []


class _Stopped(BaseException):
    """The run that an index was made for has been stopped."""
