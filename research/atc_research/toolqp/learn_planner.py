"""``atc tools learn planner``: a language model that is taught to plan and to search (ToolQP §3.3, App. C.3 and C.4).

It was tried for a few steps with a model of 135M parameters on a processor, and never at the paper's size.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from atc import UsageError
from atc.plugins.commands import INTERRUPTED, NOT_SOLVED, SOLVED, err, guarded, options, out, print_json

_TOLD = 10
"""Steps between two lines."""


@guarded
def planner(
    trajectories: Annotated[Path, typer.Argument(help="What `atc tools learn trajectories` made.")],
    base: Annotated[Path, typer.Option(help="The model: a folder of transformers (the paper: Qwen3-1.7B), or GGUF.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder to write; a training goes on where it stopped.")
    ],
    index: Annotated[
        Path | None, typer.Option("--index", "-i", help="Folder of the index that was taught in; --grpo needs it.")
    ] = None,
    grpo: Annotated[bool, typer.Option("--grpo", help="Train afterwards by what searches find.")] = False,
    format: Annotated[
        bool, typer.Option("--format", help="Teach the tools' documents too (ToolQP-Format); needs --index.")
    ] = False,
    rank: Annotated[
        int, typer.Option(min=0, help="Rank of the low-rank changes; 0: all weights, as in the paper.")
    ] = 0,
    rate: Annotated[float, typer.Option(help="The highest learning rate.")] = 2e-5,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over all conversations.")] = 3,
    batch: Annotated[int, typer.Option(min=1, help="Conversations of a step.")] = 32,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Conversations in memory together.")] = 1,
    longest: Annotated[
        int, typer.Option(min=64, help="Most tokens of a conversation; a longer one loses its end.")
    ] = 16_384,
    grpo_steps: Annotated[int, typer.Option("--grpo-steps", min=1, help="Steps of --grpo.")] = 500,
    grpo_batch: Annotated[int, typer.Option("--grpo-batch", min=2, help="Searches of a step of --grpo.")] = 256,
    recompute: Annotated[bool, typer.Option("--recompute", help="Use less memory and a third more time.")] = False,
    device: Annotated[str, typer.Option(help="Device of torch: auto, cpu, cuda or another.")] = "auto",
    minutes: Annotated[
        float, typer.Option(min=0.0, help="Stop after this many minutes; the same command goes on.")
    ] = math.inf,
    gguf: Annotated[
        Path | None, typer.Option("--gguf", help="Write the trained planner there, for a run to plan with.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Teach a model to plan and to search (needs torch). It was never run at the paper's size.

    Exit codes: 0 trained to the end, 1 stopped before it, 2 wrong use, 3 something is missing in the environment.
    """
    if (grpo or format) and index is None:
        raise UsageError(f"--{'grpo' if grpo else 'format'} needs the tools: name the index's folder with --index")
    from atc_research.toolqp.planner import Planner, examples, format_examples, read_lines
    from atc_research.toolweaver.code_decoder import opened, torch
    from atc_research.toolweaver.decoder_training import Options, Progress, train

    if gguf is not None:
        from atc_research.toolqp import planner_file

        planner_file.check(base, gguf)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    lines = read_lines(trajectories)
    model = Planner(opened(base, "bfloat16" if rank else "float32", device), rank, longest, seed)
    wanted = examples(model, lines)
    tools: Any = None
    if index is not None:
        from atc.plugins.learning import ToolIndex

        tools = ToolIndex.load(index)
    if format:
        wanted += format_examples(model, lines, tools)
    until = time.monotonic() + 60 * minutes

    def report(progress: Progress, reward: float | None = None) -> None:
        if not as_json and (progress.step % _TOLD == 0 or progress.done or reward is not None):
            recent = progress.losses[-_TOLD:]
            worth = "" if reward is None else f", mean reward {reward:.2f}"
            err.print(f"step {progress.step} of {progress.steps}: loss {sum(recent) / len(recent):.3f}{worth}")

    steps = Options(
        rank, rate, epochs=epochs, batch=batch, at_once=at_once, recompute=recompute, seed=seed, decay=0.01,
        warm_up_steps=150,
    )  # fmt: skip
    try:
        done = {"supervised": train(model, wanted, steps, output / "supervised", until=until, report=report)}
        if grpo and done["supervised"].done:
            from atc.plugins.learning import MiniLM
            from atc_research.toolqp.planner_grpo import Grpo
            from atc_research.toolqp.planner_grpo import train as by_reward

            by = Grpo(steps=grpo_steps, batch=grpo_batch, at_once=at_once, seed=seed)
            encoder = MiniLM()
            done["grpo"] = by_reward(
                model, lines, tools, lambda texts: encoder.encode(texts).tolist(), by, output / "grpo", until=until,
                report=report,
            )  # fmt: skip
    except KeyboardInterrupt:
        err.print(f"atc: stopped; the same command goes on from {output}, a minute before", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    whole = all(each.done for each in done.values()) and ("grpo" in done) is grpo
    facts: dict[str, Any] = {"output": str(output), "examples": len(wanted), "device": device, "done": whole}
    if gguf is not None and whole:
        planner_file.write(model, base, gguf)
        facts["gguf"] = str(gguf)
    facts |= {
        name: {"step": each.step, "of": each.steps, "loss": each.losses[-1] if each.losses else None}
        for name, each in done.items()
    }
    if as_json:
        print_json(facts)
    else:
        told = ", ".join(f"{name} {each.step} of {each.steps} steps" for name, each in done.items())
        out.print(f"{told}; the checkpoint is in {output}{'' if whole else '; the same command goes on'}", markup=False)
        if "gguf" in facts:
            use = f'Planned(settings, model=open_model("embedded:{gguf}"))'
            out.print(f"the planner is in {gguf}: {use}", markup=False)
    raise typer.Exit(SOLVED if whole else NOT_SOLVED)
