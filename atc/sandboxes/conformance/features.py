"""Full Python: programs of the kind that models write give the answers that CPython gives."""

from __future__ import annotations

from typing import Any

from atc.sandboxes.conformance import language, library
from atc.sandboxes.conformance.kit import Check, Group, Lab, NotApplicable, demand, of_kind, raised, same

_REST = Group("modules")
_C_MODULES = ("_lsprof", "audioop", "_curses", "readline", "_dbm", "nis", "_sqlite3", "mmap", "_testcapi")


def _snippet(name: str, program: str, wanted: Any) -> Check:
    async def run(lab: Lab) -> None:
        if name in library.NEED_FILES:
            lab.needs_files()
        got = await lab.answer(program)
        if got == library.ABSENT:
            raise NotApplicable("this Python has no such module (or no data for it), or it was not preloaded")
        same(got, wanted, "the answer")

    return Check(name, "python", run)


@_REST.check("a module with C parts that was not preloaded says so, and which setting loads it")
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


@_REST.check("a package that is not there says that packages must be preloaded")
async def _(lab: Lab) -> None:
    raised(await lab.run("x = 1\nimport no_such_package"), "ModuleNotFoundError", "preload", line=2)


@_REST.check("a module that is missing can be caught")
async def _(lab: Lab) -> None:
    program = "try:\n    import no_such_package\nexcept ImportError as e:\n    answer = [e.name, str(e)]"
    same(await lab.answer(program), ["no_such_package", "No module named 'no_such_package'"], "what the program read")


CHECKS = [
    *_REST.checks,
    *(_snippet(name, *pair) for name, pair in {**language.SNIPPETS, **library.SNIPPETS}.items()),
]
