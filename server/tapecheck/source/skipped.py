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

_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
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
    read = _Reader(texts)
    stored = read.stored
    loaded = [name for name, count in read.names.items() if name not in stored or count > 1]
    return f"{SKIPPED}({', '.join([*loaded, *(['anything=True'] if anything or read.more else [])])})"


def statement_of(texts: Sequence[str], *, anything: bool = False) -> str:
    """Return the statement that stands for lines of text."""
    stored = _Reader(texts).stored
    return "".join(f"{name} = " for name in stored) + call_of(texts, anything=anything)


def with_of(texts: Sequence[str]) -> str:
    """Return the header that stands for one that does not parse, with what it binds."""
    stored = _Reader(texts).stored
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


class _Reader:
    """What lines of text do to names: how often each is there, those that are stored, and whether there is more."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.names: Counter[str] = Counter()
        self.more = sum(map(len, texts)) > _MOST_READ
        self._stored: dict[str, None] = {}
        self._depth = 0
        if not self.more:
            self._read(texts)

    @property
    def stored(self) -> list[str]:
        """Return the names that the text stores."""
        return [name for name in self._stored if name.isidentifier() and not keyword.iskeyword(name)]

    def _read(self, texts: Sequence[str]) -> None:
        least = min((_indent(text) for text in texts if text.strip()), default=0)
        for text in texts:
            if _indent(text) <= least:
                self._depth = 0
            self.names.update(name for name in _NAME.findall(text) if not keyword.iskeyword(name))
            bare = text.partition("#")[0].strip()
            self.more = self.more or _does_more(bare)
            self._stored.update(dict.fromkeys(_AS.findall(bare)))
            binding = _BINDING.match(bare) if not self._depth else None
            if binding is not None:
                self._stored.update(dict.fromkeys(_bound_by(binding)))
            self._assign(bare, binds=binding is not None)

    def _assign(self, text: str, *, binds: bool) -> None:
        """Go over a line from name to sign; what a statement that `binds` names otherwise assigns are its defaults."""
        waiting: list[str] = []
        typed = False
        for token in _TOKEN.finditer(text):
            match token.lastgroup:
                case "open":
                    self._depth += 1
                case "close":
                    self._depth = max(0, self._depth - 1)
                case "walrus" if waiting:
                    self._stored[waiting[-1]] = None
                case "name":
                    after = text[token.end() :].lstrip()[:1]
                    if after == ":" or not (self._depth or typed or after in (".", "(", "[")):
                        waiting.append(token[0])
                case "sign" if token[0] == ":":
                    typed = typed or not self._depth
                case "sign" | "changed" if not self._depth and not binds:
                    self._stored.update(dict.fromkeys(waiting))
                    if token.lastgroup == "changed":
                        # What is changed is read before.
                        self.names.update(waiting)
                    waiting, typed = [], False


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _does_more(text: str) -> bool:
    """Return whether a line without its comment may do more than a statement does to its names."""
    words = set(filter(keyword.iskeyword, _NAME.findall(text)))
    if text.endswith(":") or text.startswith(("@", "<", ">", "=")) or not words <= _EXPRESSIONS:
        return True
    return re.split(r"\W", text, maxsplit=1)[0] in _HEADERS


def _bound_by(binding: re.Match[str]) -> list[str]:
    """Return the names that a statement binds or deletes other than by a sign."""
    parts = [binding["made"] or "", binding["each"] or "", binding["gone"] or ""]
    # `import a.b as c` binds the first part of what has no other name.
    parts += [part for part in (binding["taken"] or "").split(",") if " as " not in part]
    return [name for part in parts for name in re.findall(r"(?<![\w.])[^\W\d]\w*(?![\w(\[])", part)]
