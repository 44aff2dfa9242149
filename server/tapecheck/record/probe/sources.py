"""What the recorder knows of the user's source text: loops, calls, stores and in-place statements by line."""

from __future__ import annotations

import ast
import importlib.util
import os
import site
import sys
import sysconfig
import tokenize
import warnings
from typing import Collection, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

from .parts import Bytes, parts_of

Extent = Tuple[int, int, int, int]
"""First line, first column, last line, end column (exclusive); lines and columns from 1, in characters."""

_MAX_BYTES = 4_000_000


class LoopText(NamedTuple):
    """A loop statement: its header lines, its body lines, the extent of its header.

    `hidden` is a statement that only a run shows to be a loop: on one line, or in what it calls of a library. `yields`
    says that other code may run before an iteration is over: it yields or awaits.
    """

    first: int
    body: int
    last: int
    extent: Extent
    hidden: bool = False
    yields: bool = False


class Store(NamedTuple):
    """A statement that stores a value under a name: `how` is assign, augmented or container.

    `key` is that of the dictionary's entry, where the text names it: "loss" for `metrics["loss"].append(x)`.
    """

    name: str
    attribute: bool
    how: str
    first: int
    last: int
    function: str
    key: str = ""


class CallText(NamedTuple):
    """A call: its extent, the text of what is called on, its `retain_graph` argument and that argument's text.

    `bare` says that nothing is given to it at all.
    """

    extent: Extent
    function: str
    receiver: str
    arguments: Tuple[str, ...]
    retain: Optional[Extent]
    retains: bool
    bare: bool


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_LOOKING = frozenset((
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "register_backward_hook",
    "register_full_backward_hook", "register_full_backward_pre_hook", "register_hook",
    "register_multi_grad_hook", "register_post_accumulate_grad_hook", "register_prehook", "retain_grad",
))  # fmt: skip


