"""Models what built-ins, methods and a program's own classes do with values, for :mod:`atc.programs.analysis.flow`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from atc.facts import Finding
from atc.programs.analysis.interpreter import Access, Interpreter
from atc.programs.analysis.values import (
    ITEM,
    MEMBER,
    NOTHING,
    UNKNOWN,
    Arguments,
    Cell,
    Function,
    Origin,
    Value,
    join,
    join_derived,
)
from atc.programs.syntax import names_in, span_of
from atc.tools.paging import ALL_PAGES

# ----------------------------------------------------------------------------------------------------------------------
# What ``all_pages(tool, …)`` does with values, for the abstract interpreter, and what can be wrong with it.


def all_pages(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    """Evaluate ``all_pages(tool, a=1)``: calls of the tool, and a list of what stands on its pages."""
    tools = [function for function in arguments.at(0).functions if function.tool]
    named = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    if isinstance(named, str) and named in flow.tools:
        tools = [flow.tool_functions[named]]
    if not tools:
        flow.without_tool.append(node)
        return flow.cell(node, Cell(items=UNKNOWN))
    called = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
    rest = Arguments(arguments.positional[1:], arguments.named, arguments.rest, arguments.spread)
    whole = join(*(flow.call(called, tool, rest, direct=True, paged=True) for tool in tools))
    return flow.cell(node, Cell(items=join(*(_on_page(flow, origin) for origin in whole.origins))))


def _on_page(flow: Interpreter, response: Origin) -> Value:
    paging = flow.paging(response.tool)
    if paging is None or paging.items is None:
        return Value(frozenset([response._replace(path=(MEMBER,))]), open=True)
    return Value(frozenset([response._replace(path=(*paging.items, ITEM))]))


def not_paged(flow: Interpreter) -> Iterator[Finding]:
    """Calls of ``all_pages`` with something that is no tool (``all_pages(list_things())``), or is not paged."""
    for call in flow.calls.values():
        if call.paged and flow.paging(call.tool) is None:
            yield Finding(kind="not_paged", line=call.node.lineno, tool=call.tool)
    for node in flow.without_tool:
        given = flow.at(span_of(node.args[0])) if node.args else NOTHING
        if not given.open:  # else nobody knows what it is before it runs
            tool = next((origin.tool for origin in sorted(given.origins, key=str)), None)
            yield Finding(kind="not_paged", case="no_tool", line=node.lineno, tool=tool)


# ----------------------------------------------------------------------------------------------------------------------
# What the built-ins, the methods and a program's own classes do with values, for :mod:`atc.programs.analysis.flow`.


_REORDERING = frozenset(
    "insert appendleft extendleft sort reverse rotate remove discard clear pop popleft shuffle".split()
    + "heapify heappop heappush heapreplace heappushpop insort insort_left insort_right".split()
)
"""Methods and functions after which things stand elsewhere in a list."""
_BUILTIN_METHODS = {name for kind in (dict, list, str, int, float) for name in dir(kind)}


def bound(flow: Interpreter, function: Function, arguments: Arguments) -> dict[str, Value]:
    """Return the parameters of a function as a call of it sets them."""
    node = function.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    parameters = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
    keywords = {parameter.arg for parameter in node.args.kwonlyargs}
    made = dict(zip(parameters, arguments.positional, strict=False))
    made |= {name: value for name, value in arguments.named.items() if name in keywords or name in parameters}
    for name in (*parameters, *keywords):
        if name not in made:
            more = arguments.rest if arguments.rest is not None else NOTHING
            more = more if arguments.spread is None else join(more, arguments.spread.key(name))
            made[name] = join(more, function.defaults[name]) if name in function.defaults else more
    if node.args.vararg is not None:
        items = join(*arguments.positional[len(parameters) :], arguments.rest or NOTHING)
        made[node.args.vararg.arg] = flow.cell(node.args.vararg, Cell(items=items))
    if node.args.kwarg is not None:
        named = {name: value for name, value in arguments.named.items() if name not in (*parameters, *keywords)}
        spread = arguments.spread or NOTHING
        made[node.args.kwarg.arg] = join(flow.cell(node.args.kwarg, Cell(fields=named, keys=UNKNOWN)), spread)
    return made


# What a program makes ----------------------------------------------------------------------------------------------


def instance(flow: Interpreter, function: Function, arguments: Arguments, node: ast.AST) -> Value:
    """Return an object of one of the program's own classes."""
    body, scope = function.node, function.scope
    assert isinstance(body, ast.ClassDef)
    made = flow.cell(node, Cell(fields=dict(scope.names), made_by=function))
    (cell,) = made.cells
    if not body.bases and not body.decorator_list:
        for constructor in scope.names.get("__init__", NOTHING).functions:
            flow.enter(constructor, replace(arguments, positional=[made, *arguments.positional]), node)
        return made
    names = [
        part.target.id for part in body.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    ]
    for index, name in enumerate(names):  # a data class or a named tuple
        given = arguments.at(index, name)
        cell.put(given, name)
        cell.put(given, str(index))
    known = {name for part in (*body.decorator_list, *body.bases) for name in names_in(part)}
    return made if known <= {"dataclass", "dataclasses", "NamedTuple", "typing"} else replace(made, open=True)


