"""The demo's task in this checkout and in another, in turns: seconds of the whole command, and their ratio.

``python -m benchmarks.demo --base COMMIT|FOLDER [--rounds 3] [--limit-s 300] [--json]`` (``make bench-demo BASE=…``)

A commit is checked out into a temporary folder. Both run with this Python and its packages, each with a cache of its
own that a first run of another task over the same tools has filled: prompts are read from it, replies are not kept.
The model's file is shared. Seconds are those of ``atc run``, from its start to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from atc.models.fetch import models_dir
from benchmarks.common import median, print_json, show

HERE = Path(__file__).resolve().parents[1]
TASK = "How many minutes longer is the day in Oslo than in Rome on 21 June 2026? Answer with the number of minutes."
OTHER_TASK = "Which time zone is Bergen in Norway in? Answer with the name."
TOOLS = ("find_cities", "get_city", "sun_times")
_ATC = "from atc.cli import main; main()"


@contextmanager
def checkout(base: str) -> Iterator[Path]:
    """The folder of another checkout; of a commit, in a temporary worktree.

    Raises:
        SystemExit: there is no such commit or folder.
    """
    if (Path(base) / "atc" / "cli").is_dir():
        yield Path(base).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="atc-base-") as temporary:
        folder = Path(temporary) / "checkout"
        made = _git("worktree", "add", "--detach", str(folder), base)
        if made.returncode:
            raise SystemExit(f"--base {base} is neither a checkout nor a commit: {made.stderr.strip()}")
        try:
            yield folder
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)


class Side:
    """One checkout, with a cache of its own.

    Args:
        folder: the checkout.
        cache: where its cache is made; the models in it are those of this user.
    """

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self._cache = folder, cache
        (cache / "atc").mkdir(parents=True)
        (cache / "atc" / "models").symlink_to(models_dir().resolve())

    def run(self, task: str, limit_s: float, arguments: Sequence[str] = ()) -> dict[str, Any]:
        """Solve a task; what it took, and how it went."""
        only = [word for tool in TOOLS for word in ("--only", tool)]
        command = [sys.executable, "-P", "-c", _ATC, "run", task, "--tools", "atlas", *only]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ATC_", "OPENAI_"))}
        environment |= {"PYTHONPATH": str(self.folder), "XDG_CACHE_HOME": str(self._cache)}
        environment |= {"ATC_RUNS_DIR": str(self._cache / "runs")}
        began = time.perf_counter()
        try:
            ended = subprocess.run(
                [*command, "--model", "embedded", "--json", *arguments],
                env=environment,
                cwd=self._cache,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"seconds": round(time.perf_counter() - began, 2), "status": "out of time"}
        seconds = time.perf_counter() - began
        try:
            result = json.loads(ended.stdout)
            usage = result["usage"]
        except (ValueError, KeyError, TypeError):
            raise SystemExit(f"{self.folder}: no result: {ended.stdout[-500:]}{ended.stderr[-1500:]}") from None
        return {"seconds": round(seconds, 2), "status": result["status"], "value": result["value"], "usage": usage}


def compare(base: Path, rounds: int, limit_s: float) -> list[dict[str, Any]]:
    """Both checkouts in turns, the other one first."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="atc-demo-") as temporary:
        sides = {"base": Side(base, Path(temporary) / "base"), "here": Side(HERE, Path(temporary) / "here")}
        for name, side in sides.items():
            print(
                f"{name}: {side.run(OTHER_TASK, limit_s)['seconds']} s to fill its cache", file=sys.stderr, flush=True
            )
        for number in range(rounds):
            ran = {name: side.run(TASK, limit_s) for name, side in sides.items()}
            rows.append(ran)
            said = ", ".join(f"{name} {each['seconds']} s ({each['status']})" for name, each in ran.items())
            print(f"round {number + 1}: {said}", file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="a commit, or the folder of a checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit-s", type=float, default=300.0, help="seconds of one run")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds}: give 1 or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # with what was started and the folders
    try:
        with checkout(args.base) as base:
            rows = compare(base, args.rounds, args.limit_s)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    seconds = {name: median([row[name]["seconds"] for row in rows]) for name in ("base", "here")}
    ratio = median([row["here"]["seconds"] / row["base"]["seconds"] for row in rows])
    if args.json:
        print_json({"base": args.base, "rounds": rows, "median_s": seconds, "ratio": round(ratio, 3)})
        return
    shown = []
    for number, row in enumerate(rows, 1):
        here, other = row["here"], row["base"]
        shown.append((str(number), _shown(other), _shown(here), f"{here['seconds'] / other['seconds']:.2f}"))
    shown.append(("median", f"{seconds['base']:.1f} s", f"{seconds['here']:.1f} s", f"{ratio:.2f}"))
    show(f"the demo's task: {args.base} and here", ("round", args.base, "here", "ratio"), shown)


def _shown(ran: dict[str, Any]) -> str:
    usage = ran.get("usage") or {}
    tokens = f", {usage.get('prompt_tokens', 0)}+{usage.get('completion_tokens', 0)} tokens" if usage else ""
    return f"{ran['seconds']:.1f} s, {ran['status']} {ran.get('value', '')}{tokens}"


if __name__ == "__main__":
    main()
