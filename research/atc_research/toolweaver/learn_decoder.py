"""``atc tools learn decoder``: a language model that says tools by their codes (ToolWeaver §3.3, §3.4); for research.

No run of ATC uses what it makes. It was tried on a model of 135M parameters, and not on a large one.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atc import Settings, UsageError
from atc.plugins.commands import NOT_SOLVED, SOLVED, clean, err, guarded, options, out, print_json
from atc.plugins.learning import FAILS, RunStore, Snapshot, index_store, open_store, protocol_of
from atc_research.toolweaver.code_tokens import MAX_TOKENS, CodeMask, codes_by_tool, known
from atc_research.toolweaver.code_trie import Trie
from atc_research.toolweaver.tool_codes import Codes, read_codes

if TYPE_CHECKING:
    from atc_research.toolweaver.code_decoder import CodeDecoder, Opened
    from atc_research.toolweaver.code_tokens import Example, Turn, Writer
    from atc_research.toolweaver.decoder_training import Progress

app = typer.Typer(help="A language model that names tools by their codes, for research: no run uses it.")

Index = Annotated[Path, typer.Option(help="Folder of an index with codes (`atc tools learn codes`).")]
Model = Annotated[Path, typer.Option(help="The model: a folder of transformers, or a GGUF file.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="Folder to write; a training goes on where it stopped.")]
Device = Annotated[str, typer.Option(help="Device of torch: cpu, cuda or another.")]
Rank = Annotated[int, typer.Option(min=0, help="Rank of the low-rank changes; 0: all weights, in 32 bits.")]
Rate = Annotated[float, typer.Option(help="The highest learning rate; for all weights 4e-5.")]
Batch = Annotated[int, typer.Option(min=1, help="Examples of a step.")]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, help="Examples in memory together.")]
Recompute = Annotated[bool, typer.Option("--recompute", help="Use less memory and a third more time.")]
Minutes = Annotated[float, typer.Option(min=0.0, help="Stop after this many minutes; the same command goes on.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random choices.")]
_FACTS = "decoder.json"
_TOLD = 10  # steps between two lines
_SHORT = 512
"""Tokens of a query at most."""


@dataclass(frozen=True)
class _Facts:
    """What a folder's decoder is for. ``codes``: a digest of the tools with their codes."""

    codes: str
    model: str
    rank: int


