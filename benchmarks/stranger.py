"""A stranger's path: from `pip install` to the first right answer, command by command, with the seconds each takes.

The wheel is built from this checkout and installed where nothing of ATC has ever been: in a new container, or in a new
environment with an empty home. Everything else comes from the package index. Needs the standard library and, for the
container, the command `docker`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TASK = "How many people live in Lyon, France? Answer with the number."
TOOLS = ("--tools", "atlas", "--only", "find_cities")
TRUTH = "from atc.atlas import places; print(places.find_cities('Lyon', 'FR')['cities'][0]['population'])"
WITHIN_S = 1800


@dataclass(frozen=True)
class Step:
    """One command of the path.

    Attributes:
        command: as a reader would type it.
        seconds: that it took.
        code: its exit code.
        printed: its standard output, and its errors where it failed.
    """

    command: str
    seconds: float
    code: int
    printed: str


Run = Callable[[str], Step]


def built(folder: Path) -> Path:
    """The wheel of this checkout."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True
    )
    return next(folder.glob("*.whl"))


def timed(command: str, words: list[str], environment: dict[str, str] | None, folder: Path | None) -> Step:
    """Run a command, and see how long it takes."""
    began = time.monotonic()
    ran = subprocess.run(
        words, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    printed = ran.stdout + (ran.stderr if ran.returncode else "")
    return Step(command, round(time.monotonic() - began, 1), ran.returncode, printed)


@contextmanager
def in_container(image: str, wheels: Path) -> Iterator[Run]:
    """Commands in a new container of an image that has Python and pip; it is removed afterwards."""
    options = ["--rm", "--detach", "--network", "host", "--volume", f"{wheels}:/wheels:ro"]
    started = subprocess.run(
        ["docker", "run", *options, image, "python3", "-c", f"import time; time.sleep({4 * WITHIN_S})"],
        capture_output=True,
        text=True,
        check=True,
    )
    container = started.stdout.strip()
    try:
        yield lambda command: timed(command, ["docker", "exec", container, "sh", "-c", command], None, None)
    finally:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True, check=False)


@contextmanager
def in_environment(scratch: Path) -> Iterator[Run]:
    """Commands in a new environment of this Python, with an empty home."""
    home, folder = scratch / "home", scratch / "env"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    dropped = ("ATC_", "OPENAI_", "PYTHON", "XDG_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    kept |= {"HOME": str(home), "PATH": f"{folder / 'bin'}:{kept['PATH']}"}
    yield lambda command: timed(command, ["sh", "-c", command], kept, home)


def path(run: Run, wheels: str, *, pull: bool, endpoint: bool) -> Iterator[Step]:
    """Walk the path until a command fails; the last step is the answer, with exit code 1 where it is wrong."""
    extras = "atlas" if endpoint else "atlas,embedded"
    commands = [f"python -m pip install 'atc-runtime[{extras}]' --find-links {wheels}"]
    if pull:
        commands.append("atc model pull --source auto")
    commands += ["atc doctor", f'atc run "{TASK}" {" ".join(TOOLS)} --json']
    for command in commands:
        step = run(command)
        if command.startswith("atc run"):
            truth = run(f'python -c "{TRUTH}"')
            right = step.code == 0 and json.loads(step.printed)["value"] == json.loads(truth.printed)
            step = Step(step.command, step.seconds, 0 if right else step.code or 1, step.printed)
        yield step
        if step.code and command != "atc doctor":  # the doctor says what is missing, and goes on
            return


def main() -> int:
    """Exit code 0: the answer was right; 1: it was not, or a step failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--container", metavar="IMAGE", help="in a new container of IMAGE; else in a new environment")
    parser.add_argument("--no-pull", action="store_true", help="OPENAI_BASE_URL and its key are set: fetch no model")
    parser.add_argument("--json", action="store_true", help="one document in place of the table")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="atc-stranger-") as scratch:
        wheels = Path(scratch) / "wheels"
        built(wheels)
        Path(scratch).chmod(0o755)
        where = in_container(given.container, wheels) if given.container else in_environment(Path(scratch))
        seen = "/wheels" if given.container else str(wheels)
        steps: list[Step] = []
        with where as run:
            for step in path(run, seen, pull=not given.no_pull, endpoint=given.no_pull):
                steps.append(step)
                if not given.json:
                    print(
                        f"{step.seconds:8.1f} s  {'ok' if not step.code else f'exit {step.code}'}  {step.command}",
                        flush=True,
                    )
    right = bool(steps) and steps[-1].command.startswith("atc run") and steps[-1].code == 0
    total = round(sum(step.seconds for step in steps), 1)
    if given.json:
        print(json.dumps({"right": right, "seconds": total, "steps": [asdict(step) for step in steps]}, indent=2))
    else:
        print(f"{total:8.1f} s  {'the answer is right' if right else 'no right answer'}, {len(steps)} commands")
        if not right:
            print(steps[-1].printed[-2000:], file=sys.stderr)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
