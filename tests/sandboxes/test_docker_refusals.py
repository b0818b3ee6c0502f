"""What the docker sandbox refuses where there is no engine or not enough of one; and what its profile lets through."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from atc._host.extras import install_command
from atc.errors import SandboxUnavailable
from atc.sandboxes.docker.driver import DockerSandbox
from atc.sandboxes.docker.engine import seccomp_profile
from tests.support.docker import INFO, VERSION, pretended_engine, refusal, run_in

# -- bad input: an engine that is not there, or is not enough --------------------------------------------------------


def test_without_the_package_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    assert install_command("docker") in refusal()


def test_without_an_engine_the_fix_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing")
    assert "no Docker engine answers" in (said := refusal())
    assert "start Docker, or set DOCKER_HOST" in said


def test_an_engine_on_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert "an engine on another machine" in (said := refusal())
    assert "atc sandbox serve" in said


CREATES = {"version": (200, VERSION), "info": (200, INFO), "json": (200, [])}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"version": (200, {**VERSION, "Version": "19.03", "ApiVersion": "1.40"})}, "19.03 is too old.*to 20.10"),
        ({"info": (200, {**INFO, "MemoryLimit": False})}, "cannot set MemoryLimit: its control groups"),
        ({"info": (200, {**INFO, "SecurityOptions": []})}, "has no seccomp"),
        ({"info": (200, {**INFO, "OSType": "windows"})}, "switch it to Linux"),
        ({"create": (404, {"message": "No such image: atc-sandbox"})}, "image atc-sandbox is missing: `make image`"),
        ({"create": (500, {"message": "write /x: no space left on device"})}, "docker system prune"),
        ({"create": (400, {"message": "bind source path does not exist: /tmp/x"})}, "set TMPDIR"),
        ({"json": (500, {"message": "the engine is upset"})}, "the Docker engine refused .*: the engine is upset"),
    ],
)
def test_an_engine_that_is_not_enough_is_refused_with_a_remedy(
    answers: dict[str, tuple[int, Any]], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (
        tempfile.TemporaryDirectory() as short,
        pretended_engine(Path(short), {**CREATES, **answers}) as address,
    ):
        monkeypatch.setenv("DOCKER_HOST", address)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with pytest.raises(SandboxUnavailable, match=words):
            run_in(DockerSandbox(), "answer = 1")
    assert list(tmp_path.glob("atc-*")) == []


def test_a_temporary_folder_that_cannot_be_had_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as short, pretended_engine(Path(short), CREATES) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        assert "no temporary folder can be made" in refusal()


def test_a_tier_that_a_container_cannot_have_is_refused() -> None:
    with pytest.raises(SandboxUnavailable, match="cannot isolate as tier N"):
        DockerSandbox(require="N")
    with pytest.raises(SandboxUnavailable, match="no tier 'X'"):
        DockerSandbox(require="X")


# -- our own seccomp profile -----------------------------------------------------------------------------------------


def test_the_profile_lets_nothing_dangerous_through() -> None:
    profile = json.loads(seccomp_profile())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    allowed = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert not allowed & {
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "kcmp",
        "pidfd_getfd",
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "keyctl",
        "add_key",
        "request_key",
        "unshare",
        "setns",
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "open_tree",
        "move_mount",
        "fsopen",
        "mount_setattr",
        "mknod",
        "mknodat",
        "open_by_handle_at",
        "name_to_handle_at",
        "init_module",
        "finit_module",
        "kexec_load",
        "reboot",
        "swapon",
        "clone3",
        "personality",
        "memfd_create",
        "memfd_secret",
        "shmget",
        "msgget",
        "semget",
        "mq_open",
        "quotactl",
        "syslog",
    }
    clone = [rule for rule in profile["syscalls"] if rule["names"] == ["clone"]]
    assert [rule["args"] for rule in clone] == [
        [{"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
    ]
