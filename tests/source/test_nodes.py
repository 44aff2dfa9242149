"""The walk over a tree is that of `ast.walk` without contexts and operators."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tapecheck.source.nodes import children, walk

SAME = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
PROGRAMS = {
    "every kind": (
        "@d\nasync def f(a: int, *b, c=1, d, **e) -> {**{}, 1: 2}:\n    global g\n    async with x as y, z: pass\n"
        "    async for i in q: await i\n    match a:\n        case {'k': v, **r} | C(1, n=[2, *s]) as t if t: yield\n"
        "        case None: pass\n    try: del a[1:2:3]\n    except (E, F) as h: raise G from h\n    else: pass\n"
        "    return lambda u, /: [w for w in (yield) if not w and -w < 1 <= 2] or f'{x!r:{y}}' if (k := 1) else ...\n"
    ),
    "this file": Path(__file__).read_text(),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_the_walk_is_that_of_ast(program: str) -> None:
    tree = ast.parse(program)
    assert walk(tree) == [node for node in ast.walk(tree) if not isinstance(node, SAME)]
    for node in walk(tree):
        assert list(children(node)) == [child for child in ast.iter_child_nodes(node) if not isinstance(child, SAME)]
