"""The pictures of the pages in the docs, made from real runs in a real browser.

``python -m tests.support.screenshots`` writes them to ``docs/pictures``: runs with a scripted model that end in three
ways, on the page of ``atc ui``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.browser import Page, browsing
from tests.support.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "pictures"
TOOLS = '''
from atc import tool


@tool(effect="read")
def find_orders(customer: str) -> list[dict]:
    """Find the orders of a customer, amounts in cents."""
    return [{"order_id": 17, "customer": customer, "cents": 4200}, {"order_id": 18, "customer": customer, "cents": 900}]


@tool(effect="write")
def send_reminder(order_id: int, text: str) -> dict:
    """Send a payment reminder for an order."""
    return {"sent_to": "ann@example.org", "order_id": order_id}
'''
RUNS = r"""
from atc import Agent, FakeModel
from tools import find_orders, send_reminder

FIND = 'order = max(find_orders(customer="Ann"), key=lambda order: order["cents"])\n'
SEND = FIND + 'text = f"{order["cents"] / 100:.2f} EUR are open"\n'.replace('["cents"]', "['cents']")
SEND += 'receipt = send_reminder(order_id=order["order_id"], text=text)\n'
WRONG, RIGHT = SEND + 'answer = receipt["address"]\n', SEND + 'answer = receipt["sent_to"]\n'


def run(task, approve, *programs):
    replies = [f"```python\n{program}```" for program in programs]
    with Agent([find_orders, send_reminder], model=FakeModel(replies), approve=approve, sentence=False) as agent:
        return agent.run(task)


run("How much does Ann owe for her largest order?", "never", FIND + 'answer = order["cents"] / 100\n')
revised = run("Remind Ann of her largest order", "always", WRONG, RIGHT)
run("Remind Ann of her largest open order", "park", RIGHT)
print(revised.run_id)
"""
WAITS = "[...document.querySelectorAll('button')].some(b => b.innerText === 'Approve' && b.offsetParent)"
ENDED = "document.body.innerText.includes('answered')"
BROWSED = "location.protocol === 'http:' && !location.search && document.readyState === 'complete'"


@contextmanager
def served(home: Path) -> Iterator[tuple[str, str]]:
    """Make the runs, serve their page at a terminal, and yield its address, which may approve, and one of the runs."""
    os.environ.update(HOME=str(home), PYTHONPATH=str(ROOT), ATC_RUNS_DIR=str(home / "runs"))
    os.chdir(home)
    Path("tools.py").write_text(TOOLS)
    Path("runs.py").write_text(RUNS)
    made = subprocess.run([sys.executable, "runs.py"], check=True, stdout=subprocess.PIPE, text=True)
    with Terminal("ui", "--no-open", "--tools", "tools.py") as ui:
        ui.wait_for("Ctrl-C ends this")
        lines = ui.shown.replace("\r", "").split("\n")
        address = next(line for line in lines if "approve" in line and "http" in line).split(": ", 1)[1].strip()
        yield address, made.stdout.strip()


def taken(page: Page, name: str, address: str, shown: str, *, dark: bool, size: tuple[int, int]) -> None:
    """Open a page, wait for what it must show, and keep its picture.

    Args:
        name: of the file. ``shown``: JavaScript that gives true when it is there. ``size``: in pixels.
    """
    page.open(address, dark=dark, width=size[0], height=size[1])
    page.wait(shown)
    page.wait(f"performance.now() > {SETTLED_MS}")
    (FOLDER / f"{name}.png").write_bytes(page.screenshot())


SETTLED_MS = 7_000
"""After so long no message of the page is shown any more."""


def main() -> None:
    """Write the pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, served(Path(place)) as (address, revised), browsing() as page:
        way = Path(place) / "way.html"  # as `atc ui` opens a browser: the address with the token leads to one without
        way.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">')
        page.open(way)
        page.wait(BROWSED)
        runs = page.run("location.href")
        taken(page, "runs-light", runs, WAITS, dark=False, size=(1100, 560))
        taken(page, "runs-phone-dark", runs, WAITS, dark=True, size=(360, 780))
        taken(page, "run-dark", f"{runs}runs/{revised}", ENDED, dark=True, size=(1100, 760))


if __name__ == "__main__":
    main()
