"""The page's server: two pages, the interface that they and scripts use, and its end by a signal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

import atc
from atc._host.redaction import Redactor
from atc._records.events import Event
from atc.agent import Agent
from atc.calls.approval import Approve
from atc.errors import AtcError, EnvironmentProblem, JournalError, ModelError, UsageError
from atc.run.apply import PlanChanged
from atc.run.keeping import Edits
from atc.serve.accepting import Crowd, listen
from atc.serve.http import DrainingServer
from atc.serve.request_guard import Refusal, read_body
from atc.serve.ui.desk import Desk
from atc.serve.ui.keys import Keys, Right, error_response, guarded, refused
from atc.serve.ui.parked_runs import MOST_CALLS, ParkedRuns, Stale, none_waits
from atc.serve.ui.planned_runs import PlannedRuns, no_plan
from atc.serve.ui.proposals import card_of
from atc.serve.ui.reading import FIRST_S, Gone, Reading, Views, own_views
from atc.serve.ui.streams import Hub, TooMany, message, with_heartbeats
from atc.serve.ui.work import Busy, Work
from atc.settings import Settings
from atc.traces.stores.base import RUN_ID, RunStore, StoredRun
from atc.traces.summary import CUT_OFF, RUNNING, search

ROWS = 50
"""Of the list, unless more are asked for."""
MOST_ROWS = 500
MAX_BODY = 256 * 1024
"""Bytes of a request's body."""
_NAMED: dict[type, str] = {bool: "true or false", str: "a text", list: "a list"}

log = logging.getLogger("atc.ui")
Handler = Callable[[Request], Awaitable[Response]]


