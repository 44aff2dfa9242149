"""Constants and shapes of programs that would take hours or terabytes to work out: each costs what any other does.

    python -m tests.soak.bombs [FIRST]

Each stands alone in a program with a finding behind it, checked under limits of memory and time.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import time
from types import FrameType

from tapecheck.check import check
from tapecheck.source import from_text

MEMORY, SECONDS = 2_000_000_000, 60
HEAD = """\
import torch, math, re, itertools, collections, functools, operator, numpy, datetime, decimal, fractions, fnmatch
import textwrap, json, string, copy
"""
TAIL = """
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
loss.backward()
"""
BIG = "'" + "a" * 1_000_000 + "'"
EXPRESSIONS = (
    "'%*d' % (10**9, 1)", "'%*d' % (10**11, 1)", "'%-*d' % (10**9, 1)", "'%.*f' % (10**9, 1.5)",
    "'%(a)*d' % {'a': 1}", "b'%*d' % (10**9, 1)", "'%s' % ('x' * 9999,)", "('%(a)s' * 1000) % {'a': 'x' * 9000}",
    "'{:>{w}}'.format(1, w=10**9)", "'{:>{}}'.format(1, 10**9)", "'{:{}}'.format(1, '1000000000')",
    "'{:{w}}'.format(1, w='999999999')", "'{0:{1[0]}}'.format(1, [10**9])", "'{:>{w[0]}}'.format(1, w=[10**9])",
    "('{0}' * 2000).format('x' * 5000)", "'\\t'.expandtabs(tabsize=10**9)", "('\\t' * 9000).expandtabs(9000)",
    "'\\t'.expandtabs(10**9)", "('a' * 5000).replace('a', 'b' * 4000)", "('a' * 9000).replace('', 'b' * 900)",
    "('x' * 5000).join(['y' * 5000] * 900)", "('x' * 5000).join('y' * 4000)", "'a'.ljust(width=10**9)",
    "'a'.center(10**9)", "'a'.zfill(10**9)", "f'{1:{10**9}}'", "f'{1:>1000000000}'", "f'{1:.{10**9}f}'",
    "format(1, '1000000000')", "format(1.5, '.1000000000f')", "[0] * 10**9", "(0,) * 10**9", "10**9 * [0]",
    "[[0] * 1000] * 10**7", "b'a' * 10**10", "bytearray(10**10)", "bytes(10**10)", "bytes(range(256)) * 10**8",
    "list(range(10**9))", "tuple(range(10**10))", "set(range(10**9))", "sum(range(10**9))", "max(range(10**9))",
    "min(range(10**12))", "sorted(range(10**9))", "dict.fromkeys(range(10**9))", "len(range(10**400))",
    "range(10**400)[5]", "list(range(10**400))", "[i for i in range(10**9)]", "{i: i for i in range(10**9)}",
    "sum(i for i in range(10**9))", "any(i < 0 for i in range(10**9))", "all(range(1, 10**9))",
    "list(reversed(range(10**9)))", "list(zip(range(10**9), range(10**9)))", "list(map(str, range(10**9)))",
    "list(enumerate(range(10**9)))", "list(filter(None, range(10**9)))", "10**9 - 1 in range(0, 10**12, 7)",
    "5.5 in range(10**9)", "range(10**9).index(10**8)", "range(10**9).count(5)", "10 ** 10 ** 9", "10 ** 10 ** 10",
    "(10 ** 999) ** 999", "((10 ** 999) ** 999) * ((10 ** 999) ** 999)", "str((10 ** 999) ** 999)",
    "2 ** 10**8 % 7", "pow(10, 10**9)", "pow(10, 10**9, 7)", "1 << 10**10", "(1 << 1000) ** 1000", "-1 << 10**9",
    "10.0 ** 10**9", "0 ** -1", "(-8) ** (1/3)", "2 ** -10**9", "(10**999) // 7 ** 999", "abs(10**9999)",
    "hash(10**999)", "bin(10**999)", "hex(1 << 10**7)", "int('9' * 5000)", "int('9' * 4000) ** 2",
    "int('f' * 9000, 16)", "float('9' * 9000)", "round(5, -10**9)", "round(5.5, 10**9)", "divmod(10**999, 3)",
    "complex('1' * 5000)", "math.factorial(10**6)", "math.comb(10**6, 5 * 10**5)", "math.perm(10**6)",
    "math.prod(range(1, 10**6))", "math.pow(10, 10**9)", "math.gcd(10**999, 10**998)",
    "math.lcm(*range(1, 10**4))", "math.ldexp(1, 10**9)", "math.exp(10**9)", "math.isqrt(10**999)", "BIG",
    "list(BIG)", "set(BIG)", "sorted(BIG)", "[c for c in BIG]", "BIG.split('a')",
    "BIG[::-1]", "BIG + 'a'", "BIG * 2", "a, *b = BIG", "BIG.upper()", "len(BIG)",
    "hash(BIG)", "f'{BIG!r}'", "'%s' % BIG", "tuple(BIG)",
    "dict(zip(BIG, BIG))", "max(BIG)", "BIG == BIG", "'b' in BIG",
    "re.match('(a*)*b', 'a' * 40)", "re.sub('a', 'b', BIG)", "re.findall('(a+)+$', 'a' * 35 + 'b')",
    "re.compile('a' * 9999)", "re.split('(a*)*b', 'a' * 40)", "fnmatch.fnmatch('a' * 60, '*a' * 30 + 'b')",
    "' '.join(str(i) for i in range(10**9))", "itertools.repeat(0, 10**9)", "list(itertools.repeat(0, 10**9))",
    "list(itertools.product(range(1000), repeat=10))", "list(itertools.permutations(range(100)))",
    "list(itertools.combinations(range(100), 50))", "list(itertools.chain(range(10**9), range(10**9)))",
    "list(itertools.islice(itertools.count(), 10**9))", "next(i for i in itertools.count() if i == 10**9)",
    "list(itertools.accumulate(range(10**9)))", "sum([[0] * 1000] * 1000, [])", "collections.Counter('a' * 9999)",
    "collections.deque(range(10**9))", "collections.Counter(range(10**9))", "'a' * 10**9 * 10**9",
    "x = 'a' * 9000\nfor i in range(60):\n    x = x + x", "x = 'ab'\nfor i in range(60):\n    x += x",
    "x = [0]\nfor i in range(60):\n    x = x + x", "x = [0]\nfor i in range(60):\n    x += x",
    "x = [0]\nfor i in range(60):\n    x.extend(x)",
    "x = [0]\nfor i in range(40):\n    x = [x, x]\nprint(x)\ny = str(x)",
    "x = ()\nfor i in range(60):\n    x = x + x + (0,)", "x = 2\nfor i in range(60):\n    x = x * x",
    "x = 2\nfor i in range(60):\n    x **= 2", "x = 1\nfor i in range(10**9):\n    x += 1",
    "x = 1\nwhile x < 10**9:\n    x += 1", "x = {0: 0}\nfor i in range(60):\n    x = {**x, i: x}\nstr(x)",
    "x = b'a'\nfor i in range(60):\n    x += x", "x = '{}'\nfor i in range(60):\n    x = x.format(x + x)",
    "x = '%s%s'\nfor i in range(60):\n    x = x % (x, x)",
    "x = (1,)\nfor i in range(60):\n    x = (x, x)\nhash(x)\nx == (x, 1)",
    "x = 0\nfor i in range(60):\n    x = f'{x}{x}'", "x = 'a'\nfor i in range(60):\n    x = x.replace('a', 'aa')",
    "x = 'a'\nfor i in range(60):\n    x = ','.join([x, x])", "lambda: 0\nx = 'x'.__mul__(10**9)",
    "operator.mul('a', 10**9)", "functools.reduce(operator.mul, range(1, 10**5))",
    "functools.reduce(lambda a, b: a + a, range(60), 'a')", "numpy.zeros((10**6, 10**6))",
    "torch.zeros(10**6, 10**6, 10**6)", "torch.zeros([10**5] * 10**5)", "torch.nn.Linear(10**9, 10**9)",
    "[torch.nn.Linear(1, 1) for _ in range(10**6)]",
    "torch.nn.Sequential(*[torch.nn.Linear(1, 1) for _ in range(10**5)])", "torch.ones(3).repeat(10**9)",
    "torch.stack([torch.ones(1)] * 10**9)", "torch.zeros(2).split(1)", "torch.ones(10**9).unbind()",
    "list(torch.ones(10**9))", "torch.ones(10**9).tolist()", "[0] * -5", "datetime.timedelta(10**9) * 10**9",
    "decimal.Decimal(10) ** 10**9", "fractions.Fraction(1, 3) ** 10**6", "'a'.encode('idna')",
    "('a.' * 4000).encode('idna')", "('é' * 4000).encode('punycode')", "b'a'.decode('zlib')",
    "textwrap.wrap('a' * 9999, 1)", "json.loads('[' * 9000)", "json.dumps([[0] * 1000] * 1000)",
    "string.ascii_letters * 10**9", "copy.deepcopy([0] * 10**9)", "enumerate([0] * 10**9)",
)  # fmt: skip
GROWING = (
    ("'ab'", "x = x + x"), ("'ab'", "x += x"), ("'ab'", "x *= 9"), ("'ab'", "x = f'{x}{x}'"),
    ("'ab'", "x = '%s%s' % (x, x)"), ("'ab'", "x = '{}{}'.format(x, x)"), ("'ab'", "x = x.replace('a', 'aa')"),
    ("'ab'", "x = ','.join([x, x])"), ("'ab'", "x = x.join(x)"), ("b'ab'", "x = x + x"), ("[0]", "x = x + x"),
    ("[0]", "x += x"), ("[0]", "x *= 9"), ("[0]", "x = x * 9"), ("[0]", "x.extend(x)"), ("[0]", "x = [*x, *x]"),
    ("[0]", "x = [x, x]"), ("[0]", "x = list(x) + list(x)"), ("[0]", "x[:0] = x"),
    ("[0]", "x = [i for i in x for _ in x]"), ("[0]", "x = [(i, j) for i in range(1000) for j in range(1000)]"),
    ("(0,)", "x = x + x"), ("(0,)", "x = (*x, *x)"), ("(0,)", "x = (x, x)"), ("(0,)", "x *= 9"),
    ("{0: 0}", "x = {0: x, 1: x}"), ("{0: 0}", "x = {k: x for k in range(1000)}"),
    ("{0}", "x = x | {frozenset(x)}"), ("2", "x = x * x"), ("2", "x **= 9"), ("2", "x = x << 999"),
    ("2", "x = pow(x, 9)"), ("10", "x = x ** x"), ("2.5", "x = x * x"), ("2", "x = int(str(x) * 9)"),
    ("2", "x = eval('x * x')"), ("-2", "x = -x ** 3"), ("2", "x = x * 10 ** 999"), ("1", "x = x + 10 ** 999 * x"),
    ("range(9)", "x = list(x) * 9"), ("iter([])", "x = itertools.chain(x, x)"), ("map(str, [])", "x = zip(x, x)"),
    ("torch.ones(1)", "x = torch.cat([x, x])"), ("torch.ones(1, requires_grad=True)", "x = x + x"),
    ("[torch.ones(1)]", "x = x + x"), ("[torch.ones(1)]", "x = x * 9"),
    ("lambda y: y", "x = functools.partial(x, x)"), ("lambda y: y", "x = lambda y, f=x: f(f(y))\nx(1)"),
    ("collections.deque([0])", "x.extend(list(x))"), ("'a,b'", "x = ','.join(x.split(',') * 9)"),
    ("'ab'", "x = x.center(9999)"), ("'ab'", "x = x.encode().decode() * 9"), ("'ab'", "x = repr(x) + repr(x)"),
    ("'ab'", "x = x[:] + x[::-1]"), ("['a']", "x = sorted(x + x)"), ("'a'", "x = str([x, x])"),
)  # fmt: skip
"""What a name is at first, and the line that is written fifty times."""
ENDLESS = (
    "def f(n):\n    return f(n - 1) + f(n - 1)\nx = f(50)", "def f():\n    return [f(), f()]\nx = f()",
    "f = lambda n: n and f(n - 1) * f(n - 1)\nx = f(60)",
    "class A:\n    def __getattr__(self, n):\n        return getattr(self, n + 'x')\nx = A().y",
    "class A:\n    def __add__(self, o):\n        return self + o\nx = A() + 1",
    "x = []\nx.append(x)\nprint(x, str(x), x == x, hash(tuple(x)))", "x = {}\nx[0] = x\ncopy.deepcopy(x) == x",
    "x = [i for i in iter(int, 1)]", "while True:\n    pass", "x = 1\nwhile x:\n    x += 1",
    "def g():\n    while True:\n        yield 1\nx = list(g())", "def g():\n    yield from g()\nx = list(g())",
    "x = max(i for i in itertools.count())", "x = sum(1 for _ in itertools.cycle('ab'))",
    "x = " + "[" * 8 + "k" + "".join(f" for {name} in range(99)]" for name in "abcdefgk"),
)  # fmt: skip


WIDE = "class C0:\n    pass\n" + "".join(
    f"class C{i}(C{i // 2}):\n    def m{i}(self, x):\n        return C{i - 1}().m{i - 1}(x) + C{i * 7 % 600}.m\n"
    for i in range(1, 600)
)
"""Many classes made from one another, whose methods name each other: what each can do is worked out once."""


class Late(BaseException):
    """The time is up."""


def programs() -> list[str]:
    """Return the lines that are put into programs."""
    alone = [text if "\n" in text or text.startswith(("a, *b", "x =")) else f"value = {text}" for text in EXPRESSIONS]
    alone = [f"BIG = {BIG}\n{text}" if "BIG" in text else text for text in alone]
    return [*alone, *(f"x = {first}\n" + f"{step}\n" * 50 for first, step in GROWING), *ENDLESS, WIDE]


def late(_signal: int, _frame: FrameType | None) -> None:
    """End what takes too long."""
    raise Late


def main() -> int:
    """Check every program and print those that cost too much; the exit status says whether there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("first", nargs="?", type=int, default=0, help="the number of the program to begin with")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGVTALRM, late)
    failed = 0
    slowest, most, found = 0.0, 0, 0
    texts = programs()[options.first :]
    for number, text in enumerate(texts, options.first):
        source = from_text(HEAD + text + TAIL, "bomb.py")
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        what = ""
        try:
            found += bool(check(source).findings)
        except Late:
            what = f"more than {SECONDS} s"
        except Exception as error:
            what = f"{type(error).__name__}: {error}"[:100]
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        slowest = max(slowest, time.process_time() - began)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        most = max(most, grown)
        if what or grown > 200:
            failed += 1
            print(f"{number}: {text[:70]!r}: {what} +{grown} MB")
    print(
        f"{len(texts)} bombs: {failed} failed, the finding behind them found in {found}, "
        f"the slowest {slowest:.1f} s, the most memory {most} MB"
    )
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