@app.command()
@guarded
def queries(
    pairs: Annotated[Path, typer.Argument(help="JSON Lines with `query` and `gold` (ids in the index).")],
    index: Index,
    model: Model,
    output: Output,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over all examples.")] = 5,
    start: Annotated[str, typer.Option(help="New tokens begin at: words of their tools, or random.")] = "words",
    device: Device = "cpu",
    rank: Rank = 16,
    rate: Rate = 1e-3,
    batch: Batch = 8,
    at_once: AtOnce = 64,
    recompute: Recompute = False,
    minutes: Minutes = math.inf,
    seed: Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Stage 1: teach a model which tool a query is for, by pairs and by the tools' own descriptions.

    Exit codes: 0 trained to the end, 1 stopped before it, 2 wrong use, 3 something is missing in the environment.
    """
    if start not in ("words", "random"):
        raise UsageError(f"--start {start}: take words or random")
    snapshot, codes = _opened_index(index)
    from atc_research.examples import read_examples
    from atc_research.toolweaver.decoder_training import Options

    given = read_examples(pairs)
    by_tool = codes_by_tool(snapshot.ids, codes.values)
    if missing := [f"{one.id}: {tool}" for one in given for tool in one.gold if tool not in by_tool]:
        raise UsageError(f"{pairs}: {len(missing)} tools are not in the index, the first is that of {missing[0]}")
    wanted = Options(rank, rate, epochs=epochs, batch=batch, at_once=at_once, recompute=recompute, seed=seed)
    opened, writer, decoder = _decoder(model, snapshot, codes, output, rank, seed, device)
    if start == "words":
        decoder.start_from(_words(opened, writer, snapshot, codes))
    examples = [writer.pair(one.query, by_tool[tool]) for one in given for tool in one.gold]
    for id, row in by_tool.items():
        text = protocol_of(snapshot.documents[snapshot.rows[id]]).description
        if text.strip():
            examples.append(writer.pair(text, row))
    _train(decoder, examples, wanted, output, minutes, as_json)


@app.command()
@guarded
def trajectories(
    index: Index,
    model: Model,
    begin: Annotated[Path, typer.Option("--from", help="Folder of a decoder that knows the tools (stage 1).")],
    output: Output,
    files: Annotated[list[Path] | None, typer.Argument(help="JSON Lines with `messages`, as chats.")] = None,
    runs: Annotated[bool, typer.Option("--runs", help="Learn from your own runs that were answered, too.")] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over all examples.")] = 2,
    longest: Annotated[
        int, typer.Option(min=64, help="Most tokens of a trajectory; a longer one loses its end.")
    ] = MAX_TOKENS,
    device: Device = "cpu",
    rate: Rate = 1e-3,
    batch: Batch = 8,
    at_once: AtOnce = 1,
    recompute: Recompute = False,
    minutes: Minutes = math.inf,
    seed: Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Stage 2: teach it whole conversations: plans, calls with arguments, answers.

    Exit codes: 0 trained to the end, 1 stopped before it, 2 wrong use, 3 something is missing in the environment.
    """
    if begin.exists() and output.exists() and begin.samefile(output):
        raise UsageError(f"{output} holds what stage 1 made: name another folder to write to (-o)")
    snapshot, codes = _opened_index(index)
    from atc_research.toolweaver.decoder_training import Options, load
    from atc_research.toolweaver.decoder_trajectories import read_trajectories

    said = codes_by_tool(snapshot.ids, codes.values)
    names = [protocol_of(snapshot.documents[row]).name for row in range(len(snapshot))]
    times = Counter(names)
    for name, id in zip(names, snapshot.ids, strict=True):
        if times[name] == 1:  # runs know tools by their names
            said.setdefault(name, said[id])
    found = [turns for file in files or () for turns in read_trajectories(file)]
    found += list(_of_runs(open_store(Settings.load()))) if runs else []
    good = [turns for turns in found if known(turns, said)]
    err.print(f"{len(good)} trajectories of {len(found)} call tools of this index", markup=False)
    rank = _facts(begin, snapshot, codes).rank
    wanted = Options(rank, rate, epochs=epochs, batch=batch, at_once=at_once, recompute=recompute, seed=seed)
    _, writer, decoder = _decoder(model, snapshot, codes, output, rank, seed, device, longest)
    load(decoder, begin)
    _train(decoder, [writer.trajectory(turns, said) for turns in good], wanted, output, minutes, as_json)


@app.command()
@guarded
def ask(
    query: Annotated[str, typer.Argument(help="What the tool must do.")],
    index: Index,
    model: Model,
    begin: Annotated[Path, typer.Option("--from", help="Folder of the trained decoder.")],
    limit: Annotated[int, typer.Option(min=1, help="Tools at most.")] = 10,
    device: Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Ask a trained decoder for tools: the likeliest codes, among the codes of existing tools."""
    snapshot, codes = _opened_index(index)
    from atc_research.toolweaver.code_beam import say
    from atc_research.toolweaver.decoder_training import load

    rank = _facts(begin, snapshot, codes).rank
    _, writer, decoder = _decoder(model, snapshot, codes, None, rank, 0, device)
    load(decoder, begin)
    tools = {row: id for id, row in codes_by_tool(snapshot.ids, codes.values).items()}
    found = say(decoder, CodeMask(writer.tokens, Trie(codes.values)), writer.prompt(query), limit)
    if as_json:
        print_json([{"tool": tools[each.codes], "codes": each.codes, "log_p": each.score} for each in found])
    else:
        for each in found:
            out.print(f"{each.score:8.2f}  {clean(tools[each.codes])}", markup=False)
    raise typer.Exit(SOLVED if found else NOT_SOLVED)


def _opened_index(index: Path) -> tuple[Snapshot, Codes]:
    snapshot, encoder = index_store.read(index)
    codes = read_codes(index, snapshot, encoder.digest if encoder else "")
    if codes is None:
        raise UsageError(f"the index in {index} has no codes: make them with `atc tools learn codes --closed-form`")
    return snapshot, codes


def _decoder(
    model: Path,
    snapshot: Snapshot,
    codes: Codes,
    output: Path | None,
    rank: int,
    seed: int,
    device: str,
    longest: int = _SHORT,
) -> tuple[Opened, Writer, CodeDecoder]:
    from atc_research.toolweaver.code_decoder import CodeDecoder, opened

    facts = _Facts(_digest(snapshot, codes), model.name, rank)
    if output is not None and (output / _FACTS).exists() and _facts(output, snapshot, codes) != facts:
        raise UsageError(f"{output} holds a decoder of another model or rank: name another folder, or remove it")
    found = opened(model, "bfloat16" if rank else "float32", device, short=longest <= _SHORT)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / _FACTS).write_text(json.dumps(vars(facts)), encoding="utf-8")
    writer = found.writer(codes.levels, max(len(book) for book in codes.books), longest)
    return found, writer, CodeDecoder(found.model, writer.tokens, rank, seed).eval()


def _facts(folder: Path, snapshot: Snapshot, codes: Codes) -> _Facts:
    """What a folder holds, if it fits the index: codes that were made anew name other tools."""
    try:
        facts = _Facts(**json.loads((folder / _FACTS).read_text("utf-8")))
    except FileNotFoundError:
        raise UsageError(f"{folder} holds no decoder: `atc tools learn decoder queries` makes one") from None
    except (ValueError, TypeError):
        raise UsageError(f"{folder / _FACTS} is damaged: train anew") from None
    if facts.codes != _digest(snapshot, codes):
        raise UsageError(f"the decoder in {folder} is of other tools or codes than this index: train it anew")
    return facts


def _digest(snapshot: Snapshot, codes: Codes) -> str:
    return hashlib.sha256(repr((list(snapshot.ids), codes.values.tolist())).encode()).hexdigest()


def _words(opened: Opened, writer: Writer, snapshot: Snapshot, codes: Codes) -> list[list[int]]:
    from atc_research.toolweaver.code_tokens import words_of_codes

    protocols = [protocol_of(snapshot.documents[row]) for row in range(len(snapshot))]
    texts = [f"{each.name.replace('_', ' ')}: {each.description}" for each in protocols]
    return words_of_codes(opened.read, writer.tokens, texts, codes.values)


def _train(
    decoder: CodeDecoder, examples: Sequence[Example], wanted: Any, output: Path, minutes: float, as_json: bool
) -> None:
    from atc_research.toolweaver.decoder_training import train

    def report(progress: Progress) -> None:
        if not as_json and (progress.step % _TOLD == 0 or progress.done):
            recent = progress.losses[-_TOLD:]
            loss = sum(recent) / len(recent)
            err.print(f"step {progress.step} of {progress.steps}: loss {loss:.3f}", markup=False)

    done = train(decoder, examples, wanted, output, until=time.monotonic() + 60 * minutes, report=report)
    loss = done.losses[-1] if done.losses else None
    facts = {"output": str(output), "examples": len(examples), "step": done.step, "of": done.steps, "loss": loss}
    if as_json:
        print_json({**facts, "seconds": round(done.seconds, 1)})
    elif done.done:
        out.print(f"{done.steps} steps over {len(examples)} examples; the decoder is in {output}", markup=False)
    else:
        out.print(f"{done.step} of {done.steps} steps; the same command goes on", markup=False)
    raise typer.Exit(SOLVED if done.done else NOT_SOLVED)


def _of_runs(store: RunStore) -> Iterator[list[Turn]]:
    from atc_research.toolweaver.decoder_trajectories import turns_of

    for stored in store.list():
        try:
            stored.check()
            yield turns_of(stored)
        except (OSError, UsageError, *FAILS) as error:
            err.print(f"atc: run {stored.run_id} is left out: {clean(str(error))}", markup=False)