class SourceText:
    """One user file, parsed once. A file that cannot be read or parsed gives no loops and whole-line spans."""

    def __init__(self, filename: str, given: Optional[List[str]] = None) -> None:
        self.filename = filename
        self.lines: List[str] = []
        self.loops: Dict[Tuple[str, int], List[LoopText]] = {}
        self.calls: Dict[int, List[CallText]] = {}
        self.stores: Dict[str, List[Store]] = {}
        self.inplace: Dict[int, Tuple[Tuple[str, ...], ...]] = {}
        self.clears: FrozenSet[int] = frozenset()
        self.in_line: FrozenSet[int] = frozenset()
        """The lines that are loops by themselves: of comprehensions, and of loops that have their body beside them."""
        self.runs_texts = False
        """Whether anything in it may run a text as code, under whatever name of a file."""
        self.names_gradients = False
        self.looks_at_gradients = False
        """Whether anything in it may look at gradients: `.grad`, a hook, a clip that returns their norm."""
        self.keys: Set[Union[int, str]] = set()
        """The constant keys and indices of what its statements store into."""
        self.statements: Dict[int, Tuple[int, int]] = {}
        self.parts: List[Bytes] = []
        """What may be left out where its line runs."""
        try:
            if given is not None:
                text = "".join(given)
            elif os.path.getsize(filename) > _MAX_BYTES:
                return
            else:
                with tokenize.open(filename) as file:
                    text = file.read()
            self.lines = text.split("\n")
            tree = _parse_quietly(text, filename)
        except (OSError, SyntaxError, ValueError, RecursionError, LookupError, MemoryError):
            return
        try:
            _Reader(self).read(tree)
        except RecursionError:
            return

    def line_extent(self, line: int) -> Extent:
        """Return the text of a line without its indentation."""
        if not 0 < line <= len(self.lines):
            return (line, 1, line, 1)
        text = self.lines[line - 1]
        return (line, len(text) - len(text.lstrip()) + 1, line, max(len(text.rstrip()), 0) + 1)

    def statement_at(self, line: int) -> Tuple[int, int]:
        """Return the first and last line of the statement at a line, of a loop or an `if` those of its header."""
        return self.statements.get(line, (line, line))

    def call_at(self, line: int, end: Optional[Tuple[int, int]]) -> Optional[CallText]:
        """Return the call that runs at a line: the one that ends at `end` where that is known, else the likeliest."""
        calls = self.calls.get(line, [])
        if end is not None:
            for call in calls:
                if call.extent[2:] == end:
                    return call
        for call in calls:
            if call.function in ("backward", "grad"):
                return call
        for call in calls:
            if "backward" in call.function or call.retain is not None:
                return call
        return None

    def extent_of(self, at: Bytes) -> Extent:
        return (at[0], self.column(at[0], at[1]), at[2], self.column(at[2], at[3]))

    def column(self, line: int, offset: int) -> int:
        """Return the column in characters, from 1, of a UTF-8 byte offset."""
        if not 0 < line <= len(self.lines):
            return offset + 1
        text = self.lines[line - 1]
        if text.isascii():
            return offset + 1
        return len(text.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore")) + 1


class _Reader:
    def __init__(self, text: SourceText) -> None:
        self.text = text

    def read(self, tree: ast.Module) -> None:
        self._scope(tree.body, ("<module>", 0), "<module>")
        inplace: Dict[int, List[Tuple[str, ...]]] = {}
        clears: Set[int] = set()
        in_line: Set[int] = set()
        called: Set[ast.AST] = set()
        for node in ast.walk(tree):
            self.text.parts += parts_of(node, self.text.lines)
            if isinstance(node, ast.Call):
                self._call(node)
                called.add(node.func)
                self.text.looks_at_gradients |= getattr(node.func, "attr", getattr(node.func, "id", "")) in _LOOKING
            elif node not in called and _names_gradient(node):
                self.text.names_gradients = self.text.looks_at_gradients = True
            self.text.runs_texts |= getattr(node, "id", getattr(node, "attr", "")) == "exec" or (
                isinstance(node, ast.Name) and node.id == "compile"
            )
            if isinstance(node, ast.stmt):
                self._statement(node)
            for path in _written(node):
                inplace.setdefault(node.lineno, []).append(path)  # type: ignore[attr-defined]
            if _clears_gradient(node):
                clears.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
            if isinstance(node, _COMPREHENSIONS) or (isinstance(node, _LOOPS) and node.body[0].lineno == node.lineno):
                in_line.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        self.text.inplace = {line: tuple(dict.fromkeys(paths)) for line, paths in inplace.items()}
        self.text.clears = frozenset(clears)
        self.text.in_line = frozenset(in_line)

    def _scope(self, body: List[ast.stmt], key: Tuple[str, int], function: str) -> None:
        loops = self.text.loops.setdefault(key, [])
        for node in _own(body):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min([node.lineno] + [item.lineno for item in node.decorator_list])
                self._scope(node.body, (node.name, first), node.name)
            elif isinstance(node, _LOOPS):
                start = min([node.body[0].lineno] + [d.lineno for d in getattr(node.body[0], "decorator_list", [])])
                end = (node.test if isinstance(node, ast.While) else node.iter).end_lineno or node.lineno
                last = max(item.end_lineno or item.lineno for item in node.body)
                if start > end:
                    extent = (node.lineno, self._column(node), end, len(self.text.lines[end - 1].rstrip()) + 1)
                    waits = isinstance(node, ast.AsyncFor)
                    yields = waits or any(isinstance(item, _SUSPENDS) for item in _own(node.body))
                    loops.append(LoopText(node.lineno, start, last, extent, yields=yields))
            self._stores(node, function)

    def _statement(self, node: ast.stmt) -> None:
        last = node.end_lineno or node.lineno
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and body[0].lineno > node.lineno:
            last = body[0].lineno - 1
        if last > node.lineno:
            for line in range(node.lineno, last + 1):
                self.text.statements[line] = (node.lineno, last)

    def _stores(self, node: ast.AST, function: str) -> None:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            how = "augmented" if isinstance(node, ast.AugAssign) else "assign"
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for item in ast.walk(target):
                    inner = item is not target and not isinstance(target, (ast.Tuple, ast.List, ast.Starred))
                    if isinstance(item, ast.Subscript):
                        self._store(item, "container", node, function)
                    elif not inner or isinstance(getattr(item, "ctx", None), ast.Store):
                        self._store(item, how, node, function)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Attribute) and called.attr in _MUTATORS:
                self._store(called.value, "container", node, function)
            else:
                changed = _changed(node.value)
                if changed is not None:
                    self._store(changed, "assign", node, function)

    def _store(self, target: ast.AST, how: str, statement: ast.stmt, function: str) -> None:
        key = ""
        while isinstance(target, (ast.Subscript, ast.Starred)):
            if isinstance(target, ast.Subscript):
                key = _key(target)
                if isinstance(target.slice, ast.Constant) and type(target.slice.value) is int:
                    self.text.keys.add(target.slice.value)
            target = target.value
        # `d.setdefault(k, []).append(v)` and `d.get(k).append(v)` store into d.
        if isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
            how = "container"
            if target.args and target.func.attr in ("get", "setdefault"):
                key = _key(target)
            target = target.func.value
        last = statement.end_lineno or statement.lineno
        if isinstance(target, (ast.Attribute, ast.Name)):
            attribute = isinstance(target, ast.Attribute)
            name = target.attr if isinstance(target, ast.Attribute) else target.id
            store = Store(name, attribute, how, statement.lineno, last, function, key)
            if key:
                self.text.keys.add(key)
            self.text.stores.setdefault(name, []).append(store)

    def _call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        retain = next((word for word in node.keywords if word.arg == "retain_graph"), None)
        value: Optional[ast.AST] = retain.value if retain is not None else None
        extent = self._extent(retain) if retain is not None else None
        if value is None and name == "backward" and len(node.args) > 1:
            value = node.args[1]
            extent = self._extent(value)
        if "backward" not in name and name != "grad" and value is None and "step" not in name:
            return
        call = CallText(
            self._extent(node),
            name,
            _dotted(function.value) if isinstance(function, ast.Attribute) else "",
            tuple(_dotted(item) for item in node.args),
            extent,
            value is not None,
            not node.args and not node.keywords,
        )
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            self.text.calls.setdefault(line, []).append(call)

    def _column(self, node: Union[ast.expr, ast.stmt, ast.keyword]) -> int:
        return self.text.column(node.lineno, node.col_offset)

    def _extent(self, node: Union[ast.expr, ast.stmt, ast.keyword]) -> Extent:
        end = node.end_lineno or node.lineno
        return (node.lineno, self._column(node), end, self.text.column(end, node.end_col_offset or 0))


