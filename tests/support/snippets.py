"""What runs each snippet of the documents: one table; ``python -m tests.support.snippets`` counts them by it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.docs import DOCUMENTS, ROOT, Block, blocks_of

ALL = [*DOCUMENTS, ROOT / "sandbox" / "THREATS.md"]
SERVICES = "tests/docs/test_snippet_services.py"
RUN, ELSEWHERE, PARSED, SHOWN = "run", "run elsewhere", "parsed", "shown"
LANGUAGES = {
    "python": (RUN, "tests/docs/test_docs.py"),
    "py": (RUN, "tests/frameworks/test_frameworks_docs.py"),
    "toml": (RUN, "tests/docs/test_snippets.py"),
    "json": (RUN, "tests/docs/test_snippets.py"),
    "yaml": (RUN, "tests/docs/test_snippets.py"),
    "sql": (ELSEWHERE, "tests/traces/test_postgres.py"),
    "dockerfile": (PARSED, "an image with a package from the package index"),
    "text": (SHOWN, "output, a dialogue, or a form with placeholders"),
}
"""What runs the blocks of a language that are not lines of commands."""
TABLE: list[tuple[str, str, str]] = [
    (r"^\$ atc (?!model (pull|serve|info)|tools serve-demo)", RUN, "tests/docs/test_docs.py"),
    (r"^\$ echo .*\| atc chat", RUN, "tests/docs/test_snippets.py"),
    (r"^export SHOP=|\"\$SHOP\"|claude-code --move-servers|^atc mcp uninstall claude-code", RUN,
     "tests/docs/test_service_tutorials.py"),
    (r"^atc mcp ", RUN, SERVICES),
    (r"examples/probing\.py 8766", ELSEWHERE, "tests/docs/test_service_tutorials.py"),
    (r"127\.0\.0\.1:8765|ATC_AUTH_STATION_KEY", ELSEWHERE,
     "tests/docs/test_service_tutorials.py"),
    (r"^\$ make demo", ELSEWHERE, "tests/docs/test_makefile.py"),
    (r"^(\$ )?make (test|check)\b", ELSEWHERE, ".ci/run"),
    (r"^(\$ )?make image\b", ELSEWHERE, ".ci/run"),
    (r"^(\$ )?make peers\b", ELSEWHERE, "tests/benchmarks/tasks/test_peer_agents.py"),
    (r"^python -m benchmarks\.compare ", ELSEWHERE, "tests/benchmarks/tasks/test_compare.py"),
    (r"^python -m benchmarks\.fetch\b", ELSEWHERE, "tests/benchmarks/environments/test_fetch.py"),
    (r"^pytest ", ELSEWHERE, "tests/testing/test_recorded_runs.py"),
    (r"^inspect eval ", ELSEWHERE, "tests/frameworks/test_inspect.py"),
    (r"^make help", ELSEWHERE, "tests/docs/test_snippets.py"),
    (r"^make release-check", ELSEWHERE, "tests/package/test_release.py"),
    (r"^(pipx|uv|uvx|pip) .*(\.whl|atc-runtime)", ELSEWHERE, "tests/package/test_installed.py"),
    (r"^pip install (-e|\./research)", ELSEWHERE, "Makefile"),
    (r"^pip install torch", ELSEWHERE, ".ci/run"),
    (r"^pip install inspect-ai", ELSEWHERE, "Makefile"),
    (r"^python3 -m venv", ELSEWHERE, "Makefile"),
    (r"\batc model pull\b", ELSEWHERE, "tests/models/test_models_fetch.py"),
    (r"^(\$ )?python examples/\w+\.py|--strategy examples/", RUN, "tests/docs/test_examples.py"),
    (r"^\$ atc model info", RUN, "tests/docs/test_snippets.py"),
    (r"^\$ atc model serve", ELSEWHERE, "tests/docs/test_examples.py"),
    (r"^git clone", SHOWN, "no address exists yet"),
    (r"^(docker run|FROM|USER|RUN) ?", ELSEWHERE, "tests/sandboxes/test_docker.py"),
    (r"^kubectl |^token\(\)|^password=|tenants\b", ELSEWHERE, "tests/package/test_manifests.py"),
    (r"^npx ", ELSEWHERE, "tests/serve/test_other_clients.py"),
    (r"^python -m benchmarks\.tasks --summary benchmarks/published", RUN, "tests/docs/test_snippets.py"),
    (r"^python -m benchmarks\.(tasks|paper|environments\.self_test) ", RUN, SERVICES),
    (r"^python -m atc_research_benchmarks\.decoder ", RUN, SERVICES),
    (r"^export ATC_(SERVE_TOKEN|SANDBOX)", RUN, SERVICES),
    (r"^export ", RUN, "tests/docs/test_snippets.py"),
    (r"^echo '", RUN, "tests/docs/test_snippets.py"),
    (r"^atc (ui|sandbox serve)\b", RUN, SERVICES),
    (r"^atc tools learn (codes|decoder|--(index|pairs|tools))", RUN, SERVICES),
    (r"^atc .*(--sandbox (docker|http)|--on ray|host\.example|127\.0\.0\.1:8321|uvx|HOST:)", RUN, SERVICES),
    (r"^ATC_\w+=", RUN, SERVICES),
    (r"^atc probe |^atc tools list ((--tools|-t) )?har:", RUN, SERVICES),
    (r"--index (tools-index|DIR)", RUN, SERVICES),
    (r"^atc tools index ((--tools|-t) )?(catalogue\.yaml|tools/)", RUN, SERVICES),
    (r"--tools shop\.(yaml|json)|--documents|catalogue\.yaml", RUN, SERVICES),
    (r"^atc trust", RUN, SERVICES),
    (r"--tools servers\.json", RUN, SERVICES),
    (r"^atc graph (draw|correct)", RUN, "tests/docs/test_snippets.py"),
    (r"^atc ", RUN, "tests/docs/test_snippets.py"),
]  # fmt: skip
"""The first pattern that a command matches says what is done with it, and where, or why no more is."""
BARE = re.compile(r"^ *```[^\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """A command, or a block that is not made of commands.

    Attributes:
        block: where it stands.
        text: the command, or the block.
        way: one of :data:`RUN`, :data:`ELSEWHERE`, :data:`PARSED`, :data:`SHOWN`; empty where no row has it.
        by: the file that runs it, or why nothing more is done.
    """

    block: Block
    text: str
    way: str
    by: str


def commands_of(block: Block) -> Iterator[str]:
    """The commands of a ``sh`` block, or behind the ``$`` of a ``console`` one, without comments."""
    for line in block.body.replace("\\\n", " ").splitlines():
        command = re.sub(r"\s+#\s.*$", "", line).strip()
        if command and not command.startswith("#") and (block.language == "sh" or command.startswith("$ ")):
            yield re.sub(r"\s{2,}", " ", command)


def classified(command: str) -> tuple[str, str]:
    """What the table says of a command: the way, and by whom or why; twice empty where it says nothing."""
    return next(((way, by) for pattern, way, by in TABLE if re.search(pattern, command)), ("", ""))


def snippets_of(document: Path) -> Iterator[Snippet]:
    """All snippets of a document."""
    for block in blocks_of(document):
        if block.language in ("sh", "console"):
            for command in commands_of(block):
                yield Snippet(block, command, *classified(command))
        elif block.title.startswith("examples/"):
            yield Snippet(block, block.body, RUN, "tests/docs/test_examples.py")
        else:
            yield Snippet(block, block.body, *LANGUAGES.get(block.language, ("", "")))


def snippets() -> list[Snippet]:
    """All snippets of all documents."""
    return [snippet for document in ALL for snippet in snippets_of(document)]


def run_by(file: str) -> list[list[Snippet]]:
    """The commands that a file runs, with what else of their blocks is run: a list for each block."""
    blocks: dict[tuple[Path, int], list[Snippet]] = {}
    for each in snippets():
        if each.way == RUN and each.block.language in ("sh", "console"):
            blocks.setdefault((each.block.document, each.block.line), []).append(each)
    return [commands for commands in blocks.values() if any(each.by == file for each in commands)]


def without_language(document: Path) -> list[int]:
    """The lines of fences that open a block and name no language."""
    opening, text = True, document.read_text(encoding="utf-8")
    found = []
    for fence in BARE.finditer(text):
        if opening and fence[0].strip() == "```":
            found.append(text.count("\n", 0, fence.start()) + 1)
        opening = not opening
    return found


def main() -> None:
    """Print how many snippets there are of each way; then those that are not run, with why."""
    all_of_them = snippets()
    for way, count in Counter(snippet.way or "in no class" for snippet in all_of_them).most_common():
        print(f"{count:4} {way}")
    for snippet in all_of_them:
        if snippet.way in (PARSED, ""):
            print(f"{snippet.block.name}: {snippet.text.splitlines()[0]}  ({snippet.by or 'in no class'})")


if __name__ == "__main__":
    main()
