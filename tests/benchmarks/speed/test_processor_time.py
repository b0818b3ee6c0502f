"""The account of processor time that the sandbox benchmark keeps."""

import os
import subprocess
import sys

from benchmarks.sandbox.targets import family_s


def test_a_child_that_ended_and_one_that_lives_are_both_counted() -> None:
    before = family_s(os.getpid())
    spin = "import time\nwhile time.process_time() < 0.1: pass\n"
    subprocess.run([sys.executable, "-S", "-c", spin], check=True)
    ended = family_s(os.getpid())
    assert ended - before >= 0.08
    with subprocess.Popen(
        [sys.executable, "-S", "-c", spin + "print(1, flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as living:
        assert living.stdout is not None
        living.stdout.readline()
        assert family_s(os.getpid()) - ended >= 0.08
        living.communicate(b"\n")


def test_a_process_that_is_gone_counts_nothing() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as gone:
        pass
    assert family_s(gone.pid) == 0