def _changed(call: ast.Call) -> Optional[ast.AST]:
    """Return what a chain of changes in place is of: `total.mul_(0.9).add_(loss)` writes a graph into `total`."""
    written: ast.AST = call
    while isinstance(written, ast.Call) and isinstance(written.func, ast.Attribute):
        if not written.func.attr.endswith("_") or written.func.attr.endswith("__"):
            return None
        written = written.func.value
    return written if not isinstance(written, ast.Call) else None


def _key(node: Union[ast.Subscript, ast.Call]) -> str:
    """Return the constant key of `d["loss"]`, `d.get("loss")` or `d.setdefault("loss", [])`; nothing for any other."""
    index = node.slice if isinstance(node, ast.Subscript) else node.args[0]
    return index.value if isinstance(index, ast.Constant) and isinstance(index.value, str) else ""


_SUSPENDS = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
_MUTATORS = frozenset({"append", "appendleft", "extend", "add", "insert", "update", "setdefault", "put", "push"})


def _own(body: List[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of a scope without those of the functions and classes nested in it."""
    stack: List[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.Lambda):
            continue
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _path(node: object) -> Optional[Tuple[str, ...]]:
    """Return the names that lead to an expression's tensor: `self.h[t]` is ("self", "h"); None for anything else."""
    names: List[str] = []
    while True:
        if isinstance(node, ast.Name):
            names.append(node.id)
            return tuple(reversed(names))
        if isinstance(node, ast.Attribute):
            if node.attr in ("data", "T", "mT"):
                names.clear()
            else:
                names.append(node.attr)
            node = node.value
        elif isinstance(node, (ast.Subscript, ast.Starred)):
            names.clear()
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names.clear()
            node = node.func.value
        else:
            return None


def _written(node: ast.AST) -> Iterator[Tuple[str, ...]]:
    """Yield what a node may change in place, as paths of names."""
    targets: List[ast.AST] = []
    if isinstance(node, ast.AugAssign):
        targets.append(node.target)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            targets.extend(item for item in ast.walk(target) if isinstance(item, ast.Subscript))
    elif isinstance(node, ast.Call):
        targets.extend(_written_by(node))
    for written in targets:
        path = _path(written)
        if path is not None:
            yield path


def _written_by(call: ast.Call) -> Iterator[ast.AST]:
    """Yield what a call may change in place."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name.endswith("_") and not name.endswith("__"):
        if isinstance(function, ast.Attribute):
            yield function.value
        yield from call.args[:2]
    elif any(word.arg == "inplace" for word in call.keywords):
        yield from call.args[:1]
    yield from (word.value for word in call.keywords if word.arg == "out")


def _clears_gradient(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        called = getattr(function, "attr", getattr(function, "id", ""))
        if called in ("zero_", "fill_"):
            return any(_is_gradient(part) for part in ast.walk(function))
        return bool(called == "zero_grad")
    if isinstance(node, (ast.Assign, ast.Delete)):
        return any(map(_is_gradient, node.targets))
    return False


def _is_gradient(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _names_gradient(node: ast.AST) -> bool:
    return _is_gradient(node) or (isinstance(node, ast.Constant) and node.value == "grad")


def _dotted(node: ast.AST) -> str:
    """Return the text of a short expression made of names, attributes and indices, else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return base and base + "." + node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Constant)):
        base = _dotted(node.value)
        index = node.slice.id if isinstance(node.slice, ast.Name) else repr(node.slice.value)
        return base and base + "[" + index + "]"
    return ""