def attribute(flow: Interpreter, node: ast.Attribute, base: Value, name: str) -> Value:
    """Evaluate ``base.name``, where it is not called."""
    flow.look_up(Access(node, base, name, hedged=name in _BUILTIN_METHODS, attribute=True))
    found = [cell.fields[name] for cell in base.cells if name in cell.fields]
    for value in list(found):
        for function in value.functions:  # a property, perhaps: what it returns
            if isinstance(function.node, ast.FunctionDef) and function.node.decorator_list:
                found.append(flow.enter(function, Arguments([base])))
    own = all(name in cell.fields for cell in base.cells) and base.cells and not base.origins and not base.open
    return join(*found) if own else join(*found, replace(base.derived(), open=True))


def store(flow: Interpreter, base: Value, key: str | None, value: Value, index: Value) -> None:
    """Store ``base[key] = value`` into cells; and what is put into a response is no field that its schema must have."""
    for cell in base.cells:
        if key is None:
            cell.lose_order()
        cell.put(value, key)
        if cell.keys is not None:
            cell.keys = join(cell.keys, index)
    for origin in base.origins:
        flow.added.setdefault(origin.site, set()).add(key)
    if base.open and not base.cells:
        flow.added.setdefault(None, set()).add(key)


def grown(flow: Interpreter, old: Value, new: Value) -> Value:
    """Evaluate ``old += new``."""
    for cell in old.cells:
        cell.put(new.each())
    if new.cells or not (old.open or new.open):  # a list that grows, not a sum
        for origin in old.origins:
            flow.added.setdefault(origin.site, set()).add(None)
    return old if old.cells and not old.origins else join(old, join_derived([old, new]))


def combined(flow: Interpreter, node: ast.BinOp, left: Value, operator: ast.operator, right: Value) -> Value:
    """Evaluate ``left + right`` and its like."""
    if not left.cells and not right.cells:
        return join_derived([left, right])
    if isinstance(operator, ast.Add):
        return flow.cell(node, Cell(items=join(left.each(), right.each())))
    return join(left, right) if isinstance(operator, ast.BitOr | ast.Mult) else join_derived([left, right])


# Methods -----------------------------------------------------------------------------------------------------------


