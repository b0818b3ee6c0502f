"""What runs teach, kept for one user: one file for all tools, of which the graph of some tools sees its own part.

Evidence belongs to a tool, whatever toolset it is in (:mod:`atc.catalogue.graph.database`): one new tool opens no
empty memory.
Of a tool whose schemas changed it is worth half (:data:`~atc.catalogue.graph.weights.CHANGED`). The file holds names,
counts, days and types; no value, no place of a service, no text of a task.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path as FilePath

from atc.catalogue.graph.database import VERSION, Database, Identity, StoreProblem, identity_of, place_of
from atc.catalogue.graph.edges import NOTHING_LEARNT, Learnt, Path
from atc.catalogue.graph.learning import MAX_PREDICTIONS, Learning, forget, prune_predictions
from atc.catalogue.graph.lessons import Lessons
from atc.catalogue.graph.view import learnt_of
from atc.catalogue.graph.weights import DAY_S
from atc.errors import UsageError
from atc.schemas.protocol import Protocol, parameters_of

MAX_CORRECTIONS = 10_000
FILE = f"learnt-{VERSION}.db"
"""The name of a store in its folder. It has the version, so that two versions of ATC keep out of each other's."""
Edge = tuple[str, Path, str, str]
"""A feed: the supplier, the path in its response, the consumer and its parameter."""


