"""The folder where host and container meet: what the container puts there is its own socket, or it is nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from atc.errors import SandboxUnavailable
from atc.sandboxes.docker import driver as docker


class _Ended:
    """An engine whose container has ended."""

    def runs(self, container: str) -> bool:
        return False


@pytest.fixture(params=[socket.SOCK_SEQPACKET, socket.SOCK_STREAM], ids=["messages", "stream"])
def elsewhere(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A socket of the host's own, outside of the folder."""
    with socket.socket(socket.AF_UNIX, request.param) as listener:
        listener.bind(str(tmp_path / "elsewhere"))
        listener.listen()
        listener.setblocking(False)
        yield listener


def _dial(folder: Path) -> None:
    docker._dial(folder / "control", _Ended(), "a-container").close()  # type: ignore[arg-type]


def test_the_host_follows_no_link_out_of_the_folder(elsewhere: socket.socket, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "control").symlink_to(elsewhere.getsockname())
    with pytest.raises(SandboxUnavailable):
        _dial(folder)
    with pytest.raises(BlockingIOError):
        elsewhere.accept()


@pytest.mark.parametrize("what", ["file", "fifo", "folder", "link to nothing", "link to itself"])
def test_what_is_no_socket_is_refused(what: str, tmp_path: Path) -> None:
    control = tmp_path / "control"
    match what:
        case "file":
            control.write_text("x")
        case "fifo":
            os.mkfifo(control)
        case "folder":
            control.mkdir()
        case "link to nothing":
            control.symlink_to(tmp_path / "nothing")
        case "link to itself":
            control.symlink_to(control)
    with pytest.raises(SandboxUnavailable):
        _dial(tmp_path)


def test_the_folder_is_gone_whatever_lies_in_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And nothing that a link in it points at is touched."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("here")
    with docker._private_folder() as folder:
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        (folder / "link").symlink_to(kept)
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "link").symlink_to(kept / "file")
        os.mkfifo(folder / "fifo")
    assert list(tmp_path.glob("atc-*")) == []
    assert (kept / "file").read_text() == "here"
