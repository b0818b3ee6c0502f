"""Services that nobody here wrote, from the package index, on this machine's loopback: probed by name and path alone.

``python -m benchmarks.probing.services [--service httpbin,datasette,kinto] [--serve NAME] [--json]``

No model. ``make services`` installs three that were chosen, in an environment of their own (``.venv-others``): httpbin
has endpoints that demand a login and answers that are no JSON; datasette serves a small database; kinto needs names out
of other answers. ``make probed-services`` installs five that were drawn (:mod:`benchmarks.probing.services_drawn`).

What could be reached at all is what somebody got JSON from by hand, in :data:`TRIES_BY_HAND` tries, knowing the same
names: ``--serve NAME`` starts a service for that, and :data:`READERS` keeps what came of it.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from atc.cli.console import guarded
from atc.models.base import Model
from atc.probing.call_policy import Budget
from atc.probing.prober import Prober
from atc.probing.report import Report
from atc.tools.tool import Toolset
from benchmarks.common import PUBLISHED, ROOT, AsJson, listed, print_json, show
from benchmarks.probing.services_drawn import DRAWN
from benchmarks.probing.started_services import Counted, Other, counted, document, reads_of, running, truth_of
from benchmarks.probing.truth import Fields, Score, arguments_of, compare, fields_of_schema

SERVICES = ROOT / ".venv-others" / "bin"
READERS = PUBLISHED / "probing" / "reads.jsonl"
"""What people reached by hand: ``{"service": …, "path": …, "reader": …, "reached": true, "tries": 2}`` a line."""
TRIES_BY_HAND = 5
_STATES = ("documented", "partial", "undocumented", "skipped")


def _httpbin(folder: Path, port: int) -> list[str]:
    return [str(SERVICES / "gunicorn"), "--bind", f"127.0.0.1:{port}", "--log-level", "error", "httpbin:app"]


def _datasette(folder: Path, port: int) -> list[str]:
    database = folder / "museum.db"
    with sqlite3.connect(database) as connection:
        connection.executescript(
            "create table rooms (id integer primary key, name text);"
            "create table works (id integer primary key, title text, year int, room int references rooms (id));"
            "insert into rooms values (1, 'North'), (2, 'South');"
            "insert into works values (1, 'Sunrise', 1872, 1), (2, 'Harvest', 1888, 2);"
        )
    connection.close()
    return [str(SERVICES / "datasette"), "serve", str(database), "--port", str(port)]


_KINTO = """
[server:main]
use = egg:waitress#main
host = 127.0.0.1
port = {port}
[app:main]
use = egg:kinto
kinto.storage_backend = kinto.core.storage.memory
kinto.cache_backend = kinto.core.cache.memory
kinto.permission_backend = kinto.core.permission.memory
kinto.bucket_create_principals = system.Everyone
kinto.userid_hmac_secret = benchmark
multiauth.policies = basicauth
"""


def _kinto(folder: Path, port: int) -> list[str]:
    settings = folder / "kinto.ini"
    settings.write_text(_KINTO.format(port=port))
    return [str(SERVICES / "kinto"), "start", "--ini", str(settings)]


def _fill_kinto(base: str) -> None:
    with httpx.Client(base_url=base, trust_env=False) as client:
        for path, data in (
            ("/buckets/town", {}),
            ("/buckets/town/groups/wardens", {"members": ["basicauth:1"]}),
            ("/buckets/town/collections/lamps", {}),
            ("/buckets/town/collections/lamps/records/lamp-1", {"street": "Quay", "watts": 12}),
            ("/buckets/town/collections/lamps/records/lamp-2", {"street": "Hill", "watts": 20}),
        ):
            body = {"data": data, "permissions": {"read": ["system.Everyone"], "write": ["system.Everyone"]}}
            client.put(path, json=body).raise_for_status()


_KNOWN = (
    Other(
        "httpbin",
        (
            "/get", "/headers", "/ip", "/user-agent", "/uuid", "/json", "/anything", "/anything/{anything}",
            "/base64/{value}", "/cache", "/cache/{value}", "/cookies", "/deflate", "/gzip", "/brotli",
            "/delay/{delay}", "/etag/{etag}", "/response-headers", "/stream/{n}", "/encoding/utf8", "/html", "/xml",
            "/bearer", "/basic-auth/{user}/{passwd}",
        ),
        _httpbin,
    ),
    Other(
        "datasette",
        (
            "/-/databases.json", "/-/versions.json", "/-/settings.json", "/-/threads.json", "/-/plugins.json",
            "/-/actor.json", "/{database}.json", "/{database}/{table}.json", "/{database}/{table}/{pk}.json",
        ),
        _datasette,
    ),
    Other(
        "kinto",
        (
            "/", "/__version__", "/__heartbeat__", "/buckets", "/buckets/{bucket_id}", "/buckets/{bucket_id}/groups",
            "/buckets/{bucket_id}/groups/{group_id}", "/buckets/{bucket_id}/collections",
            "/buckets/{bucket_id}/collections/{collection_id}",
            "/buckets/{bucket_id}/collections/{collection_id}/records",
            "/buckets/{bucket_id}/collections/{collection_id}/records/{record_id}", "/permissions",
        ),
        _kinto, _fill_kinto, "/v1",
    ),
)  # fmt: skip
OTHERS = {other.name: other for other in (*_KNOWN, *DRAWN)}


@dataclass(frozen=True)
class Probed:
    """A service that was probed from nothing, without a model.

    Attributes:
        paths: of its reads, by the tools' names.
        writes: requests that changed something, as the proxy saw them.
        precision: of the fields and arguments that were found, held against the service's own document.
    """

    report: Report
    paths: dict[str, str]
    writes: int
    seconds: float
    arguments: Score = field(default_factory=Score)
    returns: Score = field(default_factory=Score)


def probed(other: Other, model: Model | None = None, tries: int = 0) -> Probed:
    """Probe a service from nothing, without a model or with one that is asked so often."""
    with running(other) as base, counted(base) as proxy:
        listed_reads = reads_of(other, base)
        truth = truth_of(other, base)
        tools = Toolset.from_openapi(document(other.name, proxy.base, (*listed_reads, *other.changes)))
        started = time.monotonic()
        with Prober(tools, model, Budget(calls_a_minute=100_000), tries) as prober:
            report = prober.probe()
        seconds = time.monotonic() - started
        return _held_against(truth, other, report, tools, listed_reads, proxy, seconds)


def _held_against(
    truth: dict[str, Any],
    other: Other,
    report: Report,
    tools: Toolset,
    reads: tuple[str, ...],
    proxy: Counted,
    seconds: float,
) -> Probed:
    listed_paths = {path.partition("?")[0] for path in reads}
    paths = {name: tool.protocol.source.operation.split(" ", 1)[-1] for name, tool in tools.items()}
    paths = {name: path for name, path in paths.items() if path in listed_paths}
    arguments = returns = Score()
    for protocol in report.protocols if truth else ():
        operation = truth["paths"].get(paths.get(protocol.name), {}).get("get")
        if operation is None:
            continue
        declared = {p["name"]: p.get("schema", {}) for p in operation.get("parameters", ())}
        true = {"properties": declared, "components": truth.get("components", {})}
        arguments += compare(arguments_of(true), arguments_of(protocol.parameters)).score
        content = operation["responses"]["200"]["content"]
        schema = next(media.get("schema") for kind, media in content.items() if "json" in kind)
        if schema:
            whole = {**schema, "components": truth.get("components", {})}
            returns += compare(*_where_told(fields_of_schema(whole), fields_of_schema(protocol.returns or {}))).score
    return Probed(report, paths, len(proxy.writes(other)), seconds, arguments, returns)


def _where_told(true: Fields, found: Fields) -> tuple[Fields, Fields]:
    """The fields without those below an object of which the document says nothing more."""
    inner = {path[:end] for path in true for end in range(len(path)) if path[end] in ".[{"}
    free = tuple(path for path, known in true.items() if "object" in known.types and path not in inner)
    below = tuple(path + step for path in free for step in ".[{")
    return true, {path: known for path, known in found.items() if not path.startswith(below)}


def reached_by_hand(lines: Iterable[str], service: str) -> set[str] | None:
    """The paths that somebody reached by hand in :data:`TRIES_BY_HAND` tries; ``None`` if nobody read the service."""
    read = [entry for entry in map(json.loads, lines) if entry["service"] == service]
    if not read:
        return None
    return {entry["path"].partition("?")[0] for entry in read if entry["reached"] and entry["tries"] <= TRIES_BY_HAND}


def _serve(name: str) -> None:
    other = OTHERS[name]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the service ends with us
    with running(other) as base:
        print(f"{name} answers at {base}. Its reads, and nothing else is known of it:")
        for path in reads_of(other, base):
            print(f"  {path}")
        print(f"A line for each in {READERS.name}, after at most {TRIES_BY_HAND} tries with curl or the like:")
        shown = {"service": name, "path": "/…", "reader": "your initials", "reached": True, "tries": 2}
        print(f"  {json.dumps(shown, ensure_ascii=False)}", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)


@guarded
def main(
    service: Annotated[str, typer.Option(help="Services, with commas between.")] = ",".join(OTHERS),
    serve: Annotated[
        str | None, typer.Option(help="Start this one, show its paths and stay, for somebody who tries it by hand.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Probe services of others by name and path alone."""
    if serve is not None:
        _serve(listed(serve, OTHERS, "serve")[0])
        return
    found = {name: probed(OTHERS[name]) for name in listed(service, OTHERS, "service")}
    lines = READERS.read_text(encoding="utf-8").splitlines() if READERS.exists() else []
    by_hand = {name: reached_by_hand(lines, name) for name in found}
    if as_json:
        print_json({name: _figures(one, by_hand[name]) for name, one in found.items()})
        return
    columns = ("service", "reads", "by hand", "of these", "documented", "empty", "not", "calls", "writes", "s")
    show("probed by name and path alone, without a model", columns, [_row(n, p, by_hand[n]) for n, p in found.items()])
    for name, one in found.items():
        for line in one.report.lines:
            if line.reason and line.tool in one.paths:
                known = by_hand[name]
                mark = "" if known is None else "reached by hand; " if one.paths[line.tool] in known else "nobody; "
                print(f"{name} {one.paths[line.tool]}: {mark}{line.state}: {line.reason[:150]}")


def _figures(one: Probed, by_hand: set[str] | None) -> dict[str, Any]:
    lines = [line for line in one.report.lines if line.tool in one.paths]
    documented = {one.paths[line.tool] for line in lines if line.state == "documented"}
    return {
        "reads": len(lines),
        "by_hand": None if by_hand is None else len(by_hand),
        "documented_of_these": None if by_hand is None else len(documented & by_hand),
        **{state: sum(line.state == state for line in lines) for state in _STATES},
        "calls": one.report.calls,
        "writes": one.writes,
        "seconds": round(one.seconds, 1),
        "arguments": one.arguments.figures(),
        "returns": one.returns.figures(),
        "lines": [{**line.model_dump(), "path": one.paths[line.tool]} for line in lines],
    }


def _row(name: str, one: Probed, by_hand: set[str] | None) -> tuple[Any, ...]:
    known = _figures(one, by_hand)
    read = ("–" if known[key] is None else known[key] for key in ("by_hand", "documented_of_these"))
    missed = known["undocumented"] + known["skipped"]
    costs = (known["calls"], known["writes"], known["seconds"])
    return (name, known["reads"], *read, known["documented"], known["partial"], missed, *costs)


if __name__ == "__main__":
    typer.run(main)
