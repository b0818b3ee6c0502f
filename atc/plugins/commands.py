"""What another package's command of ``atc tools learn`` builds on: options, output, exit codes, the latest tools.

With these it takes the same sources of tools as other commands, prints ``--json``, and ends with the same exit codes.
Each name has its documentation where it is made.
"""

from __future__ import annotations

from atc.catalogue.catalogue import store_in
from atc.cli import options
from atc.cli.console import INTERRUPTED, NOT_SOLVED, SOLVED, clean, err, guarded, not_enough, out, print_json, stages
from atc.cli.learn import tools_or_latest

__all__ = [
    "INTERRUPTED",
    "NOT_SOLVED",
    "SOLVED",
    "clean",
    "err",
    "guarded",
    "not_enough",
    "options",
    "out",
    "print_json",
    "stages",
    "store_in",
    "tools_or_latest",
]
