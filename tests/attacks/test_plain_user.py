"""The attacks once more, without the rights of root: the walls are another set, and hold as well."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
NOBODY = 65534
# A folder above this Python may be closed to others: in a mount namespace of its own it is covered, and only what is
# needed shows through. Nothing is copied, and nothing outside that namespace changes.
_SCRIPT = """
set -e
number=0
for path in "$@"; do
    number=$((number + 1))
    mkdir -p "$HOLD/$number"
    mount --bind "$path" "$HOLD/$number"
done
for folder in $CLOSED; do mount -t tmpfs -o mode=755 tmpfs "$folder"; done
number=0
for path in "$@"; do
    number=$((number + 1))
    mkdir -p "$path"
    mount --bind "$HOLD/$number" "$path"
done
cd "$3"
exec setpriv --reuid $NOBODY --regid $NOBODY --clear-groups --inh-caps=-all --bounding-set=-all \\
    "$2/bin/python" -m pytest -p no:cacheprovider -q --tb=line --basetemp "$BASE/pytest" \\
    -k "test_an_attack_does_no_harm or not slow" \\
    tests/attacks/test_attacks.py::test_an_attack_does_no_harm tests/attacks/test_neighbours.py
"""


@pytest.fixture
def base() -> Iterator[str]:
    made = tempfile.mkdtemp(prefix="atc-plain-", dir="/tmp")
    os.chown(made, NOBODY, NOBODY)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as a plain user already")
def test_attacks_do_no_harm_to_a_plain_user(base: str) -> None:
    for tool in ("unshare", "setpriv", "mount"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not here: this Python cannot be shown to a plain user")
    tried = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", base],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"a mount namespace cannot be made here: {tried.stderr.strip()[:200]}")
    needed = [sys.base_prefix, sys.prefix, str(ROOT)]
    closed = sorted({str(top) for path in needed for top in _closed_above(Path(path))})
    hold = Path(base, "hold")
    hold.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": base,
        "TMPDIR": base,
        "HOLD": str(hold),
        "BASE": base,
        "NOBODY": str(NOBODY),
        "CLOSED": " ".join(closed),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ran = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "sh", *needed],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
    assert ran.stdout.count(".") > 100, f"most were skipped: {ran.stdout[-1000:]}"  # a dot for each that passed


def _closed_above(path: Path) -> list[Path]:
    """The outermost folder above ``path`` that others may not enter."""
    return [top for top in reversed(path.parents) if not top.stat().st_mode & 0o001][:1]
