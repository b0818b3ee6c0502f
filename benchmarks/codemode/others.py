"""Tasks over MCP servers of others: git, time and fetch as they are on PyPI, over a repository and a page made here."""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from atc.errors import EnvironmentProblem
from benchmarks.codemode.tasks import CodeTask, Json, Source, World

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
        if self._page:
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
