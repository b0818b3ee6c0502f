"""A model is started as large as the machine is, within the limits of its control group; what cannot work is said."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import ModelUnavailable
from atc.models import embedded, embedded_process, machine
from atc.models.embedded import EmbeddedModel
from atc.models.embedded_process import EmbeddedServer, ServerSettings
from atc.models.machine import (
    LEAST_CONTEXT,
    Machine,
    fit_sizes,
    missing_instructions,
    missing_library,
    needed_bytes,
    this_machine,
)

GIGABYTE = 1_000_000_000
MEMINFO = "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\nSwapFree: 1000 kB\n"


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_machine_without_limits_has_all_its_processors(tmp_path: Path) -> None:
    found = this_machine(tree(tmp_path, {"proc/meminfo": MEMINFO}))
    assert found.processors == len(os.sched_getaffinity(0))
    assert (found.quota, found.memory) == (None, 4_001_000 * 1024)


def test_the_limits_of_a_control_group_and_of_those_around_it_count(tmp_path: Path) -> None:
    version_2 = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/cpu.max": "150000 100000",
        "sys/fs/cgroup/outer/inner/cpu.max": "max 100000",
        "sys/fs/cgroup/outer/inner/memory.max": "3000000000",
        "sys/fs/cgroup/outer/inner/memory.current": "2000000000",
        "sys/fs/cgroup/outer/inner/memory.stat": "anon 1\ninactive_file 400000000\nactive_file 100000000\n",
    }
    found = this_machine(tree(tmp_path / "2", version_2))
    assert (found.quota, found.memory) == (1.5, 1_500_000_000)
    version_1 = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "4:memory:/box\n2:cpu,cpuacct:/box\n",
        "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "50000",
        "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1000000000",
        "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "400000000",
    }
    found = this_machine(tree(tmp_path / "1", version_1))
    assert (found.quota, found.memory) == (0.5, 600_000_000)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have other instructions")
def test_a_processor_without_avx2_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tree(tmp_path, {"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu sse4_2 avx f16c\n"})
    assert missing_instructions(old) == ("avx2", "fma")
    monkeypatch.setattr(embedded, "missing_instructions", lambda: missing_instructions(old))
    monkeypatch.setattr(embedded, "runtime_installed", lambda: True)
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelUnavailable, match=r"no AVX2, FMA.*OPENAI_BASE_URL"):
        EmbeddedModel(tmp_path / "some.gguf").check()


def test_a_library_that_the_system_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_library(("libc.so.6", "libno-such.so.1")) == "libno-such.so.1"
    monkeypatch.setattr(embedded, "missing_library", lambda: "libgomp.so.1")
    monkeypatch.setattr(embedded, "runtime_installed", lambda: True)
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelUnavailable, match=r"needs libgomp\.so\.1.*apt-get install libgomp1"):
        EmbeddedModel(tmp_path / "some.gguf").check()


@pytest.mark.parametrize(
    ("processors", "cores", "quota", "threads", "why"),
    [
        (2, 1, None, 2, "2 processors"),
        (16, 8, None, 8, "one a core"),
        (16, 8, 2.0, 2, "allows 2 processors"),
        (16, 8, 0.3, 1, "allows 0.3"),
        (1, 1, None, 1, "1 processors"),
    ],
)
def test_threads_are_those_that_a_machine_can_run(
    processors: int, cores: int, quota: float | None, threads: int, why: str
) -> None:
    found = Machine(processors, cores, quota, None)
    assert found.threads == threads
    assert why in found.why_threads()


@given(st.integers(0, 40 * GIGABYTE), st.integers(0, 10 * GIGABYTE), st.integers(1, 16), st.integers(512, 40_000))
def test_what_fits_is_never_more_than_was_wanted(memory: int, file: int, slots: int, tokens: int) -> None:
    sizes = fit_sizes(memory, file, slots, tokens)
    assert 1 <= sizes.slots <= slots
    assert min(tokens, LEAST_CONTEXT) <= sizes.context_tokens <= tokens
    assert bool(sizes.why) == ((sizes.slots, sizes.context_tokens) != (slots, tokens))
    least = sizes.slots == 1 and sizes.context_tokens == min(tokens, LEAST_CONTEXT)
    assert sizes.bytes <= memory or least
    assert fit_sizes(None, file, slots, tokens).slots == slots
    assert fit_sizes(memory, file, slots, tokens, fixed=True).context_tokens == tokens


def test_too_little_memory_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(b"GGUF")
    assert needed_bytes(4, 1, 8_192) > 100_000_000
    monkeypatch.setattr(embedded_process, "this_machine", lambda: Machine(2, 2, None, 100_000_000))
    with pytest.raises(ModelUnavailable, match=r"too little memory.*needs about 0\.4 GB, and 0\.1 GB are free"):
        EmbeddedServer(ServerSettings(str(file), "some", 1, 1, 8_192), log=tmp_path / "log")
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(("end", "why"), [("SIGILL", "built for another processor"), ("SIGKILL", "too little memory")])
def test_a_server_that_a_signal_ends_says_which(
    end: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "server.py"
    program.write_text(f"import os, signal\nos.kill(os.getpid(), signal.{end})\n")
    monkeypatch.setattr(embedded_process, "_SERVER", program)
    with pytest.raises(ModelUnavailable, match=why):
        EmbeddedServer(ServerSettings("/none.gguf", "none", 1, 1, 512), log=tmp_path / "log")


def test_a_context_that_does_not_fit_is_less_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(machine, "this_machine", lambda: Machine(2, 2, None, 400_000_000))
    machine.fitting_sizes.cache_clear()
    try:
        one, two = EmbeddedModel(file), EmbeddedModel(file)
        assert one.settings.context_tokens == 8_192 == two.context_tokens
        assert [record.message for record in caplog.records] == [
            "the embedded model has 1 slots of 8192 tokens in place of 1 of 16384: 0.4 GB of memory are free"
        ]
        assert EmbeddedModel(file, context_tokens=16_384).settings.context_tokens == 16_384
    finally:
        machine.fitting_sizes.cache_clear()
