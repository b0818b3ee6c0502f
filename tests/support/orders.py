"""A real service that takes orders over HTTP, keeps idempotency keys as it says or not, and loses answers when told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.http import Handler, served

KEY = "Idempotency-Key"


@dataclass
class Orders:
    """What the service got and did.

    Attributes:
        url: where it is.
        keeps: it does what it gets twice with one key once, and answers as it did the first time.
        lost: is called after an effect, before the answer: with the number of the request, from 1. An answer with a
            status and a body is sent in its place; ``None`` is the order; what it raises cuts the connection.
        keys: that came, in order, one for each request; empty where none came.
        done: the orders that were made: effects.
    """

    url: str = ""
    keeps: bool = True
    lost: Callable[[int], tuple[int, Any] | None] = lambda _: None
    keys: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)

    def take(self, key: str, item: str) -> Any:
        """Make an order."""
        self.keys.append(key)
        if self.keeps and key in self.known:
            return self.known[key]
        self.done.append(item)
        self.known[key] = {"id": len(self.done), "item": item}
        return self.known[key]

    def document(self, *parameters: dict[str, Any]) -> dict[str, Any]:
        """Its OpenAPI document; ``parameters`` of the operation that orders."""
        item = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
        operation = {
            "operationId": "order",
            "parameters": list(parameters),
            "requestBody": {"required": True, "content": {"application/json": {"schema": item}}},
            "responses": {
                "200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object"}}}}
            },
        }
        return {
            "openapi": "3.0.3",
            "info": {"title": "Shop", "version": "1"},
            "servers": [{"url": self.url}],
            "paths": {"/orders": {"post": operation}},
        }


def key_header(name: str = KEY, **schema: Any) -> dict[str, Any]:
    """The header parameter of a document that declares keys."""
    return {"name": name, "in": "header", "required": True, "schema": {"type": "string", **schema}}


@contextmanager
def taking_orders() -> Iterator[Orders]:
    """Run the service."""
    orders, lock = Orders(), threading.Lock()

    class Taking(Handler):
        def do_POST(self) -> None:
            content = json.loads(self.read_body())
            with lock:
                made = orders.take(self.headers.get(KEY, ""), content["item"])
                number = len(orders.keys)
            self.say_json(*(orders.lost(number) or (200, made)))

    with served(Taking) as orders.url:
        yield orders