def _parse_quietly(text: str, filename: str) -> ast.Module:
    # Python warned of the file's own escapes when it compiled it: a second warning would change the user's output.
    # `catch_warnings` would do, but it also makes Python forget which warnings it has shown already.
    shown = getattr(warnings, "_showwarnmsg", None)
    if shown is None:
        return ast.parse(text, filename)
    warnings._showwarnmsg = lambda message: None  # type: ignore[attr-defined]
    try:
        return ast.parse(text, filename)
    finally:
        warnings._showwarnmsg = shown  # type: ignore[attr-defined]


def _folder_of_torch() -> str:
    """Return where torch lies: a project may hold a copy of it, which is a library all the same."""
    try:
        torch = importlib.util.find_spec("torch")
    except ValueError:
        # The program has put something in its place.
        return ""
    folder, file = os.path.split((torch.origin if torch is not None else None) or "")
    return folder if file == "__init__.py" else ""


class Sources:
    """Which files are the user's, what they are called on the tape, and their parsed text.

    `own` are files and folders that are the user's beside what lies beside the script or in `directory`, the working
    directory that the run began in. Code may name its file in several ways, and relative to where the program was when
    it was compiled: `file` has one name for each.
    """

    def __init__(
        self, script: str, shown: str, foreign: str = "", own: Collection[str] = (), directory: str = ""
    ) -> None:
        self.script = script
        self.shown = shown
        self.directory = directory or os.getcwd()
        self._files: Dict[str, str] = {}
        self._spelled: Dict[str, str] = {}
        self._script = self.file(script)
        probe = os.path.dirname(os.path.abspath(__file__))
        places = [probe] + [sysconfig.get_path(name) or "" for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        places += site.getsitepackages() if hasattr(site, "getsitepackages") else []
        places += [getattr(site, "USER_SITE", None) or "", foreign, _folder_of_torch()]
        self._foreign = tuple({os.path.join(place, "") for place in places if place})
        folders = [self.directory, *map(os.path.dirname, (os.path.join(self.directory, script), self._script))]
        self._roots = tuple({os.path.join(os.path.abspath(folder), "") for folder in folders})
        self._user: Dict[str, bool] = {}
        self._texts: Dict[str, SourceText] = {}
        self._names: Dict[str, str] = {self._script: shown}
        # The files that are the user's wherever they lie, and how they are called: no other needs to be looked up.
        self._own: Set[str] = set()
        self._own_names: Set[str] = set()
        for path in own:
            self.add(path)

    def add(self, path: str) -> None:
        """Take a file, or what lies in a folder, for the user's."""
        file = self.resolve(path)
        if os.path.isdir(file):
            self._roots = tuple({*self._roots, os.path.join(file, "")})
        else:
            self._own.add(file)
            self._own_names.add(os.path.basename(file))
        self._user.clear()

    def file(self, filename: str) -> str:
        """Return the one name of the file that code says it is from: absolute, and without links.

        A relative one is looked up when it is seen first: the program may go to another directory later.
        """
        known = self._files.get(filename)
        if known is None:
            known = self._files[filename] = self._find(filename)
        return known

    def _find(self, filename: str) -> str:
        if filename.startswith("<"):
            return filename
        path = filename
        if not os.path.isabs(filename):
            try:
                here = os.getcwd()
            except OSError:
                here = self.directory
            folders = (here, self.directory, os.path.dirname(os.path.join(self.directory, self.script)))
            paths = [os.path.join(folder, filename) for folder in folders]
            path = next((each for each in paths if os.path.isfile(each)), paths[0])
        real, plain = os.path.realpath(path), os.path.normpath(path)
        # Shown as it was found, unless a link makes `..` lead elsewhere.
        self._spelled.setdefault(real, plain if os.path.realpath(plain) == real else real)
        return real

    def look_again(self, filename: str) -> None:
        """Look a relative name up anew: another module of that name begins to run."""
        before = self._files.pop(filename, None)
        if before is not None and not os.path.isfile(self.file(filename)):
            self._files[filename] = before
        self._user.pop(filename, None)

    def is_user(self, filename: str) -> bool:
        """Return whether a code object's file belongs to the program rather than to a library."""
        known = self._user.get(filename)
        if known is None:
            known = self._user[filename] = self._decide(filename)
        return known

    def _decide(self, filename: str) -> bool:
        if filename == self.script:
            return True
        if filename.startswith("<"):
            return False
        if self.is_library(filename):
            return False
        file = self.file(filename)
        return (
            file in self._own
            or file == self._script
            or any(path.startswith(self._roots) for path in (self._plain(filename), file))
        )

    def _plain(self, filename: str) -> str:
        return os.path.normpath(filename) if os.path.isabs(filename) else self._spelled[self.file(filename)]

    def is_library(self, filename: str) -> bool:
        """Return whether a file lies where libraries are installed; the module that is run may do so.

        A file that was named as the user's is none.
        """
        if filename.startswith("<"):
            return False
        path = self._plain(filename)
        if not path.startswith(self._foreign) and os.sep + "site-packages" + os.sep not in path:
            return False
        return os.path.basename(path) not in self._own_names or self.file(path) not in self._own

    def give(self, filename: str, lines: List[str]) -> None:
        """Say what a file's code was compiled from, where that is not what the file holds."""
        file = self.file(filename)
        self._texts[file] = SourceText(file, lines)

    def text(self, filename: str) -> SourceText:
        file = self.file(filename)
        text = self._texts.get(file)
        if text is None:
            text = self._texts[file] = SourceText(file)
        return text

    def seen(self) -> List[str]:
        """Return what code that was seen calls its files."""
        return list(self._user)

    def texts(self) -> List[SourceText]:
        return list(self._texts.values())

    def name(self, filename: str) -> str:
        """Return the file's name on the tape: the script as the user gave it, others relative to the working
        directory.
        """
        file = self.file(filename)
        name = self._names.get(file)
        if name is None:
            path = self._spelled.get(file, file)
            root = os.path.join(self.directory, "")
            name = self._names[file] = path[len(root) :] if path.startswith(root) else path
        return name

    def resolve(self, name: str) -> str:
        """Return what `file` calls a file that is named on the tape or by the parent process."""
        if name in (self.shown, self.script):
            return self._script
        return os.path.realpath(os.path.join(self.directory, name))


if sys.version_info >= (3, 11):

    def call_end(code: object, offset: int, text: SourceText) -> Optional[Tuple[int, int]]:
        """Return where the call at an instruction offset ends (line, column from 1), None where it is unknown."""
        from itertools import islice

        position = next(islice(code.co_positions(), offset // 2, None), None)
        if position is None or position[1] is None or position[3] is None:
            return None
        return position[1], text.column(position[1], position[3])

else:

    def call_end(code: object, offset: int, text: SourceText) -> Optional[Tuple[int, int]]:
        """Return where the call at an instruction offset ends: code objects say so from Python 3.11."""
        return None