class Ui:
    """All that one server of the page holds (:class:`atc.serve.http.Served`).

    Args:
        store: where the runs are.
        views: how they are shown.
        desk: where approvals wait.
        work: begins runs.
        parked: the runs that wait for approval.
        planned: the plans of dry runs.
        hub: whom to tell.
        keys: who may do what.
        no_yes: why a page says no yes to calls of runs that wait, and to plans; empty where it may.
        redactor: masks credentials in what is shown.
    """

    def __init__(
        self,
        store: RunStore,
        views: Views,
        desk: Desk,
        work: Work,
        parked: ParkedRuns,
        planned: PlannedRuns,
        hub: Hub,
        keys: Keys,
        no_yes: str = "",
        redactor: Redactor | None = None,
    ) -> None:
        self._redactor = redactor or Redactor()
        self.views, self.desk, self.work, self.hub, self.keys = views, desk, work, hub, keys
        self.parked, self.planned, self.no_yes = parked, planned, no_yes
        self.reading = Reading(store, views, hub, work.here, parked, planned)

    def touched(self, run_id: str) -> None:
        """A run of this server has changed."""
        self.hub.touch(run_id)
        self.reading.poke(run_id)

    async def drain(self) -> None:
        """Ask nobody any more, stop the runs that go on, and end the streams."""
        self.desk.end()
        await self.work.end()
        self.hub.end()

    async def aclose(self) -> None:
        """Read no more."""
        self.reading.end()

    # -- pages ---------------------------------------------------------------------------------------------------------

    def _live(self, request: Request, **more: Any) -> dict[str, Any]:
        path = self.keys.path
        addresses = {"api": f"{path}/api", "home": f"{path}/", "run": f"{path}/runs/"}
        about = {"server": f"atc {atc.__version__}", "no_yes": self.no_yes}
        return addresses | {"rights": list(request.scope["rights"])} | about | more

    async def list_page(self, request: Request) -> Response:
        """The list of runs."""
        found = await self.reading.rows(lambda row: True, "", ROWS)
        about = self.work.about if "run" in request.scope["rights"] else None
        live = self._live(request, more=found["more"], total=found["total"], unread=found["unread"], about=about)
        return HTMLResponse(await self.reading.run(self.views.runs_page, found["runs"], live))

    async def run_page(self, request: Request) -> Response:
        """One run."""
        stored = await self._stored(request)
        live = self._live(request, run_id=stored.run_id)

        def page() -> str:
            events, after = self.reading.beginning(stored)
            return self.views.run_page(events, live | {"after": after})

        return HTMLResponse(await self.reading.run(page))

    # -- reading -------------------------------------------------------------------------------------------------------

    async def runs(self, request: Request) -> Response:
        """A part of the list."""
        asked = request.query_params
        limit = _number(asked.get("limit", str(ROWS)), "limit", 1, MOST_ROWS)
        before = asked.get("before", "")
        if before and not RUN_ID.fullmatch(before):
            raise UsageError("before: give the id of a run")
        fits = search(asked.get("query", ""), asked.get("status", ""))
        return _json(await self.reading.rows(fits, before, limit))

    async def events(self, request: Request) -> Response:
        """The stream of one run."""
        stored = await self._stored(request)
        said = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        after = _number(said, "after", 0, 10**12)
        rights: tuple[Right, ...] = request.scope["rights"]

        def state(status: str, source: Any) -> dict[str, Any]:
            can = self.work.can(stored.run_id, status, source) if "run" in rights else []
            here = self.work.here(stored.run_id)
            shown = RUNNING if here and status == CUT_OFF else status
            return {"run_id": stored.run_id, "status": shown, "here": here, "can": can}

        async def parts() -> AsyncIterator[bytes]:
            for pending in self.desk.pending(stored.run_id):
                yield message(pending, event="approval")
            async with contextlib.aclosing(self.reading.follow(stored, after, state)) as follow:  # type: ignore[type-var]
                async for part in follow:
                    yield part

        return self._stream(parts())

    async def value(self, request: Request) -> Response:
        """A whole value."""
        stored = await self._stored(request)
        line = _number(request.query_params.get("line", ""), "line", 1, 10**12)
        pointer = request.query_params.get("pointer", "")
        whole, media_type = await self.reading.run(self.reading.value, stored, line, pointer)
        return Response(whole, media_type=media_type)

    async def approvals(self, request: Request) -> Response:
        """What waits for approval."""
        return _json({"approvals": self.desk.pending()})

    async def approval(self, request: Request) -> Response:
        """One question, with its arguments whole."""
        if (found := await self.reading.run(self.desk.whole, request.path_params["key"])) is None:
            raise Gone("no such question waits any more")
        return _json(found)

    async def waiting(self, request: Request) -> Response:
        """The runs that wait for approval, as the list shows them."""
        await self.reading.fresh(FIRST_S)
        return _json({"runs": self.parked.listed(), "more": self.parked.more})

    async def pending(self, request: Request) -> Response:
        """The calls of one run that wait for approval."""
        stored = await self._stored(request)
        return _json(await self.reading.run(self.parked.card, stored) or none_waits(stored.run_id))

    async def pending_call(self, request: Request) -> Response:
        """The arguments of one of them, whole."""
        return await self._arguments(request, self.parked.whole, "does not wait for approval")

    async def plan(self, request: Request) -> Response:
        """The plan of a dry run."""
        stored = await self._stored(request)
        return _json(await self.reading.run(self.planned.card, stored) or no_plan(stored.run_id))

    async def planned_call(self, request: Request) -> Response:
        """The arguments of one of its calls, whole."""
        return await self._arguments(request, self.planned.whole, "is not planned")

    async def stream(self, request: Request) -> Response:
        """The stream of the list."""

        async def parts() -> AsyncIterator[bytes]:
            with self.hub.subscribed() as hears:
                self.reading.poke()
                for pending in self.desk.pending():
                    yield message(pending, event="approval")
                for card in self.parked.listed():
                    yield message(card | {"more": self.parked.more}, event="parked")
                while not hears.ended:
                    yield hears.take()
                    await hears.wait(1.0)

        return self._stream(parts())

    # -- doing ---------------------------------------------------------------------------------------------------------

    async def begin(self, request: Request) -> Response:
        """Begin a task."""
        asked = await _body(request, {"task": str, "answer": str, "dry_run": bool})
        task = asked.get("task")
        if task is None:
            raise UsageError("task: say in plain words what is wanted")
        run_id = await self.work.begin(task, asked.get("answer") or None, asked.get("dry_run", False))
        return _json({"run_id": run_id}, 201)

    async def resume(self, request: Request) -> Response:
        """Go on with a run."""
        stored = await self._stored(request)
        asked = await _body(request, {"reply": str})
        begun = await self.reading.run(self.reading.begun, stored)
        return _json({"run_id": await self.work.resume(stored, begun.get("source"), asked.get("reply"))}, 202)

    async def apply(self, request: Request) -> Response:
        """Apply the plan of a dry run, as it was shown: the yes to all of it."""
        stored = await self._stored(request)
        seen = (await _body(request, {"digest": str})).get("digest")
        if not seen:
            raise UsageError("digest: give that of the plan that was shown")
        if self.no_yes:
            raise Refusal(403, "rights", self.no_yes)
        begun = await self.reading.run(self.reading.begun, stored)
        try:
            card = await self.reading.run(self.planned.card, stored)
            if card is None or card["digest"] != seen:
                raise PlanChanged(f"the plan of run {stored.run_id} is not what was shown: look at it again")
            return _json({"run_id": await self.work.apply(stored, begun.get("source"), seen)}, 202)
        except PlanChanged as error:
            fresh = await self.reading.run(self.planned.card, stored) or no_plan(stored.run_id)
            return _json({"error": {"kind": "Stale", "message": str(error)}, "plan": fresh}, 409)

    async def keep(self, request: Request) -> Response:
        """Show what a run would be as a tool; with the digest of what was shown, keep it: the yes to all of it."""
        stored = await self._stored(request)
        asked = await _body(request, {"name": str, "about": str, "lift": list, "constants": list, "digest": str})
        seen, name = asked.get("digest"), str(asked.get("name", ""))
        if seen and self.no_yes:
            raise Refusal(403, "rights", self.no_yes)
        named = [each for each in asked.get("constants") or () if isinstance(each, str)]
        edits = Edits(lift=asked.get("lift") or (), constants=named, about=str(asked.get("about", "")))
        begun = await self.reading.run(self.reading.begun, stored)
        proposal = await self.work.propose(stored, begun.get("source"), name, edits)
        card = await self.reading.run(card_of, proposal, self._redactor)
        if not seen:
            return _json({"proposal": card})
        if card["digest"] != seen:
            message = f"run {stored.run_id} would not be the tool that was shown: look at it again"
            return _json({"error": {"kind": "Stale", "message": message}, "proposal": card}, 409)
        return _json({"kept": await self.work.keep(proposal)}, 201)

    async def stop(self, request: Request) -> Response:
        """Stop a run of this server."""
        run_id = request.path_params["run_id"]
        await _body(request, {})
        if not self.work.stop(run_id):
            raise Gone("this server does not run it: stop it where it runs")
        return _json({"run_id": run_id}, 202)

    async def decide(self, request: Request) -> Response:
        """Approve or deny."""
        asked = await _body(request, {"decision": str})
        decision = asked.get("decision")
        if decision not in ("approve", "deny"):
            raise UsageError("decision: give approve or deny")
        if (settled := self.desk.decide(request.path_params["key"], decision)) is None:
            raise Gone("no such question waits any more")
        counts, own = settled
        return _json({"decision": counts}, 200 if own or counts == decision else 409)

    async def decide_pending(self, request: Request) -> Response:
        """Approve or deny calls of a run that waits, each as it was shown."""
        stored = await self._stored(request)
        asked = await _body(request, {"decision": str, "calls": list})
        decision, seen = asked.get("decision"), _seen(asked.get("calls"))
        if decision not in ("approve", "deny"):
            raise UsageError("decision: give approve or deny")
        if decision == "approve" and self.no_yes:
            raise Refusal(403, "rights", self.no_yes)
        await self.reading.run(lambda: self.parked.decide(stored, seen, yes=decision == "approve"))
        self.reading.poke(stored.run_id)
        return _json(await self.reading.run(self.parked.card, stored) or none_waits(stored.run_id))

    # ------------------------------------------------------------------------------------------------------------------

    async def _stored(self, request: Request) -> StoredRun:
        return await self.reading.run(self.reading.stored, request.path_params["run_id"])

    async def _arguments(self, request: Request, whole: Callable[[StoredRun, int], str | None], why: str) -> Response:
        stored = await self._stored(request)
        number = _number(request.path_params["call"], "call", 1, 10**9)
        if (text := await self.reading.run(whole, stored, number)) is None:
            raise Gone(f"call {number} {why}")
        return _json({"text": text})

    def _stream(self, parts: AsyncIterator[bytes]) -> Response:
        self.hub.room()
        return StreamingResponse(with_heartbeats(parts), media_type="text/event-stream")


