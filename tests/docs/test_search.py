"""A question that a user types into the site's search lands on the paragraph that answers it."""

from __future__ import annotations

import functools
import http.server
import subprocess
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.support.browser import Page, browsing, chromium
from tests.support.docs import ROOT

MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"
QUESTIONS = {
    "how do I approve from my phone": "approval/#approve-from-your-phone",
    "which data goes to the model": "data-flow/#which-data-goes-to-the-model",
    "can it run twice": "how-it-works/#nothing-is-done-twice",
    "use it in Claude Code": "tutorials/mcp-client/#install-it-in-claude-code",
    "where are my runs kept": "security/#kept-on-disk",
    "delete a run": "runs/#delete",
    "use it with Ollama": "models/#providers-by-name",
    "does it work on Windows": "install/#where-it-runs",
    "which packages can a program import": "security/#packages-that-a-program-can-import",
    "how do I give it an API key": "tools/#api-keys-and-other-credentials",
    "how do I limit the cost": "models/#limit-cost-tokens-and-time",
    "what happens when a tool fails": "how-it-works/#when-a-tool-fails",
    "test my agent without a model": "extending/#test-your-own-agent",
    "resume a run that was killed": "runs/#resume",
    "permissions that allow calls": "approval/#permissions-file",
    "pydantic model as answer": "answers/#typed-answers",
    "thousands of tools": "many-tools/#index-thousands-of-tools",
    "an API without documentation": "probing/",
    "exit codes": "reference/messages/#exit-codes",
    "send traces to OpenTelemetry": "runs/#opentelemetry",
}
"""Each question, and the paragraph that is among the first three pages found, as one of those shown of its page."""
FIRST = 3
_RESULTS = "[...document.querySelectorAll('.md-search-result__item')]"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, str]]:
    """A browser, and the address of the site, served on this machine."""
    chromium()
    if not MKDOCS.exists():
        pytest.skip("no mkdocs here: `make docs` brings it")
    site = tmp_path_factory.mktemp("site")
    subprocess.run(
        [MKDOCS, "build", "--quiet", "--site-dir", site],
        cwd=ROOT,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "HOME": str(site)},
        check=True,
        timeout=300,
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        with browsing() as browser:
            yield browser, f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


def results(page: Page, site: str, question: str) -> list[list[str]]:
    """Return the addresses of the first results: of each the page and the paragraphs that are shown of it."""
    page.open(f"{site}?q={quote(question)}")
    page.wait(f"{_RESULTS}.length > 0")
    found: list[list[str]] = page.run(
        f"{_RESULTS}.slice(0, {FIRST}).map(i => [...i.querySelectorAll('a')].map(a => a.href))"
    )
    return [[link.partition("?")[0].removeprefix(site) + _fragment(link) for link in each] for each in found]


def _fragment(link: str) -> str:
    return "#" + link.partition("#")[2] if "#" in link else ""


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_lands_on_its_paragraph(question: str, page: tuple[Page, str]) -> None:
    found = results(*page, question)
    assert any(link.startswith(QUESTIONS[question]) for each in found for link in each), found


def test_each_paragraph_is_there() -> None:
    for target in QUESTIONS.values():
        assert (ROOT / "docs" / f"{target.partition('/#')[0].rstrip('/')}.md").exists(), target