def method(flow: Interpreter, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
    """Evaluate ``base.name(...)``."""
    own = [function for cell in base.cells for function in cell.fields.get(name, NOTHING).functions]
    if own:
        return join(*(_called(flow, node, function, base, arguments) for function in own))
    first = arguments.at(0)
    if name in _REORDERING:
        for cell in base.cells:
            cell.lose_order()
    match name:
        case "get" | "pop" | "setdefault":
            return _looked_up(flow, node, base, name, arguments)
        case "popitem" | "values" | "items" | "keys":
            pair = flow.cell(node, Cell(fields={"0": _keys(base), "1": base.member()}))
            if name == "popitem":
                return pair
            items = {"values": base.member(), "items": pair, "keys": _keys(base)}[name]
            return flow.cell(node.func, Cell(items=items))
        case "append" | "add" | "appendleft" | "insert" | "extend" | "update":
            _grow(flow, base, name, arguments)
            return NOTHING
        case "sort" | "remove" | "discard" | "clear" | "reverse":
            _apply_key(flow, arguments, base)
            return NOTHING
        case "popleft":
            return base.each()
        case "copy" | "result" | "_replace" | "_asdict":
            return base
        case "most_common":
            pair = flow.cell(node, Cell(fields={"0": join(base.each(), _keys(base)), "1": NOTHING}))
            return flow.cell(node.func, Cell(items=pair))
        case "split" | "splitlines" | "rsplit" | "findall" | "partition":
            return flow.cell(node, Cell(items=join_derived([base, *arguments.all()])))
        case "submit" | "to_thread":
            rest = Arguments(arguments.positional[1:], arguments.named, arguments.rest, arguments.spread)
            return join(UNKNOWN, *(flow.call(node, function, rest) for function in first.functions))
    if base.open and not base.cells and (name in _BUILTINS or base.origins == frozenset()):  # `itertools.chain(…)`
        return builtin(flow, node, name, arguments)
    if name not in _BUILTIN_METHODS:
        flow.look_up(Access(node, base, name, attribute=True))
    return join_derived([base, *arguments.all()])


def _called(flow: Interpreter, node: ast.Call, function: Function, base: Value, arguments: Arguments) -> Value:
    decorators = getattr(function.node, "decorator_list", ())
    is_method = any(c.made_by is not None and function.scope is c.made_by.scope for c in base.cells)
    if is_method and not any("staticmethod" in names_in(decorator) for decorator in decorators):
        arguments = replace(arguments, positional=[base, *arguments.positional])
    return flow.call(node, function, arguments)


def _looked_up(flow: Interpreter, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
    default = arguments.at(1)
    key = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    if name == "setdefault":
        store(flow, base, key if isinstance(key, str) else None, default, arguments.at(0))
    if isinstance(key, str):
        if name == "get":
            flow.tested.add(key)  # who asks with `get` is ready for the key not to be there, here and below
        flow.look_up(Access(node, base, key, hedged=name != "pop" or len(node.args) + len(node.keywords) > 1))
        return join(base.key(key), default)
    if name == "pop" and (not node.args or isinstance(key, int)):
        return base.each()
    return join(base.member(), default)


def _grow(flow: Interpreter, base: Value, name: str, arguments: Arguments) -> None:
    value = arguments.at(1 if name == "insert" else 0)
    for cell in base.cells:
        if name in ("append", "add", "appendleft", "insert"):
            cell.put(value)
        elif name == "extend" or cell.keys is None:
            cell.put(value.each())
        else:
            _update(cell, value, arguments.named)
    for origin in base.origins:
        flow.added.setdefault(origin.site, set()).add(None)


def _update(cell: Cell, value: Value, named: dict[str, Value]) -> None:
    for key, item in named.items():
        cell.put(item, key)
    for other in value.cells:
        for key, item in other.fields.items():
            cell.put(item, key)
        cell.put(other.items)
        cell.keys = join(cell.keys or NOTHING, other.keys or UNKNOWN)
    if value.origins or value.open:
        cell.put(value.member())
        cell.keys = join(cell.keys or NOTHING, _keys(value))


def _keys(value: Value) -> Value:
    own = join(*(cell.keys for cell in value.cells if cell.keys is not None))
    return own if not value.origins and not value.open else join(own, replace(value, cells=frozenset()).derived())


# Built-in functions, and those of the standard library that programs use ---------------------------------------------


def builtin(flow: Interpreter, node: ast.Call, name: str, arguments: Arguments) -> Value:
    """Evaluate a call of a function that is not the program's own, by its name."""
    made = _BUILTINS.get(name)
    if name in _REORDERING:
        for cell in join(*arguments.positional).cells:
            cell.lose_order()
    if made is not None:
        return made(flow, node, arguments)
    first = arguments.at(0)
    if name in ("isinstance", "type", "hasattr", "callable"):
        flow.type_tested |= first.origins
    if name in ("run", "run_until_complete", "copy", "deepcopy", "cast"):
        return arguments.at(1) if name == "cast" else first
    return join_derived(arguments.all())


def _apply_key(flow: Interpreter, arguments: Arguments, items: Value) -> None:
    for function in arguments.named.get("key", NOTHING).functions:
        flow.enter(function, Arguments([items.each()]))


def _list(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    _apply_key(flow, arguments, arguments.at(0))
    return flow.cell(node, Cell(items=arguments.at(0).each()))


def _second_list(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    _apply_key(flow, arguments, arguments.at(1))
    return flow.cell(node, Cell(items=arguments.at(1).each()))


def _one(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    if len(arguments.positional) > 1:  # max(a, b)
        candidates = flow.cell(node, Cell(items=join(*arguments.positional, arguments.rest or NOTHING)))
    else:
        candidates = join(arguments.at(0), *([flow.cell(node, Cell(items=arguments.rest))] if arguments.rest else []))
    _apply_key(flow, arguments, candidates)
    return join(candidates.each(), arguments.named.get("default", NOTHING))


def _next(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    return join(arguments.at(0).each(), arguments.at(1))


def _first_item(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    return arguments.at(0).each()


def _dict(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    (cell,) = (made := flow.cell(node, Cell(keys=NOTHING, fields=dict(arguments.named)))).cells
    first = arguments.at(0)
    for other in first.cells:
        if other.keys is not None:
            _update(cell, Value(cells=frozenset([other])), {})
        else:  # pairs
            pair = other.everything()
            cell.put(pair.item(1))
            cell.keys = join(cell.keys or NOTHING, pair.item(0))
    return join(made, replace(first, cells=frozenset()), arguments.spread or NOTHING)


def _defaultdict(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    factory = node.args[0] if node.args else None
    made = NOTHING
    if isinstance(factory, ast.Name) and factory.id in ("list", "set", "dict", "defaultdict"):
        made = flow.cell(factory, Cell(keys=NOTHING if "dict" in factory.id else None))
    elif arguments.at(0).functions:
        made = join(*(flow.enter(function, Arguments()) for function in arguments.at(0).functions))
    return flow.cell(node, Cell(keys=NOTHING, items=made))


def _counter(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    return flow.cell(node, Cell(keys=arguments.at(0).each(), items=NOTHING))


def _enumerate(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    pair = flow.cell(node.func, Cell(fields={"0": NOTHING, "1": arguments.at(0).each()}))
    return flow.cell(node, Cell(items=pair))


def _zip(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    fields = {str(index): value.each() for index, value in enumerate(arguments.positional)}
    items = (arguments.rest or NOTHING).each()
    return flow.cell(node, Cell(items=flow.cell(node.func, Cell(fields=fields, items=items))))


def _tuples(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    values = [value.each() for value in arguments.positional]
    return flow.cell(node, Cell(items=flow.cell(node.func, Cell(items=join(*values)))))


def _groupby(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    items = arguments.at(0)
    keys = join(*(flow.enter(f, Arguments([items.each()])) for f in arguments.at(1, "key").functions))
    group = flow.cell(node.func, Cell(items=items.each()))
    return flow.cell(
        node, Cell(items=flow.cell(node.args[0] if node.args else node, Cell(fields={"0": keys, "1": group})))
    )


def _chain(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    lists = [*arguments.positional, *([arguments.rest] if arguments.rest else [])]
    return flow.cell(node, Cell(items=join(*(value.each() for value in lists))))


def _from_iterable(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    return flow.cell(node, Cell(items=arguments.at(0).each().each()))


def _map(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    given = Arguments([value.each() for value in arguments.positional[1:]])
    functions = arguments.at(0).functions
    made = [flow.call(node, function, given) for function in functions]
    return flow.cell(node, Cell(items=join(*made) if made else join_derived(given.positional)))


def _filter(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    items = arguments.at(1).each()
    for function in arguments.at(0).functions:
        flow.enter(function, Arguments([items]))
    return flow.cell(node, Cell(items=items))


def _reduce(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    items, start = arguments.at(1).each(), arguments.at(2)
    made = join(items, start)
    for _ in range(2):
        made = join(made, *(flow.enter(f, Arguments([made, items])) for f in arguments.at(0).functions))
    return made if arguments.at(0).functions else join_derived(arguments.all())


def _parallel(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    thunks = arguments.positional
    match node.args:
        case [ast.List(elts=parts)] if not any(isinstance(part, ast.Starred) for part in parts):
            thunks = [flow.at(span_of(part)) for part in parts]
    others = [arguments.rest or NOTHING, *(value.each() for value in arguments.positional)]
    functions = {function for thunk in (*thunks, *others) for function in thunk.functions}
    made = {function: flow.call(node, function, Arguments()) for function in functions}
    if not thunks or any(not thunk.functions for thunk in thunks):
        return flow.cell(node, Cell(items=join(*made.values())))
    fields = {str(at): join(*(made[each] for each in thunk.functions)) for at, thunk in enumerate(thunks)}
    rest = join(*(made[each] for each in others[0].functions))
    return flow.cell(node, Cell(items=rest, fields=fields, more=rest is not NOTHING))


def _push(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    for cell in arguments.at(0).cells:
        cell.put(arguments.at(1))
    return NOTHING


_Builtin = Callable[[Interpreter, ast.Call, Arguments], Value]
_BUILTINS: dict[str, _Builtin] = {
    **dict.fromkeys(("sorted", "list", "tuple", "set", "frozenset", "reversed", "iter"), _list),
    **dict.fromkeys(("deque", "islice", "cycle"), _list),
    **dict.fromkeys(("nlargest", "nsmallest", "filterfalse", "takewhile", "dropwhile"), _second_list),
    **dict.fromkeys(("max", "min"), _one),
    **dict.fromkeys(("choice", "heappop"), _first_item),
    **dict.fromkeys(("product", "combinations", "permutations", "pairwise"), _tuples),
    **dict.fromkeys(("dict", "OrderedDict"), _dict),
    **dict.fromkeys(("zip", "zip_longest"), _zip),
    **dict.fromkeys(("chain", "gather"), _chain),
    **dict.fromkeys(("heappush", "insort"), _push),
    "next": _next,
    "sample": _list,
    "defaultdict": _defaultdict,
    "Counter": _counter,
    "enumerate": _enumerate,
    "groupby": _groupby,
    "from_iterable": _from_iterable,
    "map": _map,
    "filter": _filter,
    "reduce": _reduce,
    "parallel": _parallel,
    ALL_PAGES: all_pages,
}
"""Models by the last part of their names; a program's own function of the same name comes first."""
