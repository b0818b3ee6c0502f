"""What must hold of the stubs of any tool, wherever its document comes from."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from atc.errors import ToolImportError
from atc.schemas.protocol import Protocol, parameters_of
from atc.schemas.validate import problems
from atc.tools.stub_budget import json_documents
from atc.tools.stubs import render_stubs
from benchmarks.fuzzing.target import Broken

_ALLOWED = (ast.ImportFrom, ast.ClassDef, ast.FunctionDef)


def check_stubs(protocols: Sequence[Protocol]) -> None:
    """Render the tools and look at what a model would read.

    Raises:
        Broken: it is no Python, holds a statement of a stranger, or shows other tools or arguments.
    """
    json_documents(protocols)
    try:
        text = render_stubs(protocols)
    except ToolImportError as error:  # the guard that is never expected to hold anything back
        raise Broken(f"stubs: the last guard had to refuse one: {error}") from None
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise Broken(f"stubs: they are no Python: {error}") from None
    except RecursionError:
        return
    if foreign := [node for node in tree.body if not isinstance(node, _ALLOWED) and not _is_typed_dict(node)]:
        raise Broken(f"stubs: a statement that is none of ours: {ast.unparse(foreign[0])[:200]}")
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for protocol in protocols:
        made = functions.get(protocol.name)
        if made is None:
            raise Broken(f"stubs: {protocol.name!r} is missing")
        shown = {argument.arg for argument in (*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs)}
        if shown != {parameter.name for parameter in parameters_of(protocol)}:
            raise Broken(f"stubs: {protocol.name!r} shows other arguments than it has: {sorted(shown)}")
        if any(not isinstance(each, ast.Expr) or not isinstance(each.value, ast.Constant) for each in made.body):
            raise Broken(f"stubs: the function {protocol.name!r} has a body")
        problems(protocol.parameters, {})


def _is_typed_dict(node: ast.stmt) -> bool:
    """Whether it is ``Name = TypedDict("Name", {…})``, with nothing in it that would run anything else."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call | ast.Lambda | ast.Attribute)]
    return calls == [node.value] and isinstance(node.value.func, ast.Name) and node.value.func.id == "TypedDict"
