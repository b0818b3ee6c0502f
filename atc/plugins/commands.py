"""What another package's command of ``atc tools learn`` builds on: options, output, exit codes, the latest tools.

With these it takes the same sources of tools as other commands, prints ``--json``, and ends with the same exit codes.
Each name has its documentation where it is made.
"""

from __future__ import annotations

from atc.catalogue.catalogue import store_in as store_in
from atc.cli import options as options
from atc.cli.console import INTERRUPTED as INTERRUPTED
from atc.cli.console import NOT_SOLVED as NOT_SOLVED
from atc.cli.console import SOLVED as SOLVED
from atc.cli.console import clean as clean
from atc.cli.console import err as err
from atc.cli.console import guarded as guarded
from atc.cli.console import not_enough as not_enough
from atc.cli.console import out as out
from atc.cli.console import print_json as print_json
from atc.cli.console import stages as stages
from atc.cli.learn import tools_or_latest as tools_or_latest
