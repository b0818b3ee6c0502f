"""Coverage-guided fuzzing of what reads a stranger's bytes, by atheris.

``python -m benchmarks.fuzzing TARGET [--seconds N] [--corpus DIR]``: inputs are mutated from the seeds of the
repository (``tests/fuzz_corpus/TARGET``) and from what earlier runs kept in the corpus, so that it goes on where it
stopped. Each input must end in a result whose properties hold, or in a documented error, within the target's bounds of
processor time and memory. What does not is a finding: its bytes are kept beside the corpus, and the exit code is 1.

``--input FILE`` runs one input, and ``--minimise DIR`` copies the smallest inputs that together reach what the corpus
reaches; both work without atheris, which is no dependency of the project: ``pip install -e '.[fuzz]'``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from platformdirs import user_cache_path

from atc.cli.console import clean, err, guarded, print_json
from atc.errors import EnvironmentProblem, UsageError
from benchmarks.common import AsJson
from benchmarks.fuzzing.cover import covering
from benchmarks.fuzzing.target import NAMES, SEEDS, Target, finding_of, target_of

HANG_S = 25
"""Seconds after which one input is given up."""
MOST_RSS_MB = 3_000
_STATUS = re.compile(r"#(?P<runs>\d+)\s+\S+\s+cov: (?P<cov>\d+) ft: (?P<ft>\d+) corp: (?P<corpus>\d+)")
_ENDED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_KINDS = {"timeout": "hang", "oom": "memory", "crash": "crash", "leak": "memory"}


@dataclass
class Tally:
    """What a run came to.

    Attributes:
        executions: inputs that were run.
        edges: places of the program that were reached. ``features``: edges with how often.
        corpus: inputs that are kept because each reached something new.
        findings: by name.
    """

    executions: int = 0
    edges: int = 0
    features: int = 0
    corpus: int = 0
    findings: dict[str, dict[str, str]] = field(default_factory=dict)


@guarded
def main(
    name: Annotated[str, typer.Argument(metavar="TARGET", help=f"One of {', '.join(NAMES)}.")],
    seconds: Annotated[int, typer.Option(min=1, help="How long.")] = 3_600,
    corpus: Annotated[Path | None, typer.Option(help="Where inputs are kept; else in your cache folder.")] = None,
    one: Annotated[Path | None, typer.Option("--input", help="Run this input and nothing else.")] = None,
    minimise: Annotated[Path | None, typer.Option(help="Copy the inputs that matter to this folder.")] = None,
    minimise_bytes: Annotated[int, typer.Option(min=1, help="Bytes of them together.")] = 25_000,
    as_json: AsJson = False,
) -> None:
    """Fuzz one target."""
    if name not in NAMES:
        raise UsageError(f"there is no target {name!r}: give one of {', '.join(NAMES)}")
    target = target_of(name)
    if one is not None:
        raise typer.Exit(_run_one(target, one))
    folder = corpus or user_cache_path("atc") / "fuzz" / name
    if minimise is not None:
        _minimise(target, folder, minimise, minimise_bytes)
        return
    if importlib.util.find_spec("atheris") is None:
        raise EnvironmentProblem("fuzzing needs atheris", fix="pip install -e '.[fuzz]'")
    tally = _fuzz(target, folder, seconds)
    _report(target, tally, folder, seconds, as_json)
    if tally.findings:
        raise typer.Exit(1)


def _run_one(target: Target, path: Path) -> int:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    found = finding_of(target, data)
    print("nothing is wrong with it" if found is None else clean(f"{found.kind} at {found.where}\n{found.text}"))
    return int(found is not None)


def _fuzz(target: Target, folder: Path, seconds: int) -> Tally:
    """Fuzz for so long, in as many processes one after another as hangs and crashes make necessary."""
    inputs, findings = folder / "inputs", folder / "findings"
    for each in (inputs, findings):
        each.mkdir(parents=True, exist_ok=True, mode=0o700)
    began, tally = time.monotonic(), Tally()
    while (left := int(seconds - (time.monotonic() - began))) > 0:
        with tempfile.TemporaryDirectory() as ended:
            options = [
                f"-max_total_time={left}", f"-timeout={HANG_S}", f"-rss_limit_mb={MOST_RSS_MB}",
                f"-artifact_prefix={ended}/", "-print_final_stats=1", "-verbosity=1",
            ]  # fmt: skip
            code = _follow(_worker(target, findings, [*options, str(inputs), str(SEEDS / target.name)]), tally)
            artifacts = list(Path(ended).iterdir())
            for artifact in artifacts:
                _keep(artifact, findings)
            if code != 0 and not artifacts:
                raise EnvironmentProblem(f"the fuzzer ended with status {code}: what it said stands above")
        if code == 0:
            break
    for path in findings.glob("*.json"):
        tally.findings[path.stem] = json.loads(path.read_text())
    return tally


def _worker(target: Target, findings: Path, options: Sequence[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.fuzzing.worker", target.name, str(findings), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")


def _follow(process: subprocess.Popen[str], tally: Tally) -> int:
    before, shown, last = tally.executions, time.monotonic(), list[str]()
    try:
        for line in _lines(process):
            if (status := _STATUS.match(line)) is not None:
                tally.executions = before + int(status["runs"])
                tally.edges, tally.features = int(status["cov"]), int(status["ft"])
                tally.corpus = int(status["corpus"])
                if time.monotonic() - shown > 10:
                    shown = time.monotonic()
                    err.print(f"{tally.executions:,} inputs, {tally.edges:,} edges, {tally.corpus:,} kept")
            elif (ended := _ENDED.match(line)) is not None:
                tally.executions = before + int(ended[1])
            else:
                last = [*last[-20:], line]
        code = process.wait()
    finally:
        if process.poll() is None:  # Ctrl-C
            process.kill()
            process.wait()
    if code not in (0, 70, 71, 77):
        err.print(clean("".join(last)), markup=False)
    return code


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stderr is not None
    yield from process.stderr


def _keep(artifact: Path, findings: Path) -> None:
    kind = _KINDS.get(artifact.name.partition("-")[0])
    if kind is None:  # libFuzzer's own note of a slow one: ours says more
        return
    data = artifact.read_bytes()
    name = f"{kind}-{hashlib.sha256(data).hexdigest()[:12]}"
    (findings / name).write_bytes(data)
    told = {"kind": kind, "where": artifact.name, "text": f"{len(data):,} bytes ended the process"}
    (findings / f"{name}.json").write_text(json.dumps(told, indent=2))


def _minimise(target: Target, folder: Path, into: Path, most: int) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for data in covering(target, [*(folder / "inputs").glob("*"), *(SEEDS / target.name).glob("*")], most):
        (into / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)


def _report(target: Target, tally: Tally, folder: Path, seconds: int, as_json: bool) -> None:
    figures: dict[str, Any] = {
        "target": target.name, "seconds": seconds, "executions": tally.executions, "edges": tally.edges,
        "features": tally.features, "corpus": tally.corpus, "folder": str(folder),
    }  # fmt: skip
    if as_json:
        print_json({**figures, "findings": list(tally.findings.values())})
        return
    print(
        "\n".join(
            f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}" for name, value in figures.items()
        )
    )
    print(f"findings: {len(tally.findings)}")
    for name, found in tally.findings.items():
        print(clean(f"\n{folder / 'findings' / name}: {found['kind']} at {found['where']}\n{found['text']}"))


if __name__ == "__main__":
    typer.run(main)
