"""How quick the pages are in a browser: a run of 1,000 calls, values of 5 MB, 50 revisions, a list of 10,000 runs.

``python -m benchmarks.ui_pages [--json] [--times N]``: pages are written as files and opened in headless Chromium.
"First paint" and "drawn" count from the begin of the navigation, in milliseconds, medians. axe-core looks at each page
in both themes (``python -m tests.support.axe`` fetches it). Exit code 1 where something is found, or an asset is too
large.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from atc.pages.run.page import SCRIPTS, STYLES, run_file
from atc.pages.runs.page import SCRIPTS as LIST_SCRIPTS
from atc.pages.runs.page import STYLES as LIST_STYLES
from atc.pages.runs.page import runs_page
from atc.traces.stores.files import FileRun
from benchmarks.common import median, print_json, show
from tests.support import axe
from tests.support.browser import Page, browsing
from tests.support.run_events import call, events_of, many_calls

MOST_ASSETS = 300_000
_SHOWN = ("first paint", "drawn", "unfolded")


def events() -> dict[str, list[dict[str, Any]]]:
    """The events of runs that are hard to show."""
    large = {"rows": [{"n": n, "text": "x" * 480} for n in range(10_000)]}
    programs = ["\n".join(f"x{j} = {j * (k if j % 9 == k % 9 else 1)}" for j in range(200)) for k in range(50)]
    one = [("program_written", {"program": "x = weigh()"}), ("call_ended", call(1, value=large))]
    return {
        "a run of 1,000 calls": many_calls(1_000),
        "a value of 5 MB": events_of(*one),
        "50 revisions of 200 lines": events_of(*[("program_written", {"program": text}) for text in programs]),
    }


def opened(page: Page, file: Path, times: int) -> dict[str, float]:
    """Milliseconds of opening a page; and of unfolding the first fold of calls, where it has one."""
    found: dict[str, list[float]] = {name: [] for name in _SHOWN}
    for _ in range(times + 1):
        page.open("about:blank")
        page.open(file)
        page.wait(
            "document.body.dataset.ready === 'yes' && performance.getEntriesByName('first-contentful-paint').length"
        )
        mark = "performance.getEntriesByName('{}')[0].startTime"
        found["first paint"].append(page.run(mark.format("first-contentful-paint")))
        found["drawn"].append(page.run(mark.format("ready")))
        if page.run("document.querySelector('.folded') !== null"):
            unfold = "(() => { const from = performance.now(); document.querySelector('.folded').click();"
            unfold += " document.body.getBoundingClientRect(); return performance.now() - from; })()"
            found["unfolded"].append(page.run(unfold))
    return {name: round(median(values[1:]), 1) for name, values in found.items() if values}


def watched(page: Page, file: Path) -> list[str]:
    """What axe-core finds in a page, in both themes, with what can be opened open."""
    found = []
    for dark in (False, True):
        page.open(file, dark=dark)
        page.wait("document.body.dataset.ready === 'yes'")
        page.run("[...document.querySelectorAll('#main [aria-expanded=false]')].slice(0, 30).forEach((e) => e.click())")
        found += axe.findings(page)
    return found


def measured(folder: Path, times: int) -> dict[str, Any]:
    """All figures."""
    files: dict[str, Path] = {}
    figures: dict[str, Any] = {"pages": {}}

    def write(name: str, make: Callable[[], str]) -> None:
        began = time.perf_counter()
        text = make()
        seconds = time.perf_counter() - began
        files[name] = folder / f"{len(files)}.html"
        files[name].write_text(text, encoding="utf-8")
        figures["pages"][name] = {"bytes": len(text.encode()), "written in": round(1000 * seconds, 1)}

    for number, (name, given) in enumerate(events().items()):
        run = FileRun(f"run-{number}", folder / f"run-{number}")
        run.folder.mkdir()
        run.trace.write_text("".join(json.dumps(event) + "\n" for event in given), encoding="utf-8")
        write(name, lambda run=run: run_file(run).html)  # type: ignore[misc]
    rows = [{"run_id": f"{n:06}", "task": f"task {n}", "status": "answered", "tokens": n} for n in range(10_000)]
    write("a list of 10,000 runs", lambda: runs_page(rows))
    with browsing() as page:
        for name, file in files.items():
            figures["pages"][name] |= opened(page, file, times)
        there = axe.place().exists()
        figures["axe findings"] = [each for file in files.values() for each in watched(page, file)] if there else None
    for name, assets in (
        ("assets of a run", [*SCRIPTS, *STYLES]),
        ("assets of the list", [*LIST_SCRIPTS, *LIST_STYLES]),
    ):
        figures[name] = sum(asset.stat().st_size for asset in assets)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--times", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="atc-ui-pages-") as folder:
        figures = measured(Path(folder), given.times)
    if given.json:
        print_json(figures)
    else:
        rows = [
            (name, f"{each['bytes']:,}", *(str(each.get(what, "")) for what in ("written in", *_SHOWN)))
            for name, each in figures["pages"].items()
        ]
        show("Pages in headless Chromium, ms", ("page", "bytes", "written in", *_SHOWN), rows)
        found = figures["axe findings"]
        print(f"assets: {figures['assets of a run']:,} bytes of a run, {figures['assets of the list']:,} of the list")
        told = "not there (python -m tests.support.axe)" if found is None else f"{len(found)} findings"
        print(f"axe-core: {told}")
        for each in found or ():
            print(f"  {each}")
    small = max(figures["assets of a run"], figures["assets of the list"]) <= MOST_ASSETS
    sys.exit(0 if small and not figures["axe findings"] else 1)


if __name__ == "__main__":
    main()
