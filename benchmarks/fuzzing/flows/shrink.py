"""Makes a program with a miss smaller: statements are taken out and expressions replaced, as long as the miss stays."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator

from benchmarks.fuzzing.flows.oracle import Engines, Miss, Oracle, followed

MAX_TRIALS = 1_500
SEEDS = 3
"""Choices of changes that are tried on each smaller program."""


def smallest(source: str, miss: Miss, engines: Engines = followed) -> tuple[str, Miss]:
    """Return a smaller program that has a miss of the same cause, and that miss.

    Args:
        source: the program.
        miss: what was found.
        engines: makes the engine of a program.
    """
    oracle = Oracle(engines)
    left = MAX_TRIALS
    found = miss
    shrunk = True
    while shrunk and left > 0:
        shrunk = False
        for smaller in _smaller(source):
            left -= 1
            if left < 0:
                break
            again = _again(oracle, smaller, miss)
            if again is not None:
                source, found, shrunk = smaller, again, True
                break
    return source, found


def _again(oracle: Oracle, source: str, miss: Miss) -> Miss | None:
    for seed in range(SEEDS):
        for each in oracle.misses(source, random.Random(seed)):
            if each.cause == miss.cause:
                return each
    return None


def _smaller(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    places = [
        (place, name, at)
        for place, node in enumerate(ast.walk(tree))
        for name in ("body", "orelse", "finalbody", "handlers")
        if isinstance(body := getattr(node, name, None), list)
        for at in range(len(body))
    ]
    for place, name, at in places:
        for made in _without(tree, place, name, at):
            yield from _text(made, source)
    for place, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.expr):
            for number in range(sum(1 for _ in _within(node))):
                made = copy.deepcopy(tree)
                target = list(ast.walk(made))[place]
                if _replace(made, target, list(_within(target))[number]):
                    yield from _text(made, source)


def _within(node: ast.AST) -> list[ast.expr]:
    return [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]


def _without(tree: ast.Module, place: int, name: str, at: int) -> Iterator[ast.Module]:
    for lift in (False, True):
        made = copy.deepcopy(tree)
        node = list(ast.walk(made))[place]
        body = getattr(node, name)
        inner = getattr(body[at], "body", None) if lift else []
        if not isinstance(inner, list):
            continue
        body[at : at + 1] = inner
        if not body and name == "body" and not isinstance(node, ast.Module):
            body.append(ast.Pass())
        if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
            continue
        yield made


def _replace(tree: ast.AST, old: ast.AST, new: ast.expr) -> bool:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is old:
                setattr(node, name, new)
                return True
            if isinstance(value, list) and any(each is old for each in value):
                value[:] = [new if each is old else each for each in value]
                return True
    return False


def _text(tree: ast.Module, before: str) -> Iterator[str]:
    try:
        text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        compile(text, "<smaller>", "exec")
    except (SyntaxError, ValueError, AttributeError, TypeError, RecursionError):
        return
    if len(text) < len(before):
        yield text
