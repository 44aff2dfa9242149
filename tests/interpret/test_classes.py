"""The order in which a class's bases are looked through is the one that Python works out."""

from __future__ import annotations

import ast
import random
from typing import Any

from tapecheck.interpret.values import Class, Env, Module

MODULE = Module("m", "m.py", Env(None, None))
NODE = ast.parse("class A: pass").body[0]


def test_hierarchies_by_chance_have_the_order_of_python() -> None:
    chance = random.Random(11)
    compared = refused = 0
    for _ in range(300):
        ours: list[Class] = []
        theirs: list[Any] = []
        for number in range(chance.randint(2, 9)):
            above = chance.sample(range(number), min(number, chance.randint(0, 4)))
            assert isinstance(NODE, ast.ClassDef)
            ours.append(Class(f"C{number}", [ours[one] for one in above], {}, MODULE, NODE))
            order = [cls.name for cls in ours[-1].mro()]
            assert sorted(order) == sorted(set(order)), "each base once, in an order that Python refuses, too"
            try:
                theirs.append(type(f"C{number}", tuple(theirs[one] for one in above), {}))
            except TypeError:
                theirs.append(None)
                refused += 1
                continue
            assert order == [cls.__name__ for cls in theirs[-1].__mro__[:-1]]
            compared += 1
    assert compared > 800
    assert refused > 50
