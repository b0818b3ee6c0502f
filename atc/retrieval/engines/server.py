"""Vectors in a collection of a Qdrant server, by its REST protocol.

The collection is one that an index made: it has one named vector, and a point without a vector holds what the
collection says of itself. A collection that something else made is never changed. Nothing that the server sends is
taken unseen: an answer is bounded in size and time, parsed strictly, and followed nowhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from atc.errors import VectorsUnavailable
from atc.retrieval.engines.address import Address
from atc.retrieval.engines.base import MARKER, Beat, Digests, Facts, Keys
from atc.retrieval.vectors import Floats

PAGE, AT_ONCE = 5_000, 500
"""Points that are read in a request, and written or named in one."""
MAX_ANSWER = 32_000_000
"""Bytes of an answer; a page of points has under one million."""
ASK_S, CHANGE_S, CONNECT_S = 10.0, 120.0, 5.0
"""Seconds without a byte of the server while it is asked, and while it changes."""
_NEIGHBOURS, _EFFORT_BUILD, _EFFORT_SEARCH = 16, 64, 256
_VECTOR, _TEXT, _FACTS = "tool", "text", "atc"


class ServerEngine:
    """A collection of a server.

    Args:
        address: of the collection.
        key: the server's API key, where it wants one.
        transport: in place of the network, for tests.
    """

    def __init__(self, address: Address, key: str = "", transport: httpx.BaseTransport | None = None) -> None:
        self.place = address.text
        self.home: Path | None = None
        self._path = f"/collections/{address.collection}"
        self._key = key
        self._server, self._transport = address.server, transport
        self._client: httpx.Client | None = None

    def facts(self) -> Facts | None:
        if self._ask("GET", "", missing=True) is None:
            return None
        records = self._ask("POST", "/points", {"ids": [MARKER], "with_payload": True, "with_vector": False})
        facts = None
        if isinstance(records, list) and len(records) == 1 and isinstance(records[0], dict):
            payload = records[0].get("payload")
            facts = Facts.of_record(payload.get(_FACTS)) if isinstance(payload, dict) else None
        if facts is None:
            raise VectorsUnavailable(
                f"the collection {self.place} was made by something else than an index of tools: name another one"
            )
        return facts

    def begin(self, facts: Facts) -> None:
        if self._ask("GET", "", missing=True) is None:
            self._change(
                "PUT",
                "",
                {
                    "vectors": {_VECTOR: {"size": facts.dimensions, "distance": "Dot", "on_disk": True}},
                    "hnsw_config": {"m": _NEIGHBOURS, "ef_construct": _EFFORT_BUILD},
                    "on_disk_payload": True,
                },
            )
        self._write(facts)

    def held(self) -> Iterator[tuple[Keys, Digests]]:
        offset: Any = None
        before = -1
        while True:
            asked = {"limit": PAGE, "with_payload": [_TEXT], "with_vector": False, "offset": offset}
            page = self._ask("POST", "/points/scroll", asked)
            if not isinstance(page, dict) or not isinstance(records := page.get("points"), list):
                raise self._wrong("no page of points")
            tools = [each for each in records if isinstance(each, dict) and each.get("id") != MARKER]
            if len(tools) < len(records) - 1 or len(records) > PAGE:
                raise self._wrong("a page that holds something else than points")
            if tools:
                yield self._keys([each.get("id") for each in tools]), self._digests(tools)
            offset = page.get("next_page_offset")
            if offset is None:
                return
            if type(offset) is not int or offset <= before:  # it would go round for ever
                raise self._wrong("pages in no order")
            before = offset

    def put(self, keys: Keys, digests: Digests, vectors: Floats) -> None:
        points = [
            {"id": key, "vector": {_VECTOR: vector}, "payload": {_TEXT: bytes(digest).hex()}}
            for key, digest, vector in zip(keys.tolist(), digests, vectors.tolist(), strict=True)
        ]
        for at in range(0, len(points), AT_ONCE):
            self._change("PUT", "/points?wait=true", {"points": points[at : at + AT_ONCE]})

    def drop(self, keys: Keys) -> None:
        for at in range(0, len(keys), AT_ONCE):
            self._change("POST", "/points/delete?wait=true", {"points": keys[at : at + AT_ONCE].tolist()})

    def finish(self, facts: Facts, beat: Beat) -> None:
        """The server connects near vectors by itself, behind what it is asked."""
        self._write(facts)

    def clear(self) -> None:
        raise VectorsUnavailable(f"the collection {self.place} is not deleted by an index: delete it yourself")

    def nearest(self, vector: Floats, count: int, among: Keys | None = None) -> tuple[Keys, Floats]:
        asked: dict[str, Any] = {
            "query": vector.tolist(),
            "using": _VECTOR,
            "limit": count,
            "params": {"hnsw_ef": _EFFORT_SEARCH},
            "with_payload": False,
            "with_vector": False,
        }
        if among is not None:
            asked["filter"] = {"must": [{"has_id": among.tolist()}]}
        found = self._ask("POST", "/points/query", asked)
        points = found.get("points") if isinstance(found, dict) else None
        if not isinstance(points, list) or not all(isinstance(point, dict) for point in points):
            raise self._wrong("no list of points")
        scores = [point.get("score") for point in points]
        if not all(isinstance(score, int | float) and not isinstance(score, bool) for score in scores):
            raise self._wrong("a score that is no number")
        try:
            return self._keys([point.get("id") for point in points]), np.array(scores, np.float32)
        except OverflowError:
            raise self._wrong("a score that is no number") from None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _opened(self) -> httpx.Client:
        if self._client is None:
            # No redirect is followed and no proxy of the environment is used: the key goes to this address alone.
            self._client = httpx.Client(
                base_url=self._server,
                headers={"accept-encoding": "identity"} | ({"api-key": self._key} if self._key else {}),
                trust_env=False,
                transport=self._transport,
            )
        return self._client

    def _write(self, facts: Facts) -> None:
        marker = {"id": MARKER, "vector": {}, "payload": {_FACTS: facts.record()}}
        self._change("PUT", "/points?wait=true", {"points": [marker]})

    def _change(self, method: str, path: str, body: Any) -> None:
        found = self._ask(method, path, body, within_s=CHANGE_S)
        done = found is True or (isinstance(found, dict) and found.get("status") in ("completed", "acknowledged"))
        if not done:
            raise self._wrong("that it did not do what was asked")

    def _ask(self, method: str, path: str, body: Any = None, *, missing: bool = False, within_s: float = ASK_S) -> Any:
        """The ``result`` of an answer; ``None`` where ``missing`` is allowed and nothing is there."""
        timeout = httpx.Timeout(within_s, connect=CONNECT_S)
        late = time.monotonic() + 2 * within_s
        try:
            with self._opened().stream(method, self._path + path, json=body, timeout=timeout) as answer:
                content = bytearray()
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > MAX_ANSWER:
                        raise self._wrong(f"more than {MAX_ANSWER:,} bytes")
                    if time.monotonic() > late:
                        raise self._wrong("its answer a few bytes at a time")
                status = answer.status_code
        except httpx.HTTPError as error:
            problem = str(error) or type(error).__name__
            raise VectorsUnavailable(
                f"the vector engine at {self.place} cannot be reached ({self._clean(problem)}): start it, or name "
                "another with the setting `vectors`"
            ) from None
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        if missing and status == 404:
            return None
        if status in (401, 403):
            raise VectorsUnavailable(
                f"the vector engine at {self.place} refuses the key: set `vectors_key` (ATC_VECTORS_KEY) to one that "
                "may read this collection, and write it where tools are indexed"
            )
        if status != 200 or not isinstance(document, dict):
            raise VectorsUnavailable(
                f"the vector engine at {self.place} refused, status {status}{self._said(document)}"
            )
        return document.get("result")

    def _said(self, document: Any) -> str:
        status = document.get("status") if isinstance(document, dict) else None
        reason = status.get("error") if isinstance(status, dict) else None
        return f": {self._clean(reason)}" if isinstance(reason, str) else ""

    def _clean(self, text: str) -> str:
        """A stranger's words, short, on one line, without the key."""
        line = "".join(each if each.isprintable() else " " for each in text[:300])
        return line.replace(self._key, "[key]") if self._key else line

    def _wrong(self, what: str) -> VectorsUnavailable:
        return VectorsUnavailable(
            f"the vector engine at {self.place} sent {what}: is it a Qdrant server of 1.10 or later?"
        )

    def _keys(self, ids: list[Any]) -> Keys:
        if not all(type(each) is int and MARKER < each < 2**64 for each in ids):
            raise self._wrong("a point that no index put there")
        return np.array(ids, np.uint64)

    def _digests(self, records: list[dict[str, Any]]) -> Digests:
        try:
            joined = bytes.fromhex("".join(each["payload"][_TEXT] for each in records))
            return np.frombuffer(joined, np.uint8).reshape(len(records), 16)
        except (TypeError, KeyError, ValueError):
            raise self._wrong("a point that no index put there") from None
