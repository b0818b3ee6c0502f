"""The service's connections: what each costs is its tenant's, who is read later when he has had his share."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from atc.accepting import Crowd
from atc.sandboxes.service.accounts import Accounts, Visit, visit_of_this
from atc.serving import CrowdedProtocol

MAX_FRAGMENTS = 4_096
"""Pieces of one message: each takes memory, also an empty one, which no limit of bytes sees."""


class Requests(CrowdedProtocol):
    """Requests over HTTP, each of which may be another tenant's."""

    accounts: Accounts
    _visit: Visit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._visit = self.accounts.visit()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._visit.first(super().data_received, data)

    def on_response_complete(self) -> None:
        self._visit.settle()
        super().on_response_complete()
        if (wait := self._visit.wait_s()) and not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_later(wait, self.flow.resume_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._visit.settle()


def requests_of(crowd: Crowd, accounts: Accounts) -> type[Requests]:
    """The protocol of one service."""
    return type("Requests", (Requests,), {"crowd": crowd, "accounts": accounts})


class RunSocket(WebSocketsSansIOProtocol):
    """A run's WebSocket. It begins within a request, whose visit it goes on with."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._visit = visit_of_this()
        self._held = False

    def data_received(self, data: bytes) -> None:
        if self._visit is None:
            super().data_received(data)
            return
        self._visit.first(super().data_received, data)
        if not self._held and (wait := self._visit.wait_s()):
            self._held = True
            self.transport.pause_reading()
            self.loop.call_later(wait, self._go_on)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._visit is not None:
            self._visit.settle()

    async def receive(self) -> Any:
        if self._visit is not None and self._visit.account is not None:
            await self._visit.account.turn()
        event = await super().receive()
        if self._held:
            self.transport.pause_reading()
        return event

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, "a message in too many pieces")
            self.handle_parser_exception()

    def _go_on(self) -> None:
        if self._visit is not None and (wait := self._visit.wait_s()):
            self.loop.call_later(wait, self._go_on)
            return
        self._held = False
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()
