"""The picture of retrieval: nDCG@10 of each method by group of sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from atc.errors import EnvironmentProblem, UsageError
from benchmarks.retrieval_report import GROUPS, MACRO, Line


def draw(lines: Sequence[Line], file: Path) -> None:
    """Draw the lines of :func:`benchmarks.retrieval_report.summarise` that are over groups.

    Raises:
        EnvironmentProblem: matplotlib is not installed.
        UsageError: the file cannot be written, or there is nothing to draw.
    """
    if file.suffix not in (".svg", ".png"):
        raise UsageError(f"--picture takes a name that ends in .svg or .png, not {file}")
    shares = {(line["place"], line["method"]): line for line in lines}
    places = [place for place in (*GROUPS, MACRO) if any(place == known for known, _ in shares)]
    methods = list(dict.fromkeys(method for _, method in shares))
    if not places:
        raise UsageError("there is no ranking yet to draw")
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise EnvironmentProblem("the picture needs matplotlib: `pip install -e '.[bench]'`") from None
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(methods)
    for number, method in enumerate(methods):
        shown = [(at, shares[place, method]) for at, place in enumerate(places) if (place, method) in shares]
        heights = [100 * line["nDCG@10"] for _, line in shown]
        low = [100 * (line["nDCG@10"] - line["nDCG@10 interval"][0]) for _, line in shown]
        high = [100 * (line["nDCG@10 interval"][1] - line["nDCG@10"]) for _, line in shown]
        places_at = [at + number * width for at, _ in shown]
        axes.bar(places_at, heights, width, yerr=[[max(0, x) for x in low], [max(0, x) for x in high]], label=method)
    axes.set_xticks([at + 0.4 - width / 2 for at in range(len(places))], places)
    axes.set(ylabel="nDCG@10, %, macro over sources, with its 95 % interval")
    axes.legend(fontsize=8)
    try:
        figure.savefig(file)
    except OSError as error:
        raise UsageError(f"the picture cannot be written to {file}: {error.strerror}") from None
