"""Services that nobody here wrote, from the package index, on this machine's loopback: probed by name and path alone.

``python -m benchmarks.probing_services [--service httpbin,datasette,kinto] [--json]``

No model. `make services` installs them, in an environment of their own (``.venv-others``). httpbin has endpoints that
demand a login and answers that are no JSON; datasette serves a small database; kinto needs names out of other answers.
"""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from atc.cli.console import guarded
from atc.probing.call_policy import Budget
from atc.probing.prober import Prober
from atc.probing.report import Report
from atc.tools.tool import Toolset
from benchmarks.common import AsJson, listed, print_json, show

SERVICES = Path(__file__).resolve().parent.parent / ".venv-others" / "bin"
_START_S = 60.0


@dataclass(frozen=True)
class Other:
    """A service of others.

    Attributes:
        reads: its paths, all that its document tells.
        command: how it is started, given a folder of its own and a port.
        prepare: fills it, given its address.
        prefix: of all its paths.
    """

    name: str
    reads: tuple[str, ...]
    command: Callable[[Path, int], list[str]]
    prepare: Callable[[str], None] = lambda _: None
    prefix: str = ""


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


OTHERS = {other.name: other for other in (
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
)}  # fmt: skip


def document(other: Other, base: str) -> dict[str, Any]:
    """An OpenAPI document that has the names of paths and of what stands in them, and nothing else."""
    paths: dict[str, Any] = {}
    for path in other.reads:
        names = re.findall(r"{(\w+)}", path)
        parameters = [{"name": name, "in": "path", "required": True, "schema": {}} for name in names]
        paths[path] = {"get": {"parameters": parameters, "responses": {"200": {"description": ""}}}}
    info = {"title": other.name, "version": "1"}
    return {"openapi": "3.0.3", "info": info, "servers": [{"url": base}], "paths": paths}


@contextmanager
def running(other: Other) -> Iterator[str]:
    """Start a service on a free port of this machine, fill it, and yield its address.

    Raises:
        FileNotFoundError: it is not installed.
        RuntimeError: it did not come up.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = other.command(Path(folder), port)
        quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
        process = subprocess.Popen(command, cwd=folder, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        base = f"http://127.0.0.1:{port}{other.prefix}"
        try:
            _await(process, base, other.name)
            other.prepare(base)
            yield base
        finally:
            process.terminate()
            process.wait(10)


def _await(process: subprocess.Popen[bytes], base: str, name: str) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(f"{base}/", trust_env=False)
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise RuntimeError(f"{name} did not come up within {_START_S:g} s")


def probed(other: Other) -> Report:
    """Probe a service from nothing, without a model."""
    with running(other) as base:
        tools = Toolset.from_openapi(document(other, base))
        with Prober(tools, tries=0, budget=Budget(calls_a_minute=100_000)) as prober:
            return prober.probe()


@guarded
def main(
    service: Annotated[str, typer.Option(help="Services, with commas between.")] = ",".join(OTHERS),
    as_json: AsJson = False,
) -> None:
    """Probe services of others by name and path alone."""
    reports = {name: probed(OTHERS[name]) for name in listed(service, OTHERS, "service")}
    if as_json:
        print_json({name: report.to_json() for name, report in reports.items()})
        return
    states = ("documented", "partial", "undocumented", "skipped")
    rows = [(name, len(r.lines), *(r.count(s) for s in states), r.calls) for name, r in reports.items()]  # type: ignore[arg-type]
    show("probed by name and path alone, without a model", ("service", "reads", *states, "calls"), rows)
    for name, report in reports.items():
        for line in report.lines:
            if line.reason:
                print(f"{name} {line.tool}: {line.state}: {line.reason[:150]}")


if __name__ == "__main__":
    typer.run(main)
