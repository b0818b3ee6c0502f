"""``atc tools learn codes``: codes of the tools of an index, in closed form, or trained where that is better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from atc import UsageError
from atc.plugins.commands import SOLVED, err, guarded, not_enough, options, out, print_json, stages
from atc_research.toolweaver.co_usage import CoUsage, read_used
from atc_research.toolweaver.tokenizer import LEVELS, SIZE, tokenize
from atc_research.toolweaver.tool_codes import Codes, vectors_of, write_codes

if TYPE_CHECKING:
    from atc.plugins.learning import ToolIndex
    from atc_research.toolweaver.codes import Learnt


@guarded
def codes(
    index: Annotated[Path, typer.Option("--index", "-i", help="Folder of an index (`atc tools index`).")],
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Passes over all tools.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of all random choices.")] = 0,
    smoothing: Annotated[
        float, typer.Option("--smoothing", min=0.0, max=1_000.0, help="How near tools come that are used together.")
    ] = 1.0,
    layers: Annotated[
        str, typer.Option("--layers", help="Sizes of hidden layers, such as 1024,512,256,128; a linear map without.")
    ] = "",
    levels: Annotated[int, typer.Option("--levels", help="Codes of a tool.")] = LEVELS,
    size: Annotated[int, typer.Option("--code-size", help="Codes of a level at most.")] = SIZE,
    closed_form: Annotated[
        bool, typer.Option("--closed-form", help="Make codes that need no training, without torch.")
    ] = False,
    used_together: Annotated[
        Path | None,
        typer.Option(
            "--used-together",
            metavar="FILE",
            help="Tools that tasks used together, a line each: an object with `tools` (names) and `count`.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Train codes of tools (needs torch), and keep them only where they are better than codes that need no training.

    Better means: of the held-out pairs of tools that were used together, more share their first code, and the first
    codes say as much about the tools. Ctrl-C leaves the index as it was; run it again to go on.

    Exit codes: 0 done, 1 too little to learn from, 2 wrong use, 3 something is missing in the environment.
    """
    from atc.plugins.learning import ToolIndex

    if closed_form:
        made = _closed_form(index, used_together, levels, size, smoothing, seed, as_json)
        _print_closed_form(made, as_json)
        raise typer.Exit(SOLVED)
    from atc_research.toolweaver import codes as learning
    from atc_research.toolweaver.code_training import Options

    o = Options(smoothing=smoothing, inner=_sizes(layers))
    if epochs is not None:
        o = o.for_epochs(epochs)
    tools = ToolIndex.load(index)
    kept = index / learning.FOLDER
    with stages(silent=as_json) as report:
        try:
            found = learning.learn(
                tools.snapshot,
                used_in(used_together, tools),
                tools.encoder_digest,
                levels=levels,
                size=size,
                options=o,
                seed=seed,
                kept=kept,
                told=report,
            )
        except learning.TooLittle as error:
            raise not_enough(error, as_json=as_json) from None
        except KeyboardInterrupt:
            if kept.is_dir():
                err.print("atc: the index is as it was; run the same command again to go on", markup=False)
            raise
    if found.codes is not None:
        write_codes(index, found.codes, tools.ids)
    learning.forget(kept)
    if as_json:
        print_json(_summary(found, len(tools)))
    else:
        _print(found)
        if found.codes is None:
            out.print("`atc tools learn codes --closed-form` makes those in closed form")
    raise typer.Exit(SOLVED)


def used_in(file: Path | None, tools: ToolIndex) -> CoUsage | None:
    """Return what a file says of tools that were used together, by the rows of an index; ``None`` without a file."""
    if file is None:
        return None
    read = read_used(file, frozenset(tools.ids))
    return CoUsage.of(read.sets.items(), {id: row for row, id in enumerate(tools.ids)}, len(tools))


def _closed_form(
    index: Path, file: Path | None, levels: int, size: int, smoothing: float, seed: int, silent: bool
) -> Codes:
    from atc.plugins.learning import ToolIndex

    tools = ToolIndex.load(index)
    vectors, used = vectors_of(tools.snapshot), used_in(file, tools)
    with stages(silent=silent) as report:
        made = tokenize(
            vectors,
            used,
            levels=levels,
            size=size,
            smoothing=smoothing,
            seed=seed,
            encoder=tools.encoder_digest,
            progress=report,
        )
    write_codes(index, made, tools.ids)
    return made


def _print_closed_form(codes: Codes, as_json: bool) -> None:
    sizes, used = [len(book) for book in codes.books], len(np.unique(codes.values[:, 0]))
    if as_json:
        print_json({"tools": len(codes.values), "levels": codes.levels, "size": sizes, "first_codes_used": used})
    else:
        shown = " × ".join(map(str, sizes))
        out.print(f"each tool has its own of {shown} codes; {used} first codes are in use", highlight=False)


def _sizes(layers: str) -> tuple[int, ...]:
    parts = layers.split(",") if layers else []
    if len(parts) > _MOST_LAYERS or not all(part.strip().isdecimal() and 1 <= int(part) <= _WIDEST for part in parts):
        raise UsageError(
            f"--layers takes up to {_MOST_LAYERS} numbers from 1 to {_WIDEST:,} and commas, not {layers!r:.60}"
        )
    return tuple(map(int, parts))


_MOST_LAYERS, _WIDEST = 8, 8_192


def _summary(found: Learnt, tools: int) -> dict[str, Any]:
    return {
        "kept": found.codes is not None,
        "tools": tools,
        "pairs": found.pairs,
        "held_out": len(found.trained.together),
        "closed_form": found.closed_form.summary(),
        "trained": found.trained.summary(),
    }


def _print(found: Learnt) -> None:
    out.print(f"learnt from {found.pairs} pairs of tools, compared on {len(found.trained.together)} others")
    for name, figures in (("closed form", found.closed_form), ("trained", found.trained)):
        out.print(
            f"  {name}: {figures.shared:.1%} of them share the first code (any two tools: {figures.chance:.1%}); "
            f"first codes explain {figures.explained:.1%} of the vectors",
            markup=False,
        )
    if found.codes is not None:
        out.print("the trained codes are beside the index now")
    else:
        out.print("the codes stay as they were: the trained codes are not better")
