"""Look an id up where a program gives a name for it, and one tool finds by name (after RETO §3.4).

``get_city(city_name="Lyon")`` is sure to fail where ``get_city`` takes a ``city_id`` alone. Where one read-only tool
needs nothing but a name and returns that id, it can only mean ``find_cities(name="Lyon")["cities"][0]["city_id"]``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from atc.graph.identifiers import NAMES, words_of
from atc.graph.suppliers import Supplier, Suppliers, is_handed_out
from atc.programs.analysis.schema_paths import shape_at
from atc.programs.program import Program
from atc.programs.repair.context import RepairContext
from atc.programs.repair.edits import Rewrite, replace
from atc.result import Effect
from atc.schemas.validate import types_of
from atc.tools.parameters import Parameter, parameters_of
from atc.tools.protocol import Protocol


def look_up_ids(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """Look up the ids for which a program gives a name."""
    for keyword, text, note in Lookups(context.protocols, context.suppliers).edits(program.module):
        yield Rewrite("id-by-name", f"line {keyword.lineno}: {note}", (replace(keyword, text),))


class Lookups:
    """Finds the ids to look up in programs over one set of tools.

    Args:
        protocols: the tools that a program is offered, by name.
        suppliers: of their arguments.
    """

    def __init__(self, protocols: Mapping[str, Protocol], suppliers: Suppliers) -> None:
        self._protocols, self._suppliers = protocols, suppliers

    def edits(self, tree: ast.Module) -> Iterator[tuple[ast.keyword, str, str]]:
        """What to write in place of which argument, and why."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._protocols:
                tool = node.func.id
                if (found := self._name_for_id(tool, node)) is None:
                    continue
                keyword, parameter = found
                if (supplier := self._found_by_name(tool, parameter)) is not None:
                    looked_up = supplier.render({supplier.arguments[0]: ast.unparse(keyword.value)})
                    note = f"looked {parameter.name} up with {supplier.tool}"
                    yield keyword, f"{parameter.name}={looked_up}", note

    def _name_for_id(self, tool: str, node: ast.Call) -> tuple[ast.keyword, Parameter] | None:
        """The one argument that is a name where the one missing argument is an id, or where a number is wanted."""
        parameters = parameters_of(self._protocols[tool])
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            return None
        given = {keyword.arg for keyword in node.keywords}
        known = {parameter.name for parameter in parameters}
        unknown = [keyword for keyword in node.keywords if keyword.arg not in known]
        missing = [p for p in parameters if p.required and p.name not in given]
        if len(unknown) == 1 == len(missing):
            return (unknown[0], missing[0]) if _is_name_of(unknown[0].arg or "", missing[0]) else None
        for keyword in node.keywords:
            parameter = next((p for p in parameters if p.name == keyword.arg), None)
            if parameter is not None and _is_text(keyword.value) and types_of(parameter.schema) == {"integer"}:
                return keyword, parameter
        return None

    def _found_by_name(self, tool: str, parameter: Parameter) -> Supplier | None:
        """The one reading tool that needs a name alone and returns the id."""
        suppliers = self._suppliers.get((tool, parameter.original), ())
        found = [each for each in suppliers if each.known and self._needs_a_name(each.tool)]
        return found[0] if len(found) == 1 else None

    def _needs_a_name(self, tool: str) -> bool:
        return _by_name(self._protocols[tool]) is not None


def search_tool_beside(tool: str, protocols: Mapping[str, Protocol]) -> str:
    """The one reading tool that finds by name what another lists, as it is called; empty where there is not one."""
    listed = _lists(protocols[tool]) if tool in protocols else set()
    calls = [
        f"{protocol.name}({parameter.name}=...)"
        for protocol in protocols.values()
        if protocol.name != tool and listed & _lists(protocol) and (parameter := _by_name(protocol)) is not None
    ]
    return calls[0] if len(calls) == 1 else ""


def _lists(protocol: Protocol) -> set[str]:
    """The keys of a response under which lists stand."""
    keys = shape_at(protocol.returns, ()).keys if protocol.returns else ()
    return {key for key in keys if shape_at(protocol.returns, (key,)).kind == "list"}


def _by_name(protocol: Protocol) -> Parameter | None:
    """The name that a reading tool needs, if it needs nothing else."""
    required = [parameter for parameter in parameters_of(protocol) if parameter.required]
    if protocol.effect is not Effect.READ or len(required) != 1 or types_of(required[0].schema) != {"string"}:
        return None
    return required[0] if NAMES & set(words_of(required[0].name)[-1:]) else None


def _is_name_of(given: str, parameter: Parameter) -> bool:
    """Whether ``city_name``, ``city`` or ``name`` is given where a ``city_id`` is wanted."""
    if not is_handed_out(parameter.original, parameter.schema):
        return False
    words, thing = words_of(given), words_of(parameter.original)[:-1]
    return bool(NAMES & set(words[-1:])) or (bool(words) and words == thing)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.strip().isdecimal()