def make_app(ui: Ui, port: int) -> ASGIApp:
    """Return the server over ASGI."""

    async def home(request: Request) -> Response:
        return RedirectResponse(f"{ui.keys.path}/", 303)

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(ui.reading.watch())
        try:
            yield
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    def route(path: str, handler: Handler, right: Right = "read", method: str = "GET") -> Route:
        return Route(path, _answered(handler, right), methods=[method])

    routes = [
        route("/", ui.list_page),
        route("/runs", home),
        route("/runs/{run_id}", ui.run_page),
        route("/api/runs", ui.runs),
        route("/api/runs/{run_id}/events", ui.events),
        route("/api/runs/{run_id}/value", ui.value),
        route("/api/approvals", ui.approvals),
        route("/api/approvals/{key}", ui.approval),
        route("/api/pending", ui.waiting),
        route("/api/runs/{run_id}/pending", ui.pending),
        route("/api/runs/{run_id}/pending/{call}", ui.pending_call),
        route("/api/runs/{run_id}/plan", ui.plan),
        route("/api/runs/{run_id}/plan/{call}", ui.planned_call),
        route("/api/stream", ui.stream),
        route("/api/tasks", ui.begin, "run", "POST"),
        route("/api/runs/{run_id}/resume", ui.resume, "run", "POST"),
        route("/api/runs/{run_id}/apply", ui.apply, "run", "POST"),
        route("/api/runs/{run_id}/keep", ui.keep, "run", "POST"),
        route("/api/runs/{run_id}/stop", ui.stop, "run", "POST"),
        route("/api/approvals/{key}", ui.decide, "approve", "POST"),
        route("/api/runs/{run_id}/pending", ui.decide_pending, "approve", "POST"),
    ]
    app = Starlette(routes=routes, lifespan=life)
    app.router.redirect_slashes = False
    return guarded(app, ui.keys, port)


