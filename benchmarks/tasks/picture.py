"""The ruler's picture: what each system solves, against the tokens that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from atc.errors import EnvironmentProblem, UsageError
from benchmarks.tasks.summary import UNREAD


def draw(lines: Sequence[dict[str, Any]], file: Path) -> None:
    """Draw the lines of :func:`benchmarks.tasks.summary.summarise`, those over all environments if there are any.

    Args:
        lines: of one model.
        file: to write: ``.svg`` or ``.png``.

    Raises:
        EnvironmentProblem: matplotlib is not installed.
        UsageError: the file cannot be written, or there is nothing to draw.
    """
    if file.suffix not in (".svg", ".png"):
        raise UsageError(f"--picture takes a name that ends in .svg or .png, not {file}")
    chosen = [line for line in lines if line["env"] == "all"] or [line for line in lines if line["env"] != UNREAD]
    if not chosen:
        raise UsageError("there is no result yet to draw")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise EnvironmentProblem("the picture needs matplotlib: `pip install -e '.[bench]'`") from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    most = max((line["prompt_tokens"] + line["completion_tokens"]) / max(1, line["tries"]) for line in chosen)
    named: list[tuple[float, float]] = []
    for line in chosen:
        tries = max(1, line["tries"])
        tokens, share = (line["prompt_tokens"] + line["completion_tokens"]) / tries, 100 * line["share"]
        errors = [[share - 100 * line["low"]], [100 * line["high"] - share]]
        own = line["system"].startswith("atc")
        axes.errorbar(tokens, share, errors, fmt="o", color="tab:blue" if own else "tab:gray", capsize=3, alpha=0.8)
        beside = _free(tokens / (most or 1), share, named)
        axes.annotate(line["system"], (tokens, share), (tokens + 0.01 * most, beside), fontsize=8)
    axes.set(
        xlabel="tokens a try, read and written", ylabel="solved, %, with its 95 % interval", title=chosen[0]["model"]
    )
    axes.set_xlim(0, 1.2 * most or 1)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    try:
        # text stays text, and the same figures are the same file
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "solved"}):
            figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    except OSError as error:
        raise UsageError(f"the picture cannot be written to {file}: {error.strerror}") from None


def _free(tokens: float, share: float, named: list[tuple[float, float]]) -> float:
    """Where a name stands beside its point, in percent: where no other one is."""
    at = share + 0.7
    while any(abs(tokens - x) < 0.2 and abs(at - y) < 2.5 for x, y in named):
        at -= 2.5
    named.append((tokens, at))
    return at
