"""How fast the embedded model loads, reads, writes and revises, for each runtime and setting, paired in one run.

``python -m benchmarks.speed.model [--setting threads=2 --setting threads=4 …] [--rounds 2]
[--json]``

Each setting starts a server of its own, one after the other, in turns; figures are medians of the rounds. A runtime is
an entry of :data:`RUNTIMES`: a function from a model and the words of a setting to a
:class:`~atc.models.bench.Subject`; ``runtime=NAME`` in a setting chooses it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Annotated

import typer

from atc.cli.console import guarded
from atc.models.bench import LlamaCpp, Subject, middle, paired
from atc.models.embedded import EmbeddedModel
from benchmarks.common import AsJson, print_json, show

DEFAULT_RUNTIME = "llama.cpp"
SETTINGS = ("",)


def llama_cpp(words: Mapping[str, str]) -> Subject:
    """The embedded model's server: ``threads``, ``context`` and ``model``."""
    known = {"threads", "context", "model"}
    if unknown := words.keys() - known:
        raise SystemExit(f"--setting {', '.join(unknown)}: unknown; llama.cpp has {', '.join(sorted(known))}")
    numbers = {name: int(words[name]) for name in ("threads", "context") if name in words}
    model = EmbeddedModel(words.get("model"), threads=numbers.get("threads"), context_tokens=numbers.get("context"))
    model.check()
    return LlamaCpp(replace(model.settings, prompts_dir=""))


RUNTIMES: dict[str, Callable[[Mapping[str, str]], Subject]] = {DEFAULT_RUNTIME: llama_cpp}


def subject_of(setting: str) -> Subject:
    """What the words of a setting mean.

    Raises:
        SystemExit: they mean nothing.
    """
    words = dict(word.partition("=")[::2] for word in setting.split(",") if word)
    runtime = words.pop("runtime", DEFAULT_RUNTIME)
    if runtime not in RUNTIMES:
        raise SystemExit(f"--setting runtime={runtime}: unknown; there are {', '.join(RUNTIMES)}")
    try:
        return RUNTIMES[runtime](words)
    except ValueError as problem:
        raise SystemExit(f"--setting {setting}: {problem}") from None


@guarded
def main(
    setting: Annotated[list[str] | None, typer.Option(help="Words of a setting; may be repeated.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Of all settings in turn.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Measure the embedded model, each setting in turns."""
    subjects = [subject_of(each) for each in setting or SETTINGS]
    made = paired(subjects, rounds, lambda line: print(line, file=sys.stderr, flush=True))
    middles = [middle(figures) for figures in made]
    if as_json:
        each_round = [[asdict(each) for each in figures] for figures in made]
        print_json({"figures": [asdict(each) for each in middles], "rounds": each_round})
        return
    columns = ("runtime", "setting", "loads, s", "reads, tokens/s", "writes", "revises", "memory, GB")
    rows = [(m.runtime, m.setting, m.load_s, m.reads, m.writes, m.revises, f"{m.memory / 1e9:.2f}") for m in middles]
    show("the embedded model on this machine", columns, rows)


if __name__ == "__main__":
    typer.run(main)
