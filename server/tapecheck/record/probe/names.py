"""Finds what the user calls a tensor, by plain lookups that run no user code and keep nothing alive."""

from __future__ import annotations

import sys
from collections import deque
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Callable, Deque, Dict, Iterator, List, Optional, Set, Tuple

from .lookups import elements_of, entries_of, is_a, members, module_of
from .sources import CallText, Sources

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_MAX_MODULES = 2_000
# What no plain variable leads to is looked for in the containers and objects behind them.
_LOOKUPS, _DEPTH, _ITEMS = 4_000, 5, 256
_OPTIMIZED = 0x1
# The frame's, the caller's variable, the parameter and the argument of `getrefcount`.
_OWN_REFERENCES = 4


# Where a frame's snapshot of its variables is stored: past the head of the interpreter's own frame, which the frame
# object refers to past its head and its first field.
_SNAPSHOT_AT = {(3, 11): 24, (3, 12): 40}


def _reader() -> Callable[[FrameType], Dict[str, object]]:
    """Return how to read a frame's local variables so that `release` may drop what was read.

    In 3.11 and 3.12 what is read is the snapshot that `locals()` gave the function, filled anew: it is put aside for
    as long as that takes, so that neither the function nor who traces it sees one of its own change.
    """
    at = _SNAPSHOT_AT.get(sys.version_info[:2])
    if at is None or sys.implementation.name != "cpython":
        return lambda frame: frame.f_locals
    import ctypes

    written_back, drop = ctypes.pythonapi.PyFrame_LocalsToFast, ctypes.pythonapi.Py_DecRef
    wrap, zero, pointer = ctypes.py_object, ctypes.c_int(0), ctypes.c_void_p
    drop.argtypes, drop.restype = [ctypes.py_object], None
    first = object.__basicsize__ + ctypes.sizeof(pointer)

    def plainly(frame: FrameType) -> Dict[str, object]:
        # Once its snapshot was read, Python 3.11 fills it anew at the next line, writes it back into the variables and
        # keeps it. Writing it back at once, with no chance for another thread in between, spares it all of that.
        argument = wrap(frame)
        local = frame.f_locals
        written_back(argument, zero)
        return local

    def aside(frame: FrameType) -> Dict[str, object]:
        argument = wrap(frame)
        snapshot = pointer.from_address((pointer.from_address(id(frame) + first).value or 0) + at)
        own, snapshot.value = snapshot.value, None
        local = frame.f_locals
        written_back(argument, zero)
        snapshot.value = own
        drop(local)
        return local

    return aside if _is_there(first, at) else plainly


def _is_there(first: int, at: int) -> bool:
    """Return whether this Python keeps snapshots where that is expected: a build may have other frames."""
    import ctypes

    if hasattr(sys, "gettotalrefcount"):
        return False
    own = locals()
    inner = ctypes.c_size_t.from_address(id(sys._getframe()) + first).value
    return bool(inner) and ctypes.c_size_t.from_address(inner + at).value == id(own)


_read = _reader()


def locals_of(frame: FrameType) -> Dict[str, object]:
    """Return the local variables of a frame; call `release` afterwards."""
    if frame.f_code.co_flags & _OPTIMIZED:
        return _read(frame)
    return frame.f_locals


def release(frame: FrameType, local: Dict[str, object]) -> None:
    """Empty what `locals_of` read in Python 3.11 and 3.12: it would keep old tensors alive.

    Up to 3.10 the running trace function makes Python refresh the snapshot at the next line; from 3.13 there is none.
    One that somebody else keeps stays as it is: the caller must have no reference to it but the variable it passes.
    """
    version = sys.version_info[:2]
    if not frame.f_code.co_flags & _OPTIMIZED or local is frame.f_globals:
        return
    if version == (3, 11) or (version == (3, 12) and sys.gettrace() is None):
        if sys.getrefcount(local) <= _OWN_REFERENCES:
            local.clear()


