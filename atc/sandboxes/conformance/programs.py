"""Checks that are a program and what it gives: full Python, as a table of programs (``programs.toml``)."""

from __future__ import annotations

import functools
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from atc.sandboxes.conformance.kit import Check, Group, Lab, NotApplicable, demand, of_kind, raised, same

_MODULES = Group("modules")
_C_MODULES = ("_lsprof", "audioop", "_curses", "readline", "_dbm", "nis", "_sqlite3", "mmap", "_testcapi")
ABSENT = "absent"
"""The answer of a program whose module, or the data for it, is not there."""


@dataclass(frozen=True)
class Program:
    """A row of the table; ``programs.toml`` says what its fields mean."""

    program: str
    answer: str = ""
    raises: str = ""
    says: str = ""
    line: int | None = None
    files: bool = False
    optional: bool = False

    async def check(self, lab: Lab) -> None:
        """Raises AssertionError unless a sandbox gives what the row says."""
        if self.files:
            lab.needs_files()
        if self.raises:
            raised(await lab.run(self.program), self.raises, self.says, self.line)
            return
        got = await lab.answer(self.program)
        if self.optional and got == ABSENT:
            raise NotApplicable("this Python has no such module (or no data for it), or it was not preloaded")
        same(got, json.loads(self.answer), "the answer")


@functools.cache
def programs() -> dict[str, dict[str, Program]]:
    """Return the table: group → promise → program."""
    groups = tomllib.loads(Path(__file__).with_name("programs.toml").read_text("utf-8"))
    return {group: {name: Program(**row) for name, row in rows.items()} for group, rows in groups.items()}


@_MODULES.check("a module with C parts that was not preloaded says so, and which setting loads it")
async def _(lab: Lab) -> None:
    loaded = "name in sys.modules or name in sys.builtin_module_names"
    for name in await lab.answer(f"import sys\nanswer = [name for name in {_C_MODULES!r} if not ({loaded})]"):
        outcome = await lab.run(f"x = 1\nimport {name}\nanswer = 1")
        if outcome.error is not None and f"No module named {name!r}" in outcome.error.message and lab.tier != "F":
            continue  # this Python was built without it
        of_kind(outcome, "raised")
        demand(outcome.error is not None and outcome.error.line == 2, "the line of the import is not named")
        demand(
            outcome.error is not None and "ATC_SANDBOX_PRELOAD" in outcome.error.hint,
            f"the hint does not say what to do: {outcome.error and outcome.error.hint}",
        )
        return
    raise NotApplicable("this Python has no module with C parts that is not loaded already")


CHECKS = [
    *_MODULES.checks,
    *(Check(name, group, row.check) for group, rows in programs().items() for name, row in rows.items()),
]
