"""A target of fuzzing, and what counts as a finding on one of its inputs."""

from __future__ import annotations

import hashlib
import importlib
import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

NAMES = ("answers", "clients", "documents", "frames", "listings", "programs", "records", "replies", "values")
"""The targets: each is ``TARGET`` in the module of its name."""
SEEDS = Path(__file__).parents[2] / "tests" / "fuzz_corpus"
"""The seeds that are kept, a folder for each target; the quick tests replay them."""


class Broken(Exception):
    """A property of a target does not hold."""


@dataclass(frozen=True)
class Target:
    """What reads a stranger's bytes.

    Attributes:
        name: its name on the command line.
        run: reads an input and checks what must hold of the result. It returns, or it has found something: it catches
            the errors that its functions document, and no others.
        most_bytes: of an input.
        most_s: processor seconds that one input may take, as measured beneath the fuzzer's instrumentation.
        most_memory: bytes by which one input may raise the memory of the process.
        head_lines: lines in front of what is JSON; -1 where each line is JSON; ``None`` where inputs are no JSON.
        words: texts that mean something to the target: keys, tags, tokens.
    """

    name: str
    run: Callable[[bytes], None]
    most_bytes: int = 16_384
    most_s: float = 1.0
    most_memory: int = 200_000_000
    head_lines: int | None = 0
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """An input that does what none may.

    Attributes:
        kind: ``error`` (an exception that is not documented), ``broken`` (a property), ``slow``, ``memory``, ``hang``
            or ``crash`` (of the interpreter).
        where: the last place of ours, or the property: findings that share kind and place are one.
        text: the exception, or what was measured.
        input: the bytes.
    """

    kind: str
    where: str
    text: str
    input: bytes

    @property
    def name(self) -> str:
        """What names it: equal for findings of one cause."""
        return f"{self.kind}-{hashlib.sha256(self.where.encode()).hexdigest()[:12]}"


def target_of(name: str) -> Target:
    """The target of a name out of :data:`NAMES`."""
    target = importlib.import_module(f"benchmarks.fuzzing.{name}").TARGET
    assert isinstance(target, Target)
    return target


def finding_of(target: Target, data: bytes) -> Finding | None:
    """Run an input; what it shows, if it shows anything. Time and memory count where they are exceeded twice."""
    found = _once(target, data)
    return _once(target, data) if found is not None and found.kind in ("slow", "memory") else found


def _once(target: Target, data: bytes) -> Finding | None:
    memory, began = _peak(), time.process_time()
    try:
        target.run(data)
    except Broken as error:
        return Finding("broken", str(error).partition(":")[0], str(error)[:2_000], data)
    except Exception as error:
        return Finding("error", f"{type(error).__name__} {_place(error)}", "".join(_told(error)), data)
    seconds, grown = time.process_time() - began, _peak() - memory
    if seconds > target.most_s:
        return Finding("slow", target.name, f"{seconds:.2f} s of processor time for {len(data):,} bytes", data)
    if grown > target.most_memory:
        return Finding("memory", target.name, f"{grown:,} bytes more memory for {len(data):,} bytes", data)
    return None


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _place(error: BaseException) -> str:
    """The last place of the trusted side, as ``file:function``: it stays when lines move."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/atc/" in frame.filename] or frames
    return f"{ours[-1].filename.rpartition('/atc/')[2]}:{ours[-1].name}"


def _told(error: BaseException) -> list[str]:
    return traceback.format_exception(type(error), error, error.__traceback__, limit=-12)
