"""What stands in a tree for text that does not parse: a call of code that nobody can see.

It is given the names that the text mentions, and stores those that the text stores. `anything` says that the text may
do more than a statement does to its names: lead out of its block, define something, hold others.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections import Counter
from collections.abc import Sequence

SKIPPED = "__skipped__"
"""The name of what is called, and the parameter of a function whose header does not parse."""
TEXT = f"{SKIPPED}.text"
"""What the dry run calls by that name."""

_TOKEN = re.compile(
    r"(?P<name>(?<![\w.])[^\W\d]\w*)|(?P<text>'[^'\n]*'|\"[^\"\n]*\")|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<same>==|<=|>=|!=)|(?P<changed>(?:[-+/@%&|^]|//|\*\*?|<<|>>)=)|(?P<walrus>:=)|(?P<sign>[=:])"
)
_EXPRESSIONS = frozenset(("and", "else", "False", "for", "if", "in", "is", "lambda", "None", "not", "or", "True"))
"""Words that expressions have, too."""
_HEADERS = frozenset(("else", "for", "if"))
_BINDING = re.compile(
    r"\s*(?:async\s+)?(?:(?:def|class)\s+(?P<made>\w+)|for\s+(?P<each>.*?)(?:\bin\b|$)|del\s+(?P<gone>.*)"
    r"|(?:from\s+\S+\s+)?import\s+(?P<taken>.*))"
)
_AS = re.compile(r"\bas\s+\(?\s*([^\W\d]\w*)")


def call_of(texts: Sequence[str], *, anything: bool = False) -> str:
    """Return the call that stands for lines of text."""
    names, stored, more = _read(texts)
    loaded = [name for name, count in names.items() if name not in stored or count > 1]
    return f"{SKIPPED}({', '.join([*loaded, *(['anything=True'] if anything or more else [])])})"


def statement_of(texts: Sequence[str], *, anything: bool = False) -> str:
    """Return the statement that stands for lines of text."""
    stored = _read(texts)[1]
    return "".join(f"{name} = " for name in stored) + call_of(texts, anything=anything)


def with_of(texts: Sequence[str]) -> str:
    """Return the header that stands for one that does not parse, with what it binds."""
    stored = _read(texts)[1]
    bound = f" as [{', '.join(stored)}]" if stored else ""
    return f"with {call_of(texts, anything=True)}{bound}:"


def is_call(node: ast.AST) -> bool:
    """Return whether a call stands for text that does not parse."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == SKIPPED


def is_function(node: ast.AST) -> bool:
    """Return whether a function is one whose header does not parse."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    return node.args.vararg is not None and node.args.vararg.arg == SKIPPED


_MOST_READ = 20_000
"""Characters of skipped text that are read for its names: what is longer may do anything."""


def _read(texts: Sequence[str]) -> tuple[Counter[str], list[str], bool]:
    """Return the names in some lines with how often each is there, those that are stored, and whether there is more."""
    names: Counter[str] = Counter()
    stored: dict[str, None] = {}
    if sum(map(len, texts)) > _MOST_READ:
        return names, [], True
    more = False
    least = min((len(text) - len(text.lstrip()) for text in texts if text.strip()), default=0)
    depth = 0
    for text in texts:
        if len(text) - len(text.lstrip()) <= least:
            depth = 0
        names.update(found for found in re.findall(r"(?<![\w.])[^\W\d]\w*", text) if not keyword.iskeyword(found))
        bare = text.partition("#")[0].strip()
        first = re.match(r"\w*", bare)
        words = {word for word in re.findall(r"(?<![\w.])[^\W\d]\w*", bare) if keyword.iskeyword(word)}
        more = more or not words <= _EXPRESSIONS or bool(first and first[0] in _HEADERS) or bare.endswith(":")
        more = more or bare.startswith(("@", "<", ">", "="))
        depth = _stored(bare, depth, names, stored)
    return names, [name for name in stored if name.isidentifier() and not keyword.iskeyword(name)], more


def _stored(text: str, depth: int, names: Counter[str], stored: dict[str, None]) -> int:
    """Add the names that a line of text stores, `depth` brackets deep at its beginning; return how deep its end is."""
    stored.update(dict.fromkeys(_AS.findall(text)))
    binding = _BINDING.match(text) if not depth else None
    if binding is not None:
        parts = [binding["made"] or "", binding["each"] or "", binding["gone"] or ""]
        # `import a.b as c` binds the first part of what has no other name.
        parts += [part for part in (binding["taken"] or "").split(",") if " as " not in part]
        stored.update((name, None) for part in parts for name in re.findall(r"(?<![\w.])[^\W\d]\w*(?![\w(\[])", part))
    waiting: list[str] = []
    typed = False
    for token in _TOKEN.finditer(text):
        name = token["name"]
        if token["open"]:
            depth += 1
        elif token["close"]:
            depth = max(0, depth - 1)
        elif token["walrus"] and waiting:
            stored[waiting[-1]] = None
        elif name:
            after = text[token.end() :].lstrip()[:1]
            if (not depth and not typed and after not in (".", "(", "[")) or after == ":":
                waiting.append(name)
        elif not depth and token["sign"] == ":":
            typed = True
        elif not depth and (token["sign"] or token["changed"]) and binding is None:
            stored.update(dict.fromkeys(waiting))
            if token["changed"]:
                # What is changed is read before.
                names.update(waiting)
            waiting, typed = [], False
    return depth