def user_frames(frame: Optional[FrameType], sources: Sources) -> Iterator[FrameType]:
    while frame is not None:
        if sources.is_user(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _stored(value: object, name: str) -> Dict[str, object]:
    found = members(value).get(name)
    return found if is_a(found, dict) else {}


def parameters(module: Module) -> Iterator[Tuple[str, Tensor]]:
    """Yield the parameters of a module and its submodules with their dotted names."""
    stack: List[Tuple[str, Module]] = [("", module)]
    seen: Set[int] = set()
    while stack and len(seen) < _MAX_MODULES:
        prefix, current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        for name, tensor in dict.items(_stored(current, "_parameters")):
            if tensor is not None:
                yield prefix + name, tensor
        for name, child in dict.items(_stored(current, "_modules")):
            if child is not None:
                stack.append((prefix + name + ".", child))


def leaf_names(
    torch: ModuleType, tensors: List[Tensor], frame: Optional[FrameType], sources: Sources, search: bool = True
) -> Dict[int, Tuple[str, str]]:
    """Return the names of leaf tensors as seen from a frame (`model.fc.weight`, `x`, `self.scale`), each with the
    function whose variable it is; with `search` what is in containers and objects, too.
    """
    wanted = {id(tensor) for tensor in tensors}
    found: Dict[int, Tuple[str, str]] = {}
    scopes: List[Tuple[Dict[str, object], str]] = []
    held: List[Tuple[FrameType, Dict[str, object]]] = []
    for step in user_frames(frame or sys._getframe(1), sources):
        local = locals_of(step)
        held.append((step, local))
        if local is not step.f_globals:
            scopes.append((local, step.f_code.co_name))
        if not any(step.f_globals is scope for scope, _ in scopes):
            scopes.append((step.f_globals, "<module>"))
    for scope, function in scopes:
        for identity, text in _names_in(torch, scope, wanted).items():
            found.setdefault(identity, (text, function))
        if len(found) == len(wanted):
            break
    if search and len(found) < len(wanted):
        _search(torch, scopes, wanted, found, sources)
    scopes.clear()
    scope = {}
    while held:
        step, local = held.pop()
        release(step, local)
    return found


def _search(
    torch: ModuleType, scopes: List[Tuple[Dict[str, object], str]], wanted: Set[int],
    found: Dict[int, Tuple[str, str]], sources: Sources,
) -> None:  # fmt: skip
    """Look for tensors in the containers and objects that variables lead to: `self.layers[0].weight`."""
    queue: Deque[Tuple[object, str, str, int]] = deque()
    for scope, function in scopes:
        queue.extend((value, name, function, 0) for name, value in list(scope.items()) if not name.startswith("__"))
    seen: Set[int] = set()
    left = _LOOKUPS
    while queue and left and len(found) < len(wanted):
        left -= 1
        value, text, function, depth = queue.popleft()
        if is_a(value, torch.Tensor):
            if id(value) in wanted:
                found.setdefault(id(value), (text, function))
            continue
        if depth >= _DEPTH or id(value) in seen:
            continue
        seen.add(id(value))
        queue.extend((inner, text + of, function, depth + 1) for inner, of in _behind(torch, value, sources))
    queue.clear()


def _behind(torch: ModuleType, value: object, sources: Sources) -> Iterator[Tuple[object, str]]:
    """Yield what a container, a module or an object of the program's holds, each with how it is written behind it."""
    if is_a(value, list, tuple):
        for index, item in enumerate(elements_of(value)[:_ITEMS]):
            yield item, "[%d]" % index
    elif is_a(value, dict):
        for key, item in list(entries_of(value))[:_ITEMS]:
            if type(key) is str or type(key) is int:
                yield item, "[%r]" % (key,)
    elif is_a(value, torch.nn.Module):
        for part in ("_parameters", "_modules"):
            for name, item in list(dict.items(_stored(value, part))):
                yield item, "." + name
        for name, item in list(members(value).items()):
            if not name.startswith("_"):
                yield item, "." + name
    elif not is_a(value, type) and _is_own(type(value), sources):
        for name, item in list(members(value).items())[:_ITEMS]:
            yield item, "." + name


def _is_own(kind: type, sources: Sources) -> bool:
    """Return whether a class is one of the program's."""
    file = members(sys.modules.get(module_of(kind))).get("__file__")
    return isinstance(file, str) and sources.is_user(file)


def _names_in(torch: ModuleType, scope: Dict[str, object], wanted: Set[int]) -> Dict[int, str]:
    names: Dict[int, str] = {}
    for name, value in list(scope.items()):
        if name.startswith("__"):
            continue
        _name(torch, value, name, wanted, names)
        if not is_a(value, torch.nn.Module):
            for attribute, inner in list(members(value).items())[:64]:
                if is_a(inner, torch.nn.Module, torch.Tensor):
                    _name(torch, inner, name + "." + attribute, wanted, names)
    return names


def _name(torch: ModuleType, value: object, name: str, wanted: Set[int], names: Dict[int, str]) -> None:
    if is_a(value, torch.nn.Module):
        for inner, tensor in parameters(value):
            if id(tensor) in wanted:
                names.setdefault(id(tensor), name + "." + inner)
    elif is_a(value, torch.Tensor):
        if id(value) in wanted:
            names.setdefault(id(value), name)
    elif (type(value) is list or type(value) is tuple) and len(value) <= 256:
        for index, item in enumerate(value):
            if id(item) in wanted:
                names.setdefault(id(item), "%s[%d]" % (name, index))
    elif type(value) is dict and len(value) <= 256:
        for key, item in value.items():
            if id(item) in wanted:
                names.setdefault(id(item), "%s[%r]" % (name, key))


def describe(call: Optional[CallText], index: int, count: int, root: object, frame: FrameType) -> str:
    """Return what the user calls a root of a backward: the text before `.backward()`, or the argument."""
    if call is None:
        return ""
    if call.function == "backward" and count == 1 and call.receiver and not call.arguments:
        return call.receiver
    for text in ([call.receiver] if count == 1 else []) + list(call.arguments):
        if text.isidentifier():
            local = locals_of(frame)
            same = local.get(text, frame.f_globals.get(text)) is root
            release(frame, local)
            if same:
                return text
    return call.receiver if call.function == "backward" and call.receiver not in ("torch.autograd", "autograd") else ""


def _member(value: object, name: str) -> object:
    found = members(value).get(name)
    if found is None:
        for part in ("_parameters", "_buffers", "_modules"):
            store = _stored(value, part)
            if name in store:
                return store[name]
    return found


def resolve(path: Tuple[str, ...], frame: FrameType, torch: ModuleType) -> List[Tuple[str, Tensor]]:
    """Return the tensors that a path of names leads to, by plain lookups that run no user code."""
    local = locals_of(frame)
    value: object = local.get(path[0], frame.f_globals.get(path[0]))
    release(frame, local)
    for name in path[1:]:
        value = _member(value, name)
    text = ".".join(path)
    if is_a(value, torch.Tensor):
        return [(text, value)]
    if (type(value) is list or type(value) is tuple) and len(value) <= 64:
        return [(text, item) for item in value if is_a(item, torch.Tensor)]
    if type(value) is dict and len(value) <= 64:
        return [(text, item) for item in value.values() if is_a(item, torch.Tensor)]
    if is_a(value, torch.nn.Module):
        return [(text + "." + name, item) for name, item in parameters(value)][:64]
    return []
