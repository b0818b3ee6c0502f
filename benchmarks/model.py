"""How fast the embedded model loads, reads, writes and revises, for each runtime and setting, paired in one run.

``python -m benchmarks.model [--setting threads=2 --setting threads=2,drafts=ngram_mod:5:2:6 …] [--rounds 2] [--json]``

Each setting starts a server of its own, one after the other, in turns; figures are medians of the rounds. A runtime is
an entry of :data:`RUNTIMES`: a function from a model and the words of a setting to a
:class:`~atc.models.bench.Subject`; ``runtime=NAME`` in a setting chooses it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

from atc.errors import AtcError
from atc.models.bench import LlamaCpp, Subject, middle, paired
from atc.models.embedded import EmbeddedModel
from atc.models.embedded_process import Drafts
from benchmarks.common import print_json, show

DEFAULT_RUNTIME = "llama.cpp"
SETTINGS = ("", "drafts=ngram_mod:5:2:6")


def llama_cpp(words: Mapping[str, str]) -> Subject:
    """The embedded model's server: ``threads``, ``context`` and ``drafts`` (``KIND:MATCH:SHORTEST:LONGEST``)."""
    known = {"threads", "context", "drafts", "model"}
    if unknown := words.keys() - known:
        raise SystemExit(f"--setting {', '.join(unknown)}: unknown; llama.cpp has {', '.join(sorted(known))}")
    numbers = {name: int(words[name]) for name in ("threads", "context") if name in words}
    drafts = drafts_of(words.get("drafts", "none"))
    model = EmbeddedModel(words.get("model"), threads=numbers.get("threads"), context_tokens=numbers.get("context"))
    model.check()
    settings = replace(model.settings, drafts=drafts, prompts_dir="")
    return LlamaCpp(settings, f"{settings.threads} threads, drafts {words.get('drafts', 'none')}")


RUNTIMES: dict[str, Callable[[Mapping[str, str]], Subject]] = {DEFAULT_RUNTIME: llama_cpp}


def drafts_of(words: str) -> Drafts | None:
    """``none``, or ``KIND:MATCH:SHORTEST:LONGEST``."""
    if words == "none":
        return None
    kind, match, shortest, longest = words.split(":")
    return Drafts(kind, int(match), int(shortest), int(longest))  # type: ignore[arg-type]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", action="append")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds}: give 1 or more")
    try:
        subjects = [subject_of(setting) for setting in args.setting or SETTINGS]
        made = paired(subjects, args.rounds, lambda line: print(line, file=sys.stderr, flush=True))
    except AtcError as problem:
        raise SystemExit(str(problem)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    middles = [middle(figures) for figures in made]
    if args.json:
        rounds = [[asdict(each) for each in figures] for figures in made]
        print_json({"figures": [asdict(each) for each in middles], "rounds": rounds})
        return
    columns = ("runtime", "setting", "loads, s", "reads, tokens/s", "writes", "revises", "memory, GB")
    rows = [(m.runtime, m.setting, m.load_s, m.reads, m.writes, m.revises, f"{m.memory / 1e9:.2f}") for m in middles]
    show("the embedded model on this machine", columns, rows)


if __name__ == "__main__":
    main()