def _answered(handler: Handler, right: Right) -> Handler:
    async def answered(request: Request) -> Response:
        if right not in request.scope["rights"]:
            return refused(Refusal(403, "rights", f"your address does not give the right to {right}"))
        try:
            return await handler(request)
        except Exception as error:
            return _told(error)

    return answered


def _told(error: Exception) -> Response:
    kind = type(error).__name__
    match error:
        case Refusal():
            return refused(error)
        case TooMany():
            return refused(Refusal(429, "streams", "too many streams are open: close a page", retry_after=5))
        case Gone() | FileNotFoundError():
            return error_response(404, "UsageError", str(error))
        case Busy():
            return refused(Refusal(429, "busy", str(error), retry_after=5))
        case Stale() | JournalError():
            return error_response(409, kind, str(error))
        case UsageError():
            return error_response(400, kind, str(error))
        case EnvironmentProblem() | ModelError():
            return error_response(503, kind, str(error))
        case OSError():
            text = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
            return error_response(503, "EnvironmentProblem", text)
        case AtcError():
            return error_response(500, kind, str(error))
    log.error("a request failed: %s", kind, exc_info=error)
    return error_response(500, kind, "this is a fault of ATC's: its log has more")


def _number(text: str, name: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 13 or not least <= int(text) <= most:
        raise UsageError(f"{name}: give a number from {least} to {most}")
    return int(text)


def _json(value: Any, status: int = 200) -> Response:
    try:
        text = json.dumps(value, default=str, allow_nan=False)
    except ValueError:  # a number that JSON has not is a text
        text = json.dumps(json.loads(json.dumps(value, default=str), parse_constant=str))
    return Response(text, status, media_type="application/json")


async def _body(request: Request, types: dict[str, type]) -> dict[str, Any]:
    raw = await read_body(request.scope, request.receive, MAX_BODY)
    try:
        value = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        raise UsageError("the body is no JSON") from None
    if not isinstance(value, dict):
        raise UsageError("the body is no JSON object")
    for name, given in value.items():
        if name not in types:
            raise UsageError(
                f"there is no field {name[:40]!r}; there {'are ' + ', '.join(types) if types else 'is none'}"
            )
        if given is not None and type(given) is not types[name]:
            raise UsageError(f"{name}: give {_NAMED[types[name]]}")
    return {name: given for name, given in value.items() if given is not None}


def _seen(calls: Any) -> dict[int, str]:
    found: dict[int, str] = {}
    for each in calls or ():
        number, digest = (each.get("call"), each.get("digest")) if isinstance(each, dict) else (None, None)
        if type(number) is not int or not isinstance(digest, str) or number in found:
            raise UsageError('calls: give {"call": number, "digest": text} of each, once')
        found[number] = digest
    if not 0 < len(found) <= MOST_CALLS:
        raise UsageError(f"calls: name those that were shown, {MOST_CALLS} at most")
    return found


HOST = "127.0.0.1"
MAX_OPEN, MAX_SILENT = 256, 64
"""Connections at once, and of these such as owe a request."""

OpenAgent = Callable[[Approve, Callable[[Event], None]], Agent]
"""Opens an agent that asks for approval, and tells its events, as it is given."""


@dataclass(frozen=True)
class Address:
    """Where the page is.

    Attributes:
        port: on this machine.
        path: under which all is served.
        tokens: by the right that each gives.
    """

    port: int
    path: str
    tokens: dict[Right, str]

    def url(self, right: Right | None = None) -> str:
        """The address to open, with the token of a right; without any, what scripts put their paths after."""
        plain = f"http://{HOST}:{self.port}{self.path}/"
        return plain if right is None else f"{plain}?token={self.tokens[right]}"


def make_ui(
    store: RunStore,
    settings: Settings,
    open_agent: OpenAgent | None,
    source: str = "",
    views: Views | None = None,
    *,
    at_terminal: bool = False,
) -> Ui:
    """The parts of a server.

    Args:
        store: where runs are.
        settings: how long a question waits, whether anything may be approved, and what no page may show.
        open_agent: opens the agent that runs tasks; none begins without.
        source: where its tools are, as traces have it.
        views: how runs are shown; ATC's own by default.
        at_terminal: a person begins the server. Without one no page says yes to a run that waits: a model with a shell
            could begin a page, too.

    Raises:
        AtcError: as ``open_agent``.
    """
    hub = Hub()
    desk = Desk(hub, Redactor(settings.secrets), settings.ask_wait_s)
    work = Work(lambda run_id: ui.touched(run_id))
    if open_agent is not None:
        never = settings.approve == "never"
        work.use(open_agent("never" if never else desk.ask, work.heard), source)
    parked = ParkedRuns(store, settings, work.goes_on)
    no_yes = _why_no_yes(parked, settings, at_terminal)
    keys = Keys("run" if open_agent is not None else "read" if no_yes else "approve")
    planned = PlannedRuns(settings, work.goes_on)
    ui = Ui(store, views or own_views(), desk, work, parked, planned, hub, keys, no_yes, Redactor(settings.secrets))
    return ui


def _why_no_yes(parked: ParkedRuns, settings: Settings, at_terminal: bool) -> str:
    """Return why no page says yes to a run that waits; empty where it may. An approver's key needs no terminal."""
    try:
        is_approver = parked.decider().is_approver
    except AtcError as error:  # who may only look still may
        return str(error)
    return _NEVER if settings.approve == "never" else "" if at_terminal or is_approver else _NO_TERMINAL


_NO_TERMINAL = (
    "this page was started without a terminal, so it approves no call and no plan: start `atc ui` at a terminal, "
    "or use `atc runs approve` and `atc runs apply`"
)
_NEVER = "this page was started with ATC_APPROVE=never, so it approves nothing"


async def serve_ui(ui: Ui, port: int, ready: Callable[[Address], None] = lambda address: None) -> None:
    """Serve until a signal ends it: runs that go on are asked to stop.

    Args:
        ui: the parts.
        port: on this machine; 0 takes a free one.
        ready: told the address as soon as a browser can connect.

    Raises:
        EnvironmentProblem: the port cannot be listened at.
    """
    try:
        sock = listen(HOST, port)
    except EnvironmentProblem as error:
        cause = error.__context__
        why = os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else error
        raise EnvironmentProblem(
            f"the page cannot be served at {HOST} port {port} ({why}): give another --port; 0 takes a free one"
        ) from None
    with closing(sock):
        there = sock.getsockname()[1]
        ready(Address(there, ui.keys.path, dict(ui.keys.tokens)))
        await DrainingServer(make_app(ui, there), ui, Crowd(MAX_OPEN, MAX_SILENT)).serve([sock])
