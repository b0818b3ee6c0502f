"""Inputs: values that stand in a program's scope when it starts."""

from __future__ import annotations

from typing import Any

from atc.errors import UsageError
from atc.sandboxes.conformance.kit import Group, Lab, demand, raised, same

GROUP = Group("inputs")
_HOSTILE = "'''\n__import__('os')._exit(3)\n#\\N{BULLET}{0}%s"


@GROUP.check("inputs stand in the program's scope, whatever they hold")
async def _(lab: Lab) -> None:
    given: dict[str, Any] = {
        "text": "ü😀\x00",
        "numbers": [1, 2.5, True, None, 10**300],
        "data": b"\x00\xff",
        "naïve": {"a b": [{}], "": []},
        "tag": {"$bytes": "aGk="},
        "nested": {"x": {"$$bytes": [b"hi"]}},
    }
    got = await lab.answer(f"answer = [{', '.join(given)}]", inputs=given)
    same(got, list(given.values()), "what the program read")


@GROUP.check("an input is data, never code")
async def _(lab: Lab) -> None:
    same(await lab.answer("answer = text", inputs={"text": _HOSTILE}), _HOSTILE, "the text that the program read")
    raised(await lab.run("x = 1\ntext(1)", inputs={"text": _HOSTILE}), "TypeError", "not callable", line=2)


@GROUP.check("a program may change its inputs, and the next one does not see that")
async def _(lab: Lab) -> None:
    for _ in range(2):
        given = {"items": [1, 2]}
        same(await lab.answer("items.append(3)\nanswer = items", inputs=given), [1, 2, 3], "the changed input")
        same(given, {"items": [1, 2]}, "the host's own value")
    raised(await lab.run("x = 1\nanswer = items"), "NameError", "items", line=2)


@GROUP.check("an input takes the place of nothing else in a program's scope")
async def _(lab: Lab) -> None:
    for name in ("answer", "parallel", "ToolError", "all_pages", "f", "print", "__builtins__", "__name__", "class", ""):
        try:
            await lab.run("f()", {"f": lambda _: 1}, inputs={name: 1})
        except UsageError as error:
            demand(repr(name) in str(error), f"the refusal does not name {name!r}: {error}")
        else:
            raise AssertionError(f"an input could be called {name!r}")


@GROUP.check("an input that is too large or no JSON is refused, and its program is not run")
async def _(lab: Lab) -> None:
    def never(_: dict[str, Any]) -> Any:
        raise AssertionError("the program was run")

    large = "x" * lab.sandbox.limits.frame_bytes
    wrong: list[tuple[Any, str]] = [(large, "takes"), (float("nan"), "cannot"), (object(), "cannot")]
    for value, word in wrong:
        try:
            await lab.run("f()", {"f": never}, inputs={"given": value})
        except UsageError as error:
            demand("'given'" in str(error) and word in str(error), f"the refusal does not say what is wrong: {error}")
        else:
            raise AssertionError(f"a program was run with the input {str(value)[:40]}")
    await lab.still_works()


CHECKS = GROUP.checks
