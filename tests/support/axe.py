"""axe-core, which looks for what keeps people from using a page. It is fetched into a cache, not kept here.

``python -m tests.support.axe`` fetches it, by npm; without it the tests that need it skip.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Page

VERSION = "4.14.1"
_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
_RUN = """(async () => {
  const found = await axe.run(document, {resultTypes: ['violations', 'incomplete']});
  return found.violations.map((each) => `${each.id} (${each.impact}): ` + each.nodes.slice(0, 3)
    .map((node) => node.target.join(' ') + ' ' + node.failureSummary.replace(/\\s+/g, ' ')).join(' | '));
})()"""


def place() -> Path:
    """Where it is kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "atc-tests" / f"axe-core-{VERSION}.min.js"


def fetch() -> Path:
    """Fetch it, if it is not there.

    Raises:
        OSError, subprocess.SubprocessError: npm is not there, or cannot fetch it.
        ValueError: it is not what it was.
    """
    kept = place()
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"axe-core@{VERSION}"]
        subprocess.run(command, cwd=folder, check=True, timeout=60, stdout=subprocess.DEVNULL)
        package = Path(folder) / f"axe-core-{VERSION}.tgz"
        if base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode() != _SHA512:
            raise ValueError(f"axe-core {VERSION} is not what it was")
        with tarfile.open(package) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            text = script.read()
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}")
    partial.write_bytes(text)
    partial.replace(kept)
    return kept


@functools.cache
def script() -> str:
    """The script, or a skip that says how to get it."""
    if not place().exists():
        pytest.skip(f"axe-core is not in {place().parent}: `python -m tests.support.axe` fetches it (npm)")
    return place().read_text(encoding="utf-8")


def findings(page: Page) -> list[str]:
    """What keeps people from using the page, as it is now."""
    page.run(f"{script()};0")
    found: Any = page.run(_RUN)
    return list(found)


if __name__ == "__main__":
    try:
        print(fetch())
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        sys.exit(f"axe-core cannot be fetched: {error}")
