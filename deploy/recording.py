"""The recording docs/pictures/approve.svg: the commands of README, run at a terminal.

``python -m deploy.recording`` runs the two files and the commands that the README shows, in an empty folder and without
a model, and compares what they print with the picture; it exits with 1 where they differ. ``--write`` draws the picture
again. Ids, times and the user's name are replaced by fixed ones, so that equal output gives an equal picture.
"""

from __future__ import annotations

import argparse
import fcntl
import getpass
import os
import pty
import re
import struct
import sys
import tempfile
import termios
import time
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "approve.svg"
COMMANDS = (
    ("python remind.py", ""),
    ("atc runs approvals", "another terminal, another day"),
    ("atc runs approve last", "you decide"),
    ("atc resume last --tools shop.py | tail -8", "continues where it stopped"),
)
"""Each command with the comment behind it."""
COLUMNS, ROWS = 112, 60
STEP_S, FIRST_S = 0.12, 1.4
"""Seconds between two lines of output, and before the output of a command."""
SIZE, WIDTH, HEIGHT, MARGIN = 13, 7.83, 19, 16
"""Of a letter, in pixels: its size, its width, its line; and what stays free around the text."""
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FIXED = (
    (r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "20261128-090000-4f0a2c"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "2026-11-28 09:00"),
    (r"\b\d+ ms\b", "7 ms"),
    (r"^\d+\.\d s:(.*)\(\d+\.\d+ s\); isolation: .*$", r"0.6 s:\1(0.01 s); isolation: process/N"),
)
_STYLE = """
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dde4;
    white-space: pre; animation: shown 0.01s backwards }
  .command { fill: #ffffff; font-weight: 600 }
  .comment { fill: #8b96a5; font-weight: 400 }
  .good { fill: #7ee0a1 }
  .asked { fill: #ffd479 }
  @keyframes shown { from { opacity: 0 } to { opacity: 1 } }
  @media (prefers-reduced-motion: reduce) { text { animation: none } }
"""


def files() -> dict[str, str]:
    """The two files of the README, by name."""
    tools, script = _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[:2]
    return {"shop.py": tools, "remind.py": script}


def run(command: str, folder: Path) -> str:
    """Run a command at a terminal, answer its question with ``y``, and return what it showed.

    Raises:
        RuntimeError: the command failed, or took longer than a minute.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe("sh", ["sh", "-c", command], _environment(folder))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    shown, answered, deadline = b"", False, time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            read = os.read(terminal, 65536)
        except OSError:  # Linux says so where the other side has closed
            break
        shown += read
        if not answered and shown.endswith(b"[y/N]: "):
            answered = True
            os.write(terminal, b"y\n")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "")
    if status:
        raise RuntimeError(f"{command}: exit code {status}\n{text}")
    return fixed(text)


def _environment(folder: Path) -> dict[str, str]:
    """The caller's search path and nothing else of theirs: no settings, no keys, an empty home."""
    return {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder / "home"),
        "ATC_RUNS_DIR": str(folder / "runs"),
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm",
        "NO_COLOR": "1",
        "LANG": "C.UTF-8",
    }


def fixed(text: str) -> str:
    """Text without what differs from run to run."""
    for pattern, instead in _FIXED:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return re.sub(rf"\bby {re.escape(getpass.getuser())}\b", "by you", text)


def recorded() -> list[tuple[str, str, list[str]]]:
    """Each command, its comment, and the lines that it printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "home").mkdir()
        for file, text in files().items():
            (folder / file).write_text(text, encoding="utf-8")
        return [(command, comment, _lines(run(command, folder))) for command, comment in COMMANDS]


def _lines(text: str) -> list[str]:
    """The lines of a terminal: long ones are broken at its edge, empty ones at the end left out."""
    lines = []
    for line in text.rstrip().splitlines():
        lines += [line[at : at + COLUMNS] for at in range(0, max(len(line), 1), COLUMNS)]
    return lines


def drawn(commands: list[tuple[str, str, list[str]]]) -> str:
    """The picture of a terminal in which these commands run one after another."""
    texts: list[str] = []
    at = 0.2
    for command, comment, lines in commands:
        behind = f'<tspan class="comment">   # {escape(comment)}</tspan>' if comment else ""
        texts.append(_text(len(texts), at, f"$ {escape(command)}{behind}", "command"))
        at += FIRST_S
        for line in lines:
            texts.append(_text(len(texts), at, escape(line), _kind(line)))
            at += STEP_S
        at += FIRST_S
        texts.append("")
    height = round(2 * MARGIN + HEIGHT * (len(texts) - 1))
    width = round(2 * MARGIN + WIDTH * COLUMNS)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" aria-labelledby="title">',
            '<title id="title">A program stops at a write, the write is approved in another terminal, '
            "and the program continues</title>",
            f"<style>{_STYLE}</style>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="#161b22" stroke="#57606a"/>',
            *(text for text in texts if text),
            "</svg>",
            "",
        ]
    )


def _text(row: int, at: float, content: str, kind: str) -> str:
    y = MARGIN + HEIGHT * row + SIZE
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{MARGIN}" y="{y}"{named} style="animation-delay:{at:.2f}s" xml:space="preserve">{content}</text>'


def _kind(line: str) -> str:
    if line.startswith(("[y/N]", "waiting")):
        return "asked"
    return "good" if re.match(r"\s*✓|ann@|\d+ approved", line) else ""


def main() -> int:
    """Compare the picture with what the commands print, or draw it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="draw the picture again")
    parser.add_argument("--check", action="store_true", help="compare only, which is the default")
    write = parser.parse_args().write
    picture = drawn(recorded())
    if write:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(picture, encoding="utf-8")
        return 0
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == picture:
        return 0
    print(f"{PICTURE.relative_to(ROOT)} is out of date: python -m deploy.recording --write", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
