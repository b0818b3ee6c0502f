"""Whatever bytes a program sends, the host answers with the protocol error and nothing else."""

from __future__ import annotations

import random

from benchmarks.safety.fuzz_frames import hostile, read


def test_hostile_frames_are_refused_as_such() -> None:
    rng = random.Random(7)
    came = {read(hostile(rng)) for _ in range(20_000)}
    assert came == {"refused", "taken", "waits for more"}
