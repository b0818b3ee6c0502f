"""The demo's benchmark runs another checkout, and leaves none behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import demo

pytestmark = pytest.mark.skipif(not (demo.HERE / ".git").exists(), reason="this is no checkout")


def worktrees() -> int:
    listed = subprocess.run(["git", "-C", str(demo.HERE), "worktree", "list"], capture_output=True, check=True)
    return len(listed.stdout.splitlines())


def test_a_commit_is_checked_out_and_its_folder_is_removed() -> None:
    before = worktrees()
    with demo.checkout("HEAD") as folder:
        assert (folder / "atc" / "cli").is_dir()
        assert worktrees() == before + 1
    assert not folder.exists()
    assert worktrees() == before


def test_a_folder_is_taken_as_it_is() -> None:
    with demo.checkout(str(demo.HERE)) as folder:
        assert folder == demo.HERE
    assert folder.exists()


def test_what_is_neither_is_turned_down() -> None:
    with pytest.raises(SystemExit, match="--base no-such-commit"), demo.checkout("no-such-commit"):
        pass


def test_a_side_runs_its_own_checkout_and_says_what_failed(tmp_path: Path) -> None:
    other = tmp_path / "other" / "atc"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    (other / "cli.py").write_text("import sys\ndef main(): sys.exit('this is the other one')\n")
    with pytest.raises(SystemExit, match="this is the other one"):
        demo.Side(other.parent, tmp_path / "cache").run("a task", 60)
