# ruff: noqa: E501
"""Programs that show values: what Python gives, the dry run has to give too, and it has to know it.

Each calls `show` with values and ends with what they are; `tests/interpret/test_semantics.py` runs them under Python
and dry-runs them.
"""

PROGRAMS = {
    "C3 mro diamond": """
class A:
    def who(self): return "A"
class B(A):
    def who(self): return "B" + super().who()
class C(A):
    def who(self): return "C" + super().who()
class D(B, C):
    def who(self): return "D" + super().who()
show(D().who())
show([c.__name__ for c in D.__mro__][:4])
show(isinstance(D(), C), issubclass(D, A), D.__name__, type(D()).__name__, D().__class__.__name__)
assert_shown([
    ('DBCA',),
    (['D', 'B', 'C', 'A'],),
    (True, True, 'D', 'D', 'D'),
])
""",
    "mixin cooperative init": """
class Log:
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.logged = [1]
class Base:
    def __init__(self, n):
        self.n = n
class M(Log, Base):
    def __init__(self, n):
        super().__init__(n + 1)
m = M(3)
show(m.n, m.logged)
assert_shown([
    (4, [1]),
])
""",
    "class attributes and instance attributes": """
class A:
    count = 0
    items = []
    def __init__(self):
        A.count += 1
        self.items.append(self.count)
a, b = A(), A()
show(A.count, a.count, A.items, a.items is b.items)
b.count = 10
show(A.count, b.count, "count" in b.__dict__, "count" in a.__dict__)
assert_shown([
    (2, 2, [1, 2], True),
    (2, 10, True, False),
])
""",
    "properties and setters": """
class A:
    def __init__(self): self._x = 1
    @property
    def x(self): return self._x
    @x.setter
    def x(self, v): self._x = v * 2
    @x.deleter
    def x(self): self._x = -1
a = A()
a.x = 5
show(a.x, a._x)
a.x += 1
show(a.x)
del a.x
show(a.x)
show(A().x)
assert_shown([
    (10, 10),
    (22,),
    (-1,),
    (1,),
])
""",
    "property inherited override": """
class A:
    @property
    def y(self): return 1
class B(A):
    @property
    def y(self): return super().y + 10
show(B().y)
assert_shown([
    (11,),
])
""",
    "dataclass basics": """
from dataclasses import dataclass, field, replace, asdict, astuple, fields
@dataclass
class P:
    x: int
    y: int = 2
    z: list = field(default_factory=list)
    def total(self): return self.x + self.y
p = P(1)
q = P(x=1)
show(p.x, p.y, p.z, p.total(), p == q, p != q, p is q)
p.z.append(3)
show(q.z, p == q)
r = replace(p, x=5)
show(r.x, r.y, r.z)
show(asdict(p), astuple(p))
show([f.name for f in fields(P)])
assert_shown([
    (1, 2, [3], 3, True, False, False),
    ([], False),
    (5, 2, [3]),
    ({'x': 1, 'y': 2, 'z': [3]}, (1, 2, [3])),
    (['x', 'y', 'z'],),
])
""",
    "dataclass post init": """
from dataclasses import dataclass, field
@dataclass
class P:
    x: int
    y: int = field(init=False)
    z: int = field(default=7)
    def __post_init__(self):
        self.y = self.x * 2
p = P(4)
show(p.y, p.z)
p2 = P(4, 9)
show(p2.y, p2.z)
assert_shown([
    (8, 7),
    (8, 9),
])
""",
    "dataclass frozen": """
from dataclasses import dataclass, FrozenInstanceError
@dataclass(frozen=True)
class P:
    x: int = 1
p = P()
try:
    p.x = 5
except FrozenInstanceError:
    show("frozen")
show(p.x, len({P(), P(), P(2)}), {P(): 1}[P()])
assert_shown([
    ('frozen',),
    (1, 2, 1),
])
""",
    "dataclass inheritance order": """
from dataclasses import dataclass
@dataclass
class A:
    a: int
    b: int = 2
@dataclass
class B(A):
    c: int = 3
    b: int = 20
x = B(1)
show(x.a, x.b, x.c)
y = B(1, 2, 3)
show(y.a, y.b, y.c)
assert_shown([
    (1, 20, 3),
    (1, 2, 3),
])
""",
    "dataclass order and kw_only": """
from dataclasses import dataclass
@dataclass(order=True)
class A:
    a: int
    b: int = 0
show(A(1) < A(2), A(1, 5) > A(1, 2), sorted([A(3), A(1)])[0].a, max([A(3), A(7)]).a)
assert_shown([
    (True, True, 1, 7),
])
""",
    "dataclass ClassVar": """
from dataclasses import dataclass
from typing import ClassVar
@dataclass
class A:
    n: ClassVar[int] = 5
    a: int = 1
show(A(3).a, A.n, A(3).n)
assert_shown([
    (3, 5, 5),
])
""",
    "NamedTuple class": """
from typing import NamedTuple
class S(NamedTuple):
    h: int
    c: int = 5
    def total(self): return self.h + self.c
s = S(1)
show(s.h, s.c, s[0], s[-1], s[1:], len(s), s.total(), list(s), s == (1, 5), s == S(1), s._replace(h=9), s._asdict(), S._fields, 5 in s)
h, c = s
show(h, c, s + (1,), isinstance(s, tuple), s._replace(h=9).h, max(s), sum(s), tuple(s))
for i, v in enumerate(s):
    show(i, v)
assert_shown([
    (1, 5, 1, 5, (5,), 2, 6, [1, 5], True, True, (9, 5), {'h': 1, 'c': 5}, ('h', 'c'), True),
    (1, 5, (1, 5, 1), True, 9, 5, 6, (1, 5)),
    (0, 1),
    (1, 5),
])
""",
    "namedtuple function": """
from collections import namedtuple
S = namedtuple("S", ["h", "c"], defaults=[3])
s = S(1)
show(s, s.h, s.c, s[0], S(c=1, h=2), S._make([7, 8]), s._replace(c=1), s.index(3), s.count(1))
T = namedtuple("T", "a, b")
show(T(1, 2), T(1, 2) == T(1, 2), T(1, 2) < T(1, 3))
d = {T(1, 2): 5}
show(d[(1, 2)])
assert_shown([
    ((1, 3), 1, 3, 1, (2, 1), (7, 8), (1, 1), 1, 1),
    ((1, 2), True, True),
    (5,),
])
""",
    "closures nonlocal counter": """
def make():
    n = 0
    def inc(k=1):
        nonlocal n
        n += k
        return n
    def get(): return n
    return inc, get
inc, get = make()
inc(); inc(5)
show(get())
i2, g2 = make()
i2()
show(g2(), get())
assert_shown([
    (6,),
    (1, 6),
])
""",
    "closure late binding": """
fs = [lambda: i for i in range(3)]
show([f() for f in fs])
gs = [lambda i=i: i for i in range(3)]
show([g() for g in gs])
hs = []
for k in range(3):
    def h(): return k
    hs.append(h)
show([h() for h in hs])
assert_shown([
    ([2, 2, 2],),
    ([0, 1, 2],),
    ([2, 2, 2],),
])
""",
    "global": """
n = 0
def f():
    global n, m
    n += 1
    m = 5
f(); f()
show(n, m)
assert_shown([
    (2, 5),
])
""",
    "nested scopes and shadowing": """
x = 1
def f():
    x = 2
    class A:
        x = 3
        def get(self): return x
        y = x
    return A().get(), A.y, A.x
show(f(), x)
assert_shown([
    ((2, 3, 3), 1),
])
""",
    "comprehension scopes": """
x = 5
ys = [x for x in range(3)]
show(x, ys, [a + b for a in range(2) for b in range(3) if a != b], {k: v for k, v in zip("ab", [1, 2])}, {i % 2 for i in range(5)})
show([[j for j in range(i)] for i in range(3)], sum(i for i in range(4)), [y := 1, y + 1], y)
total = 0
zs = [total := total + i for i in range(4)]
show(total, zs)
assert_shown([
    (5, [0, 1, 2], [1, 2, 1, 3], {'a': 1, 'b': 2}, {0, 1}),
    ([[], [0], [0, 1]], 6, [1, 2], 1),
    (6, [0, 1, 3, 6]),
])
""",
    "generator send": """
def acc():
    total = 0
    while True:
        x = yield total
        if x is None:
            return
        total += x
g = acc()
show(next(g), g.send(3), g.send(4))
try:
    g.send(None)
except StopIteration:
    show("done")
assert_shown([
    (0, 3, 7),
    ('done',),
])
""",
    "generator yield from value": """
def inner():
    x = yield 1
    yield 2
    return 10
def outer():
    r = yield from inner()
    yield r
    return r + 1
show(list(outer()))
def main():
    v = yield from outer()
    show(v)
list(main())
assert_shown([
    ([1, 2, 10],),
    (11,),
])
""",
    "generator throw and close and finally": """
log = []
def g():
    try:
        yield 1
        yield 2
    except ValueError:
        log.append("caught")
        yield 3
    finally:
        log.append("end")
x = g()
show(next(x), x.throw(ValueError("no")))
x.close()
show(log)
y = g()
next(y)
y.close()
show(log)
assert_shown([
    (1, 3),
    (['caught', 'end', 'end'],),
    (['caught', 'end', 'end'],),
])
""",
    "generator expression lazy": """
log = []
def f(i):
    log.append(i)
    return i
g = (f(i) for i in range(5))
show(log)
show(next(g), log)
show(any(v == 2 for v in g), log)
show(next(g, None), next(g, "end"), next(g, "end"))
assert_shown([
    ([0, 1, 2, 3, 4],),
    (0, [0, 1, 2, 3, 4]),
    (True, [0, 1, 2, 3, 4]),
    (3, 4, 'end'),
])
""",
    "generator return early": """
def g(n):
    for i in range(10):
        if i == n: return
        yield i
show(list(g(3)), sum(g(4)), max(g(3)), tuple(g(2)), dict(enumerate(g(2))))
a, b, *c = g(5)
show(a, b, c)
assert_shown([
    ([0, 1, 2], 6, 2, (0, 1), {0: 0, 1: 1}),
    (0, 1, [2, 3, 4]),
])
""",
    "yield in expressions": """
def g():
    a = (yield 1) or 5
    b = [(yield 2), (yield 3)]
    show(a, b)
    if (yield 4):
        yield 5
    f((yield 6))
def f(x): show(x)
it = g()
show([next(it), it.send(None), it.send(7), it.send(8), it.send(True), it.send(1)])
try:
    it.send("sent")
except StopIteration:
    pass
assert_shown([
    (5, [7, 8]),
    ([1, 2, 3, 4, 5, 6],),
    ('sent',),
])
""",
    "decorators own with arguments": """
import functools
def times(n):
    def deco(f):
        @functools.wraps(f)
        def inner(*a, **k):
            return [f(*a, **k) for _ in range(n)]
        inner.count = n
        return inner
    return deco
@times(3)
def f(x): return x + 1
show(f(1), f.count, f.__name__)
assert_shown([
    ([2, 2, 2], 3, 'f'),
])
""",
    "decorator class": """
class Counted:
    def __init__(self, f):
        self.f = f
        self.n = 0
    def __call__(self, *a):
        self.n += 1
        return self.f(*a)
@Counted
def f(x): return x * 2
show(f(2), f(3), f.n)
assert_shown([
    (4, 6, 2),
])
""",
    "class decorator and registry": """
REG = {}
def register(name):
    def deco(cls):
        REG[name] = cls
        return cls
    return deco
@register("a")
class A:
    def go(self): return "a"
@register("b")
class B(A):
    def go(self): return "b" + super().go()
show(sorted(REG), REG["b"]().go(), "c" in REG, REG.get("c"))
assert_shown([
    (['a', 'b'], 'ba', False, None),
])
""",
    "stacked decorators order": """
log = []
def d(n):
    def deco(f):
        log.append(n)
        def inner(x): return (n, f(x))
        return inner
    return deco
@d(1)
@d(2)
def f(x): return x
show(f(0), log)
assert_shown([
    ((1, (2, 0)), [2, 1]),
])
""",
    "lru_cache and cached_property": """
import functools
calls = []
@functools.lru_cache(maxsize=None)
def f(x):
    calls.append(x)
    return x * 2
show(f(1), f(1), f(2), calls)
@functools.lru_cache
def g(x):
    calls.append(x)
    return x
g(7); g(7)
show(calls)
class A:
    n = 0
    @functools.cached_property
    def p(self):
        A.n += 1
        return A.n
a = A()
show(a.p, a.p, A.n, A().p)
assert_shown([
    (2, 2, 4, [1, 2, 7]),
    ([1, 2, 7],),
    (1, 1, 1, 2),
])
""",
    "contextmanager": """
from contextlib import contextmanager
log = []
@contextmanager
def cm(x):
    log.append("in")
    try:
        yield x + 1
    finally:
        log.append("out")
with cm(1) as v:
    show(v, log)
show(log)
try:
    with cm(5):
        raise ValueError("x")
except ValueError:
    show(log)
@cm(3)
def deco(): return "called"
show(deco(), log)
assert_shown([
    (2, ['in', 'out', 'in', 'out', 'in', 'out']),
    (['in', 'out', 'in', 'out', 'in', 'out'],),
    (['in', 'out', 'in', 'out', 'in', 'out'],),
    ('called', ['in', 'out', 'in', 'out', 'in', 'out']),
])
""",
    "contextmanager that swallows": """
from contextlib import contextmanager
@contextmanager
def swallow():
    try:
        yield
    except ValueError:
        show("swallowed")
with swallow():
    raise ValueError("x")
show("after")
assert_shown([
    ('swallowed',),
    ('after',),
])
""",
    "context class exit arguments and suppression": """
class C:
    def __init__(self, s): self.s = s
    def __enter__(self): return self
    def __exit__(self, t, v, tb):
        show(t is None, v is None, t is ValueError)
        return self.s
with C(True):
    raise ValueError("a")
with C(False) as c:
    show(c.s)
try:
    with C(False):
        raise ValueError("a")
except ValueError as e:
    show(str(e), e.args)
assert_shown([
    (False, False, True),
    (False,),
    (True, True, False),
    (False, False, True),
    ('a', ('a',)),
])
""",
    "suppress by class": """
from contextlib import suppress
with suppress(KeyError):
    {}["a"]
    show("no")
show("one")
with suppress(KeyError, IndexError):
    [][0]
try:
    with suppress(KeyError):
        raise ValueError("v")
except ValueError:
    show("two")
assert_shown([
    ('one',),
    ('two',),
])
""",
    "ExitStack and nullcontext": """
from contextlib import ExitStack, nullcontext
log = []
class C:
    def __init__(self, n): self.n = n
    def __enter__(self):
        log.append(self.n)
        return self.n
    def __exit__(self, *a):
        log.append(-self.n)
with ExitStack() as stack:
    show(stack.enter_context(C(1)), stack.enter_context(C(2)))
    stack.callback(log.append, 9)
show(log)
with nullcontext(5) as x, nullcontext() as y:
    show(x, y)
assert_shown([
    (1, 2),
    ([1, 2, 9, -2, -1],),
    (5, None),
])
""",
    "try finally return": """
def f():
    try:
        return "try"
    finally:
        return "finally"
def g():
    for i in range(3):
        try:
            continue
        finally:
            if i == 1: break
    return i
def h():
    while True:
        try:
            return 1
        finally:
            break
    return 2
def k():
    try:
        raise ValueError
    finally:
        return "swallowed"
show(f(), g(), h(), k())
assert_shown([
    ('finally', 1, 2, 'swallowed'),
])
""",
    "try else finally order": """
log = []
def f(x):
    try:
        log.append("try")
        if x: raise KeyError("k")
    except KeyError as e:
        log.append("except")
        return "e"
    else:
        log.append("else")
    finally:
        log.append("finally")
    return "end"
show(f(0), f(1), log)
assert_shown([
    ('end', 'e', ['try', 'else', 'finally', 'try', 'except', 'finally']),
])
""",
    "nested exceptions and re-raise": """
class MyError(RuntimeError):
    def __init__(self, n):
        super().__init__(f"n={n}")
        self.n = n
def f():
    try:
        raise MyError(3)
    except ValueError:
        show("no")
    except (KeyError, RuntimeError) as e:
        show(e.n, str(e), isinstance(e, MyError), type(e).__name__)
        raise
try:
    f()
except Exception as err:
    show(err.n)
try:
    try:
        raise KeyError("a")
    except KeyError as e:
        raise ValueError("b") from e
except ValueError as e:
    show(str(e))
assert_shown([
    (3, 'n=3', True, 'MyError'),
    (3,),
    ('b',),
])
""",
    "python errors": """
def t(f):
    try:
        return f()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ZeroDivisionError) as e:
        return type(e).__name__
show(t(lambda: 1 / 0), t(lambda: {}["a"]), t(lambda: [1][3]), t(lambda: int("x")), t(lambda: (1, 2)[5]))
show(t(lambda: None.x), t(lambda: 1 + "a"), t(lambda: [].pop()), t(lambda: {}.pop("a")), t(lambda: [1].index(2)), t(lambda: [1].remove(2)))
assert_shown([
    ('ZeroDivisionError', 'KeyError', 'IndexError', 'ValueError', 'IndexError'),
    ('AttributeError', 'TypeError', 'IndexError', 'KeyError', 'ValueError', 'ValueError'),
])
""",
    "while else break": """
n = 0
while n < 3:
    n += 1
    if n == 5: break
else:
    show("else", n)
while True:
    n -= 1
    if n == 0: break
else:
    show("never")
for i in range(3):
    if i == 1: break
else:
    show("never2")
for i in []:
    pass
else:
    show("empty else")
show(n, i)
assert_shown([
    ('else', 3),
    ('empty else',),
    (0, 1),
])
""",
    "loop variables and modification": """
xs = [1, 2, 3]
for x in xs:
    if len(xs) < 5: xs.append(x * 10)
show(xs, x)
for i in range(2):
    for j in range(3):
        if j == 1: break
    show(i, j)
d = {"a": 1}
for k in list(d):
    d[k + "x"] = 2
show(d)
assert_shown([
    ([1, 2, 3, 10, 20], 20),
    (0, 1),
    (1, 1),
    ({'a': 1, 'ax': 2},),
])
""",
    "match statement": """
from dataclasses import dataclass
@dataclass
class P:
    x: int
    y: int
def f(v):
    match v:
        case 0: return "zero"
        case 1 | 2: return "few"
        case int() if v > 100: return "big"
        case int(n): return ("int", n)
        case str(): return "str"
        case []: return "empty"
        case [a]: return ("one", a)
        case [a, *rest]: return ("many", a, rest)
        case {"k": k, **more}: return ("dict", k, more)
        case P(x=0, y=b): return ("P0", b)
        case P(a, b): return ("P", a, b)
        case None: return "none"
        case _: return "other"
show(f(0), f(2), f(500), f(7), f("a"), f([]), f([1]), f([1, 2, 3]), f((4, 5)), f({"k": 1, "z": 2}), f(P(0, 5)), f(P(1, 2)), f(None), f(1.5))
assert_shown([
    ('zero', 'few', 'big', ('int', 7), 'str', 'empty', ('one', 1), ('many', 1, [2, 3]), ('many', 4, [5]), ('dict', 1, {'z': 2}), ('P0', 5), ('P', 1, 2), 'none', 'other'),
])
""",
    "star arguments": """
def f(a, b=2, *args, c, d=4, **kw): return (a, b, args, c, d, kw)
show(f(1, c=3), f(1, 9, 8, 7, c=3, e=5), f(*[1, 2], **{"c": 1}), f(*(1,), *[2, 3], c=0, **{"d": 9}, **{"z": 1}))
def g(a, /, b, *, c=1): return (a, b, c)
show(g(1, 2), g(1, b=3, c=4))
def h(*, x=1): return x
show(h(), h(x=2))
a, (b, *c), d = 1, (2, 3, 4), 5
show(a, b, c, d)
*x, y = range(4)
show(x, y, [*x, *"ab"], {**{"a": 1}, "b": 2}, (*x,))
def k(**kw): return list(kw)
show(k(a=1, b=2))
assert_shown([
    ((1, 2, (), 3, 4, {}), (1, 9, (8, 7), 3, 4, {'e': 5}), (1, 2, (), 1, 4, {}), (1, 2, (3,), 0, 9, {'z': 1})),
    ((1, 2, 1), (1, 3, 4)),
    (1, 2),
    (1, 2, [3, 4], 5),
    ([0, 1, 2], 3, [0, 1, 2, 'a', 'b'], {'a': 1, 'b': 2}, (0, 1, 2)),
    (['a', 'b'],),
])
""",
    "argument errors": """
def f(a, b): return a
for call in (lambda: f(1), lambda: f(1, 2, 3), lambda: f(1, 2, c=3), lambda: f(1, a=2)):
    try:
        call()
        show("no")
    except TypeError:
        show("type error")
assert_shown([
    ('type error',),
    ('type error',),
    ('type error',),
    ('type error',),
])
""",
    "mutable defaults": """
def f(x, acc=[], d={}):
    acc.append(x)
    d[x] = len(acc)
    return acc, d
f(1); f(2)
show(f(3))
def g(n=5): return n
show(g(), g(1))
assert_shown([
    (([1, 2, 3], {1: 1, 2: 2, 3: 3}),),
    (5, 1),
])
""",
    "functools partial reduce": """
import functools, operator
p = functools.partial(lambda a, b, c=0: (a, b, c), 1, c=5)
show(p(2), p(2, c=7), p.args, p.keywords, p.func(1, 2))
show(functools.reduce(lambda a, b: a * b, [1, 2, 3, 4]), functools.reduce(operator.add, [[1], [2]], []), functools.reduce(operator.mul, range(1, 5)))
class A:
    def m(self, x, y=0): return x + y
    n = functools.partialmethod(m, y=10)
show(A().n(1))
@functools.singledispatch
def s(x): return "other"
@s.register
def _(x: int): return "int"
@s.register(str)
def _(x): return "str"
show(s(1), s("a"), s(1.0))
assert_shown([
    ((1, 2, 5), (1, 2, 7), (1,), {'c': 5}, (1, 2, 0)),
    (24, [1, 2], 24),
    (11,),
    ('int', 'str', 'other'),
])
""",
    "operator module": """
import operator
show(operator.itemgetter(1)([5, 6]), operator.itemgetter(0, 1)([5, 6]), operator.attrgetter("real")(3), operator.sub(5, 2), operator.truediv(1, 2), operator.lt(1, 2), operator.neg(3))
show(sorted([(2, "a"), (1, "b")], key=operator.itemgetter(0)), operator.methodcaller("upper")("ab"))
assert_shown([
    (6, (5, 6), 3, 3, 0.5, True, -3),
    ([(1, 'b'), (2, 'a')], 'AB'),
])
""",
    "itertools": """
import itertools
show(list(itertools.islice(itertools.count(5), 3)), list(itertools.islice(range(10), 2, 8, 2)), list(itertools.islice("abcdef", 2)))
show(list(itertools.chain([1], (2,), "a")), list(itertools.chain.from_iterable([[1], [2, 3]])))
show(list(itertools.product([1, 2], "ab")), list(itertools.product([0, 1], repeat=2)), list(itertools.repeat(7, 3)))
show(list(itertools.accumulate([1, 2, 3])), list(itertools.accumulate([1, 2, 3], lambda a, b: a * b)), list(itertools.combinations([1, 2, 3], 2)), list(itertools.permutations([1, 2, 3], 2)))
show(list(itertools.zip_longest([1, 2], [3], fillvalue=0)), list(itertools.takewhile(lambda x: x < 3, [1, 2, 3, 1])), list(itertools.dropwhile(lambda x: x < 3, [1, 2, 3, 1])), list(itertools.starmap(pow, [(2, 3), (3, 2)])))
show([(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 3, 3])], list(itertools.pairwise([1, 2, 3])), list(itertools.compress([1, 2, 3], [1, 0, 1])), list(itertools.filterfalse(lambda x: x % 2, [1, 2, 3])))
a, b = itertools.tee([1, 2, 3])
show(list(a), list(b))
c = itertools.cycle([1, 2])
show([next(c) for _ in range(5)])
k = itertools.count()
show(next(k), next(k), list(zip(k, "ab")))
assert_shown([
    ([5, 6, 7], [2, 4, 6], ['a', 'b']),
    ([1, 2, 'a'], [1, 2, 3]),
    ([(1, 'a'), (1, 'b'), (2, 'a'), (2, 'b')], [(0, 0), (0, 1), (1, 0), (1, 1)], [7, 7, 7]),
    ([1, 3, 6], [1, 2, 6], [(1, 2), (1, 3), (2, 3)], [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)]),
    ([(1, 3), (2, 0)], [1, 2], [3, 1], [8, 9]),
    ([(1, [1, 1]), (2, [2]), (3, [3, 3])], [(1, 2), (2, 3)], [1, 3], [2]),
    ([1, 2, 3], [1, 2, 3]),
    ([1, 2, 1, 2, 1],),
    (0, 1, [(2, 'a'), (3, 'b')]),
])
""",
    "zip enumerate map filter": """
show(list(zip([1, 2, 3], "ab")), list(enumerate("ab", 1)), list(enumerate(["x"], start=5)), list(map(lambda a, b: a + b, [1, 2], [3, 4, 5])), list(filter(None, [0, 1, "", "a"])), list(filter(lambda x: x > 1, [1, 2, 3])))
try:
    list(zip([1], [1, 2], strict=True))
except ValueError:
    show("strict")
show(list(zip([1, 2], [3, 4], strict=True)), dict(zip("ab", [1, 2])), list(zip(*[(1, 2), (3, 4)])))
a, b = zip(*[(1, 2), (3, 4)])
show(a, b)
show(list(reversed([1, 2])), list(reversed(range(3))), list(reversed("ab")), list(map(str, [1, 2])), list(map(int, ["1"])))
it = map(lambda x: x * 2, [1, 2, 3])
show(next(it), list(it), list(it))
assert_shown([
    ([(1, 'a'), (2, 'b')], [(1, 'a'), (2, 'b')], [(5, 'x')], [4, 6], [1, 'a'], [2, 3]),
    ('strict',),
    ([(1, 3), (2, 4)], {'a': 1, 'b': 2}, [(1, 3), (2, 4)]),
    ((1, 3), (2, 4)),
    ([2, 1], [2, 1, 0], ['b', 'a'], ['1', '2'], [1]),
    (2, [4, 6], []),
])
""",
    "sorted max min key": """
show(sorted([3, 1, 2]), sorted([3, 1, 2], reverse=True), sorted(["bb", "a"], key=len), sorted({"b": 1, "a": 2}), sorted({"b": 1, "a": 2}.items(), key=lambda kv: kv[1], reverse=True))
show(max([1, 5, 3]), min(4, 2), max("ab"), max([(1, "a"), (2, "b")]), max([1, -5], key=abs), min([], default=7), max({"a": 1, "b": 3}, key={"a": 1, "b": 3}.get), max(["aa", "b"], key=len))
xs = [3, 1, 2]
xs.sort(key=lambda v: -v)
show(xs)
xs.sort(reverse=True)
show(xs, sum([1, 2], 10), sum([[1], [2]], []), sum([1.5, 2]), any([0, 1]), all([]), all([1, 0]), abs(-3), round(2.567, 2), divmod(7, 2), pow(2, 10), pow(2, 10, 7))
assert_shown([
    ([1, 2, 3], [3, 2, 1], ['a', 'bb'], ['a', 'b'], [('a', 2), ('b', 1)]),
    (5, 2, 'b', (2, 'b'), -5, 7, 'b', 'aa'),
    ([3, 2, 1],),
    ([3, 2, 1], 13, [1, 2], 3.5, True, True, False, 3, 2.57, (3, 1), 1024, 2),
])
""",
    "list methods": """
xs = [3, 1, 2]
xs.insert(1, 9)
show(xs, xs.index(9), xs.count(1), xs.pop(0), xs.pop(), xs)
xs.extend(i for i in range(2))
xs.remove(9)
xs.reverse()
show(xs, xs.copy() == xs, [1, 2] == [1, 2], [1, 2] < [1, 3], [1] + [2], [0] * 3, 1 in xs, 99 not in xs, not xs, bool([]), len(xs))
xs.clear()
show(xs)
show([1, [2, 3]] == [1, [2, 3]], (1, 2) == (1, 2), (1,) < (2,), [] == [], [1] != [2], [1, 2] is [1, 2])
assert_shown([
    ([], 1, 1, 3, 2, []),
    ([], True, True, True, [1, 2], [0, 0, 0], True, True, False, False, 3),
    ([],),
    (True, True, True, True, True, False),
])
""",
    "dict methods": """
d = {"a": 1, "b": 2}
d["c"] = 3
show(d, d.get("z"), d.get("z", 0), d.pop("a"), d.pop("zz", None), d.setdefault("q", []), "a" in d, len(d), list(d), list(d.items()), list(d.keys()), list(d.values()))
d.update(x=1, b=5)
d.update({"y": 2})
d.update([("k", "v")])
show(d, d == {"b": 5, "c": 3, "q": [], "x": 1, "y": 2, "k": "v"}, d.popitem(), d | {"n": 1}, dict.fromkeys("ab", 0), dict(a=1, **{"b": 2}), dict([("a", 1)]))
d |= {"z": 26}
del d["z"]
show("z" in d, {k: v for k, v in d.items() if k != "q"}, max(d.values(), key=lambda v: v if isinstance(v, int) else 0), {1: "a", 1.0: "b", True: "c"})
for i, (k, v) in enumerate(d.items()):
    show(i, k)
e = d.copy()
e["new"] = 1
show("new" in d, d is e, bool({}), {"a": {"b": 1}}["a"]["b"], list(reversed(d))[0])
show({(1, 2): "t"}[(1, 2)], {None: 1}[None], dict(zip([1, 2], [3, 4])), {**d, "b": 0}["b"])
assert_shown([
    ({'b': 5, 'c': 3, 'q': [], 'x': 1, 'y': 2}, None, 0, 1, None, [], False, 3, ['b', 'c', 'q'], [('b', 2), ('c', 3), ('q', [])], ['b', 'c', 'q'], [2, 3, []]),
    ({'b': 5, 'c': 3, 'q': [], 'x': 1, 'y': 2}, True, ('k', 'v'), {'b': 5, 'c': 3, 'q': [], 'x': 1, 'y': 2, 'n': 1}, {'a': 0, 'b': 0}, {'a': 1, 'b': 2}, {'a': 1}),
    (False, {'b': 5, 'c': 3, 'x': 1, 'y': 2}, 5, {1: 'c'}),
    (0, 'b'),
    (1, 'c'),
    (2, 'q'),
    (3, 'x'),
    (4, 'y'),
    (False, False, False, 1, 'y'),
    ('t', 1, {1: 3, 2: 4}, 0),
])
""",
    "dict views": """
d = {"a": 1, "b": 2}
ks = d.keys()
vs = d.values()
d["c"] = 3
show(list(ks), list(vs), len(ks), "c" in ks, ks & {"a"}, ks - {"a"}, set(d) | {"z"}, next(iter(d)), next(iter(d.values())), list(d.items())[0], ks == {"a", "b", "c"}, sum(vs))
assert_shown([
    (['a', 'b', 'c'], [1, 2, 3], 3, True, {'a'}, {'b', 'c'}, {'a', 'b', 'c', 'z'}, 'a', 1, ('a', 1), True, 6),
])
""",
    "sets": """
a, b = {1, 2, 3}, {2, 3, 4}
show(a & b, a | b, a - b, a ^ b, a <= b, {2} < a, a.union(b), a.intersection(b), a.difference(b), a.issubset(b), {1}.issuperset({1}), a.isdisjoint({9}), a == {3, 2, 1})
a.add(9); a.discard(1); a.discard(77)
show(a, len(a), 9 in a, set(), set("aab"), frozenset([1, 2]), set([1]) == {1})
a |= {100}
a -= {9}
a &= {2, 3, 100}
show(a)
a.update([5], [6])
a.remove(5)
a.difference_update({6})
a.intersection_update({2, 3})
a.symmetric_difference_update({3})
show(a, a.pop(), a, bool(a), sorted({3, 1}), {x for x in "aab"}, set([]) == set())
try:
    a.remove(1)
except KeyError:
    show("key")
assert_shown([
    ({2, 3}, {1, 2, 3, 4}, {1}, {1, 4}, False, True, {1, 2, 3, 4}, {2, 3}, {1}, False, True, True, True),
    (set(), 3, True, set(), {'a', 'b'}, {1, 2}, True),
    (set(),),
    (set(), 2, set(), False, [1, 3], {'a', 'b'}, True),
    ('key',),
])
""",
    "Counter": """
from collections import Counter
c = Counter("aabbb")
c["z"] += 1
show(c["a"], c["nope"], c.most_common(1), c.most_common(), sum(c.values()), dict(c), len(c), "a" in c, "nope" in c)
c.update(["a", "q"])
c.update({"q": 5})
c.subtract("a")
show(c["a"], c["q"], Counter(a=1) + Counter(a=2), Counter([1, 1]) - Counter([1]), c.total(), list(Counter("ab").elements()), Counter("ab") == Counter("ba"))
assert_shown([
    (2, 0, [('b', 3)], [('b', 3), ('a', 2), ('z', 1)], 6, {'a': 2, 'b': 3, 'z': 1}, 3, True, False),
    (2, 6, {'a': 3}, {1: 1}, 12, ['a', 'b'], True),
])
""",
    "defaultdict": """
from collections import defaultdict
d = defaultdict(list)
d["a"].append(1)
d["a"].append(2)
show(d["a"], "b" in d, d["b"], "b" in d, d.get("c"), dict(d), len(d))
e = defaultdict(int)
for ch in "aab": e[ch] += 1
show(dict(e), sorted(e.items()), max(e, key=e.get))
f = defaultdict(lambda: defaultdict(float))
f["x"]["y"] += 2.5
show(f["x"]["y"], f["x"]["z"])
g = defaultdict(list, {"q": [1]})
show(g["q"], g["n"])
assert_shown([
    ([1, 2], False, [], True, None, {'a': [1, 2], 'b': []}, 2),
    ({'a': 2, 'b': 1}, [('a', 2), ('b', 1)], 'a'),
    (2.5, 0.0),
    ([1], []),
])
""",
    "deque": """
from collections import deque
q = deque([1, 2, 3], maxlen=3)
q.append(4)
show(list(q), len(q), q[0], q[-1], q.maxlen)
q.appendleft(0)
show(list(q), q.pop(), q.popleft(), list(q))
q.extend([7, 8, 9])
q.extendleft([5])
q.rotate(1)
show(list(q), 7 in q, q.count(7), q == deque([8, 5, 7]), sum(q), max(q))
r = deque()
r.append(1)
show(bool(r), r.maxlen, list(reversed(deque([1, 2]))))
q.clear()
show(list(q))
assert_shown([
    ([2, 3, 4], 3, 2, 4, 3),
    ([0, 2, 3], 3, 0, [2]),
    ([8, 5, 7], True, 1, True, 20, 8),
    (True, None, [2, 1]),
    ([],),
])
""",
    "OrderedDict and ChainMap": """
from collections import OrderedDict, ChainMap
d = OrderedDict()
d["a"] = 1
d["b"] = 2
d.move_to_end("a")
show(list(d), d.popitem(last=False), d)
assert_shown([
    (['b', 'a'], ('b', 2), {'a': 1}),
])
""",
    "f-strings": """
x, n, s = 3.14159, 42, "hi"
show(f"{x:.2f}", f"{n:05d}", f"{s!r}", f"{s:>5}|", f"{n:,}", f"{x:e}", f"{n=}", f"{x:{n}.1f}"[-4:], f"{'a' if n else 'b'}", f"{n}{s}", f"{[1, 2]}", f"{(1,)}", f"{None}", f"{True}", f"{1e-3:g}", f"{0.5:%}")
show("%.2f %d %s" % (x, n, s), "%s" % s, "%(a)s" % {"a": 1}, "{} {}".format(1, "a"), "{0:.1f} {k}".format(x, k=2), "{:>4}".format("a"), "%5.1f%%" % 3.0, "{a[0]}".format(a=[7]))
show(str(1.0), str([1, 2]), str((1,)), str({"a": 1}), repr("a"), str(None), str(True), format(x, ".3f"), str({1}), chr(97), ord("a"), hex(255), bin(5), ascii("a"))
assert_shown([
    ('3.14', '00042', "'hi'", '   hi|', '42', '3.141590e+00', 'n=42', ' 3.1', 'a', '42hi', '[1, 2]', '(1,)', 'None', 'True', '0.001', '50.000000%'),
    ('3.14 42 hi', 'hi', '1', '1 a', '3.1 2', '   a', '  3.0%', '7'),
    ('1.0', '[1, 2]', '(1,)', "{'a': 1}", "'a'", 'None', 'True', '3.142', '{1}', 'a', 97, '0xff', '0b101', "'a'"),
])
""",
    "string methods": """
s = "Hello, World"
show(s.lower(), s.upper(), s.split(", "), s.replace("l", "L"), s.startswith("He"), s.endswith(("ld", "x")), s.find("W"), s.index("W"), s.count("o"), s.partition(", "), s[0], s[-5:], "a,b".split(","), " a ".strip(), "x".join(["a", "b"]), s.isdigit(), "7".zfill(3), s.title(), "ab" in s, "abc" < "abd", "a" * 3, "a b".split(), len(s), s.encode(), b"ab".decode(), "a".center(3), s.swapcase(), "A1".isalnum(), "-".join(str(i) for i in range(3)), s.rsplit(" ", 1), "x.pt".rsplit(".", 1)[0], "a".ljust(2) + "|", s.casefold(), "a\\tb".expandtabs(2), s.strip("Hd"), "abc".isalpha(), "k=v".split("=", maxsplit=1), sorted("bca"), list("ab"), "".join(reversed("ab")))
assert_shown([
    ('hello, world', 'HELLO, WORLD', ['Hello', 'World'], 'HeLLo, WorLd', True, True, 7, 7, 2, ('Hello', ', ', 'World'), 'H', 'World', ['a', 'b'], 'a', 'axb', False, '007', 'Hello, World', False, True, 'aaa', ['a', 'b'], 12, b'Hello, World', 'ab', ' a ', 'hELLO, wORLD', True, '0-1-2', ['Hello,', 'World'], 'x', 'a |', 'hello, world', 'a b', 'ello, Worl', True, ['k', 'v'], ['a', 'b', 'c'], ['a', 'b'], 'ba'),
])
""",
    "math": """
import math
show(math.sqrt(16), math.floor(2.7), math.ceil(2.1), math.pi > 3, math.log(1), math.exp(0), math.gcd(4, 6), math.prod([1, 2, 3]), math.isclose(1.0, 1.0), math.inf > 1, math.isnan(float("nan")), math.hypot(3, 4), math.log2(8), math.cos(0), math.factorial(5), math.fsum([1, 2]), math.isinf(math.inf), math.trunc(2.5), math.dist([0], [1]))
assert_shown([
    (4.0, 2, 3, True, 0.0, 1.0, 2, 6, True, True, True, 5.0, 3.0, 1.0, 120, 3.0, True, 2, 1.0),
])
""",
    "boolean operators values": """
show(0 or "a", 1 and "b", None or [], "" and 5, not [] , [] or {} or 3, 1 if [] else 2, (0 or None) is None, 5 or 1 / 0)
assert_shown([
    ('a', 'b', [], '', True, 3, 2, True, 5),
])
""",
    "del and names": """
x = 1
del x
try:
    x
except NameError:
    show("gone")
def f():
    y = 1
    del y
    try:
        return y
    except UnboundLocalError:
        return "unbound"
show(f())
class A: pass
a = A()
a.q = 1
del a.q
show(hasattr(a, "q"))
d = {"k": 1}
del d["k"]
show(d)
try:
    undefined_name
except NameError:
    show("name error")
assert_shown([
    ('gone',),
    ('unbound',),
    (False,),
    ({},),
    ('name error',),
])
""",
    "getattr setattr hasattr": """
class A:
    z = 1
    def __init__(self): self.a = 1
    def m(self): return self.a
x = A()
show(getattr(x, "a"), getattr(x, "nope", 5), hasattr(x, "a"), hasattr(x, "m"), hasattr(x, "no"), getattr(x, "m")(), hasattr(A, "z"), getattr(A, "q", None))
setattr(x, "b" + "c", 7)
show(x.bc, vars(x), x.__dict__, getattr(x, "z"))
delattr(x, "bc")
show(hasattr(x, "bc"))
x.__dict__["dyn"] = 3
x.__dict__.update(k1=1, k2=2)
show(x.dyn, x.k1 + x.k2)
try:
    x.missing
except AttributeError:
    show("attribute error")
try:
    getattr(x, "missing")
except AttributeError:
    show("attribute error 2")
for name in ("p", "q"):
    setattr(x, name, name * 2)
show(x.p, x.q, callable(x.m))
assert_shown([
    (1, 5, True, True, False, 1, True, None),
    (7, {'a': 1, 'dyn': 3, 'k1': 1, 'k2': 2, 'p': 'pp', 'q': 'qq'}, {'a': 1, 'dyn': 3, 'k1': 1, 'k2': 2, 'p': 'pp', 'q': 'qq'}, 1),
    (False,),
    (3, 3),
    ('attribute error',),
    ('attribute error 2',),
    ('pp', 'qq', True),
])
""",
    "__getattr__ and __setattr__ and __getattribute__": """
class A:
    def __init__(self):
        self.__dict__["data"] = {}
    def __getattr__(self, name):
        if name in self.data: return self.data[name]
        raise AttributeError(name)
    def __setattr__(self, name, value):
        self.data[name] = value
    def __delattr__(self, name):
        del self.data[name]
a = A()
a.x = 5
show(a.x, a.data, hasattr(a, "x"), hasattr(a, "y"), getattr(a, "y", 0))
del a.x
show(a.data)
class D(dict):
    def __getattr__(self, k): return self[k]
    def __setattr__(self, k, v): self[k] = v
d = D(a=1)
d.b = 2
show(d.a, d["b"], d, len(d), list(d), "a" in d, isinstance(d, dict))
assert_shown([
    (5, {}, True, False, 0),
    ({},),
    (1, 2, {'a': 1, 'b': 2}, 2, ['a', 'b'], True, True),
])
""",
    "__call__ __len__ __contains__ __bool__ __eq__ __hash__ __lt__": """
class A:
    def __init__(self, v): self.v = v
    def __call__(self, x): return self.v + x
    def __len__(self): return self.v
    def __contains__(self, x): return x == self.v
    def __eq__(self, o): return self.v == o.v
    def __hash__(self): return hash(self.v)
    def __lt__(self, o): return self.v < o.v
    def __repr__(self): return f"A({self.v})"
    def __getitem__(self, i): return self.v * i
    def __neg__(self): return A(-self.v)
    def __sub__(self, o): return A(self.v - (o.v if isinstance(o, A) else o))
    def __rsub__(self, o): return A(o - self.v)
    def __mul__(self, o): return NotImplemented
    def __rmul__(self, o): return A(self.v * o)
    def __iadd__(self, o):
        self.v += o
        return self
    def __abs__(self): return abs(self.v)
    def __int__(self): return self.v
    def __float__(self): return float(self.v)
    def __index__(self): return self.v
    def __setitem__(self, i, x): self.v = (i, x)
a = A(3)
show(a(1), len(a), 3 in a, 4 in a, a == A(3), a != A(4), a < A(5), A(5) > a, repr(a), str(a), f"{a}", a[2], (-a).v, (a - 1).v, (10 - a).v, (2 * a).v, abs(A(-2)), int(a), float(a), [10, 20, 30, 40][a], bool(A(0)), bool(A(1)), sorted([A(2), A(1)])[0].v, max([A(2), A(9)]).v, A(1) in [A(1)])
a += 5
show(a.v)
a[1] = 2
show(a.v)
assert_shown([
    (4, 3, True, False, True, True, True, True, 'A(3)', 'A(3)', 'A(3)', 6, -3, 2, 7, 6, 2, 3, 3.0, 40, False, True, 1, 9, True),
    (8,),
    ((1, 2),),
])
""",
    "__iter__ and __next__": """
class R:
    def __init__(self, n): self.n = n
    def __iter__(self):
        self.i = 0
        return self
    def __next__(self):
        if self.i >= self.n: raise StopIteration
        self.i += 1
        return self.i
show(list(R(3)), sum(R(4)), [x * 2 for x in R(2)], tuple(R(2)), max(R(3)), list(zip(R(2), "ab")), list(enumerate(R(2))), 2 in R(3))
for x in R(2): show(x)
a, b = R(2)
show(a, b)
it = iter(R(1))
show(next(it), next(it, "end"))
class G:
    def __len__(self): return 3
    def __getitem__(self, i):
        if i >= 3: raise IndexError
        return i * 10
show(list(G()), [x for x in G()], len(G()), list(reversed(G())), 20 in G())
assert_shown([
    ([1, 2, 3], 10, [2, 4], (1, 2), 3, [(1, 'a'), (2, 'b')], [(0, 1), (1, 2)], True),
    (1,),
    (2,),
    (1, 2),
    (1, 'end'),
    ([0, 10, 20], [0, 10, 20], 3, [20, 10, 0], True),
])
""",
    "class methods and static and alternative constructors": """
class A:
    n = 0
    def __init__(self, v): self.v = v
    @classmethod
    def make(cls, v): return cls(v * 2)
    @staticmethod
    def add(a, b): return a + b
    @classmethod
    def bump(cls):
        cls.n += 1
        return cls.n
class B(A):
    pass
show(A.make(2).v, B.make(3).v, type(B.make(1)).__name__, A.add(1, 2), A(1).add(3, 4), A.bump(), B.bump(), A.n, B.n, A.bump(), B.n)
assert_shown([
    (4, 6, 'B', 3, 7, 1, 2, 1, 2, 2, 2),
])
""",
    "__new__ and singletons": """
class S:
    _inst = None
    def __new__(cls, *a):
        if cls._inst is None:
            cls._inst = super().__new__(cls)
        return cls._inst
    def __init__(self, v): self.v = v
a, b = S(1), S(2)
show(a is b, a.v)
assert_shown([
    (True, 2),
])
""",
    "__init_subclass__ and __set_name__": """
class Base:
    subs = []
    def __init_subclass__(cls, **kw):
        super().__init_subclass__()
        Base.subs.append((cls.__name__, kw.get("tag")))
class X(Base, tag="t"): pass
class Y(Base): pass
show(Base.subs)
assert_shown([
    ([('X', 't'), ('Y', None)],),
])
""",
    "descriptors": """
class D:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, owner): return getattr(obj, self.name, 0) + 1
    def __set__(self, obj, v): setattr(obj, self.name, v * 2)
class A:
    x = D()
a = A()
show(a.x)
a.x = 5
show(a.x, a._x)
assert_shown([
    (1,),
    (11, 10),
])
""",
    "__slots__ and __del__ and __str__": """
class A:
    __slots__ = ("a", "b")
    def __init__(self): self.a = 1
    def __str__(self): return "str:" + str(self.a)
show(str(A()), A().a, f"{A()}")
assert_shown([
    ('str:1', 1, 'str:1'),
])
""",
    "chained calls and ternaries": """
class Q:
    def __init__(self): self.parts = []
    def add(self, x):
        self.parts.append(x)
        return self
show(Q().add(1).add(2).parts, (lambda x: x + 1)(2), [1, 2][0 if True else 1], (1 if 0 else 2) + 1, {"a": 1}.get("a") or 5)
assert_shown([
    ([1, 2], 3, 1, 3, 1),
])
""",
    "recursion": """
def fact(n): return 1 if n < 2 else n * fact(n - 1)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def depth(t): return 1 + max((depth(c) for c in t), default=0)
def flat(xs):
    for x in xs:
        if isinstance(x, list): yield from flat(x)
        else: yield x
show(fact(5), fib(7), depth([[], [[]]]), list(flat([1, [2, [3, [4]]]])))
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)
show(even(6))
assert_shown([
    (120, 13, 3, [1, 2, 3, 4]),
    (True,),
])
""",
    "walrus": """
if (n := 5) > 3: show(n)
while (n := n - 1) > 2: pass
show(n, [y for x in range(4) if (y := x * 2) > 2], (a := 1, b := 2), a + b)
assert_shown([
    (5,),
    (2, [4, 6], (1, 2), 3),
])
""",
    "async": """
import asyncio
async def f(x):
    await asyncio.sleep(0)
    return x + 1
async def agen():
    for i in range(3): yield i
class C:
    async def __aenter__(self): return 7
    async def __aexit__(self, *a): pass
async def main():
    show(await f(1), await asyncio.gather(f(1), f(2)))
    async for i in agen(): show(i)
    async with C() as c: show(c)
    show([i async for i in agen()])
    return 5
show(asyncio.run(main()))
assert_shown([
    (2, [2, 3]),
    (0,),
    (1,),
    (2,),
    (7,),
    ([0, 1, 2],),
    (5,),
])
""",
    "deep copy of an object made from dict": """
import copy
class Config(dict):
    pass
config = Config(lr=1)
twin = copy.deepcopy(config)
twin["lr"] = 2
twin.extra = [3]
show(config["lr"], twin["lr"], len(config), hasattr(config, "extra"))
assert_shown([
    (1, 2, 1, False),
])
""",
    "format with fields of any name": """
show("{name} {kind} {0}".format(1, name=3, kind=4))
assert_shown([
    ("3 4 1",),
])
""",
}