class GraphStore:
    """A user's store. Several processes and threads may use one file at once.

    A run never fails for its memory: :meth:`learnt` and :meth:`add` raise nothing; :attr:`notice` says what is wrong.

    Args:
        path: of the file; it and its folder are made when something is written, for the user's eyes alone.

    Attributes:
        notice: what the user should read; empty where all is well.
    """

    def __init__(self, path: FilePath) -> None:
        self._file = Database(path)
        self._problem = ""
        self._identities: dict[int, tuple[Protocol, Identity]] = {}

    @property
    def path(self) -> FilePath:
        """Where the file is."""
        return self._file.path

    @property
    def notice(self) -> str:
        """What the user should read: the file was set aside, or cannot be used; empty where all is well."""
        return self._problem or self._file.notice

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    # -- runs ----------------------------------------------------------------------------------------------------------

    def learnt(self, tools: Mapping[str, Protocol], now: float | None = None) -> Learnt:
        """What was learnt about some tools, by their keys. Never raises: without a usable file nothing was learnt.

        Args:
            now: seconds since the epoch, by which evidence ages; the present when not given.
        """
        today = int((time.time() if now is None else now) // DAY_S)
        try:
            found = self._file.read(lambda file: learnt_of(file, tools, self._identity, today), NOTHING_LEARNT)
        except StoreProblem as problem:
            self._problem = str(problem)
            return NOTHING_LEARNT
        self._problem = ""
        return found

    def add(self, lessons: Lessons, tools: Mapping[str, Protocol], now: float | None = None) -> None:
        """Learn what a run teaches, once: what was learnt of the same request before is passed over. Never raises.

        Args:
            lessons: by the names of ``tools``.
            tools: their protocols.
            now: seconds since the epoch; the present when not given.
        """
        if not lessons:
            return
        moment = time.time() if now is None else now
        try:
            self._file.write(lambda file: Learning(file, tools, self._identity, moment).add(lessons))
        except StoreProblem as problem:
            self._problem = str(problem)
        else:
            self._problem = ""

    def _identity(self, protocol: Protocol) -> Identity:
        held = self._identities.get(id(protocol))
        if held is None or held[0] is not protocol:
            if len(self._identities) > 10_000:
                self._identities.clear()
            held = self._identities[id(protocol)] = protocol, identity_of(protocol)
        return held[1]

    # -- by hand -------------------------------------------------------------------------------------------------------

    def correct_feed(self, tools: Mapping[str, Protocol], edge: Edge, there: bool | None) -> None:
        """Say that an edge is there, or that it is not; with ``None`` take back what was said.

        Raises:
            UsageError: there is no such tool or parameter, or there are 10,000 corrections.
            StoreProblem: it cannot be kept.
        """
        supplier, path, consumer, parameter = edge
        _check_parameter(tools, consumer, parameter)
        self._correct("feed", _of(tools, supplier), path, _of(tools, consumer), parameter, there)

    def correct_substitute(self, tools: Mapping[str, Protocol], tool: str, by: str, there: bool | None) -> None:
        """Say that a tool can take another one's place, or that it cannot; with ``None`` take back what was said.

        Raises:
            UsageError, StoreProblem: as :meth:`correct_feed`; or the two are one tool.
        """
        if tool == by:
            raise UsageError(f"{tool} cannot take its own place: name another tool")
        self._correct("replace", _of(tools, tool), (), _of(tools, by), "", there)

    def correct_same(
        self, tools: Mapping[str, Protocol], one: tuple[str, str], other: tuple[str, str], same: bool | None
    ) -> None:
        """Say that two parameters mean the same, or that they do not; with ``None`` take back what was said.

        Args:
            one, other: each a tool and one of its parameters, by its original name; in any order.

        Raises:
            UsageError, StoreProblem: as :meth:`correct_feed`; or the two are one parameter.
        """
        for tool, parameter in (one, other):
            _check_parameter(tools, tool, parameter)
        if one == other:
            raise UsageError(f"{one[0]}.{one[1]} is the same as itself: name another parameter")
        (a, first), (b, second) = sorted((one, other), key=lambda each: (place_of(tools[each[0]]), each[1]))
        self._correct("same", tools[a], (first,), tools[b], second, same)

    def _correct(self, kind: str, a: Protocol, path: Path, b: Protocol, parameter: str, there: bool | None) -> None:
        row = (kind, *place_of(a), json.dumps(path), *place_of(b), parameter)

        def work(file: sqlite3.Connection) -> None:
            file.execute(
                "DELETE FROM correction WHERE (kind, a_service, a_name, path, b_service, b_name, parameter)"
                " = (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            if there is None:
                return
            if file.execute("SELECT COUNT(*) FROM correction").fetchone()[0] >= MAX_CORRECTIONS:
                raise UsageError(f"{self.path} holds {MAX_CORRECTIONS:,} corrections: take some back first")
            file.execute("INSERT INTO correction VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, int(there)))

        self._file.write(work)

    def predict(self, tools: Mapping[str, Protocol], weights: Mapping[Edge, float]) -> None:
        """Keep the weights that a trained model gives to feeds among some tools, in place of earlier ones.

        Args:
            weights: from 0 to 1. Of more than 100,000 the greatest are kept; what names no tool of ``tools`` is not.

        Raises:
            StoreProblem: they cannot be kept.
        """
        fit = [
            (edge, weight)
            for edge, weight in weights.items()
            if edge[0] in tools and edge[2] in tools and 0 <= weight <= 1
        ]
        fit = sorted(fit, key=lambda each: -each[1])[:MAX_PREDICTIONS]

        def work(file: sqlite3.Connection) -> None:
            known = {self._identity(protocol) for protocol in tools.values()}
            stored = file.execute("SELECT id, service, name, digest FROM tool").fetchall()
            earlier = [(id,) for id, *identity in stored if Identity(*identity) in known]
            file.executemany("DELETE FROM prediction WHERE b = ?", earlier)
            id_of = Learning(file, tools, self._identity, time.time()).id_of
            rows = [
                (id_of(b), id_of(a), json.dumps(path), parameter, weight) for (a, path, b, parameter), weight in fit
            ]
            file.executemany("INSERT OR REPLACE INTO prediction VALUES (?, ?, ?, ?, ?)", rows)
            prune_predictions(file)

        self._file.write(work)

    def forget(self, tools: Mapping[str, Protocol] | None = None, *, whole: bool = False) -> int:
        """Forget all about some tools, in every version, corrections too; or everything.

        Args:
            tools: to forget; everything when not given.
            whole: forget also the tools that their services had once, and have no more.

        Returns:
            How many facts were forgotten: edges, shapes, corrections and predictions.

        Raises:
            StoreProblem: the file cannot be written.
        """
        if not self.path.exists():
            return 0
        places = None if tools is None else {place_of(protocol) for protocol in tools.values()}
        services = {service for service, _ in places or ()} if whole else set[str]()
        count = self._file.write(lambda file: forget(file, places, services))
        self._file.compact()
        return count


def _check_parameter(tools: Mapping[str, Protocol], tool: str, parameter: str) -> None:
    known = [each.original for each in parameters_of(_of(tools, tool))]
    if parameter not in known:
        raise UsageError(f"{tool} has no parameter {parameter!r}: take one of {', '.join(known) or 'none'}")


def _of(tools: Mapping[str, Protocol], key: str) -> Protocol:
    if key not in tools:
        raise UsageError(f"there is no tool {key!r}: name one of the {len(tools):,} tools")
    return tools[key]
