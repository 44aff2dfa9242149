"""What code the analysis does not see: where it goes on with one of several possible answers, the tape says so."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Iterable
from typing import Literal

from tapecheck.interpret import limits
from tapecheck.interpret.library import leaves, numbers, processes
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.leaves import LOOKING, SCHEDULING, SETTINGS
from tapecheck.interpret.library.states import DatasetState, OptimizerState, state_of
from tapecheck.interpret.objects import carry
from tapecheck.interpret.objects.unknowns import has_default, root
from tapecheck.interpret.state import World
from tapecheck.interpret.values import (
    MORE,
    BaseValue,
    Bound,
    Context,
    Dict,
    Instance,
    Lib,
    List,
    Native,
    PythonValue,
    Range,
    Set,
    Stream,
    Tensor,
    Unknown,
    Value,
    behaviour,
    is_open,
    is_parameter,
    may_carry,
)
from tapecheck.tape import NOTHING

_MODELLED = frozenset((
    *sys.stdlib_module_names, "builtins", "torch", "torchvision", "torchaudio", "numpy", "np", "scipy", "pandas",
    "sklearn", "matplotlib", "tqdm", "PIL", "cv2", "yaml", "gym", "gymnasium", "typing_extensions",
))  # fmt: skip
"""Packages whose functions train nothing that they are not asked to, and keep no graph."""
_LOADING = ("torch.load", "torch.hub.load", "torch.jit.load", "pickle.load", "pickle.loads", "joblib.load")
"""What gives objects of any class, code included."""
_SCRIPTED = "torch.jit.load"
"""What gives code in a language of torch's own, which switches recording off for a block alone."""
_FRAMEWORKS = frozenset(("accelerate", "lightning", "pytorch_lightning", "transformers", "pydantic"))
"""Packages whose base classes are modelled."""
_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_ENTRY_DECORATORS = frozenset(("absl", "click", "hydra", "numba", "pytest", "typer"))
"""Packages whose decorators call what they decorate as it is."""


def modelled(path: str) -> bool:
    """Return whether it is known what a library does with what it is given, by its dotted path."""
    return path.partition(".")[0] in _MODELLED or path.startswith((*LOOKING, *SCHEDULING, *SETTINGS))


def acts_as_known(path: str) -> bool:
    """Return whether it is known what an object of a library does that came by this path: of what was saved, nobody
    knows the class.
    """
    return modelled(path) and not was_saved(path)


def was_saved(path: str) -> bool:
    """Return whether an object came out of a file by this path."""
    return path.partition("(")[0] in _LOADING


def is_opaque(value: Value) -> bool:
    """Return whether a value is code that is not visible, or an object of such code."""
    if type(value) is Lib:
        return not modelled(value.path)
    path = root(value).name if type(value) is Unknown else ""
    return "." in path and not modelled(path)


def base_modelled(path: str) -> bool:
    """Return whether it is known what a class inherits from a library's class."""
    return modelled(path) or path.partition(".")[0] in _FRAMEWORKS or path in processes.CLASSES


def decorator_modelled(path: str) -> bool:
    """Return whether a library's decorator is known to call the function that it is given."""
    return modelled(path) or path.partition(".")[0] in _ENTRY_DECORATORS


def leaves_recording_on(torch: Torch, name: str, node: ast.AST, *, read: bool = False) -> None:
    """Note that opaque code which is run is taken to leave recording on, as libraries of commands and tests do."""
    brings_code = was_saved(name) and not name.startswith(_SCRIPTED)
    if brings_code or not decorator_modelled(name):
        torch.world.assumptions.note("mode", f"`{name}` leaves recording on", node, NOTHING, read=read)
        if torch.world.modes.grad_mode == "no":
            torch.world.assumptions.note("off", f"`{name}` leaves recording off", node, NOTHING, read=read)


def called(torch: Torch, name: str, args: Iterable[Value], node: ast.AST) -> None:
    """Note what the dry run takes for granted of a call of opaque code."""
    about: dict[int, None] = {}
    anything = data = contents = False
    args = list(args)
    carry.hand_over(torch.machine, args)
    torch.world.graph.unsettle()
    numbers.handed_over(torch, args)
    look_again(torch, node)
    for arg, written in zip(args, _written(node, len(args))):
        # Nobody else has what is written at the call, to put anything into it.
        owner = behaviour(arg)
        inside = tuple(owner.children()) if isinstance(written, _DISPLAYS) and not _holds_more(arg) else arg
        held: list[Value] = []
        kind = _reach(torch, inside, about, held)
        _hand(arg, name)
        if kind in ("data", "nothing"):
            _given(torch, held, name, node)
            contents = contents or bool(held)
        anything, data = anything or kind == "anything", data or kind == "data"
    if contents and not anything:
        torch.world.assumptions.note("contents", f"`{name}` leaves what it is given as it is", node)
    leaves_recording_on(torch, name, node)
    if anything or about or data:
        _take_for_granted(torch, name, node, tuple(about), anything=anything)


def _take_for_granted(torch: Torch, name: str, node: ast.AST, about: tuple[int, ...], *, anything: bool) -> None:
    """Note what a call of opaque code is taken to do, which was given what leads to `about`, to `anything` or to data
    alone.
    """
    if anything or about or torch.world.position.is_discarded(node):
        # What a call returns that discards it is of no use to anybody.
        nodes = () if anything else about or NOTHING
        torch.world.assumptions.note("effect", f"`{name}` leaves what it is given as it is", node, nodes)
    else:
        torch.world.assumptions.note("result", f"what `{name}` returns has no graph of its own", node)


def _hand(value: Value, name: str) -> None:
    """Note that opaque code has data: how much it is may be anything from then on, and of what it is a part of."""
    queue = [value]
    for one in queue:
        if isinstance(one, Instance) and not one.handed and _is_data(one):
            one.handed, one.length = name, None
            queue += one.attrs.values()


def _given(torch: Torch, containers: Iterable[Value], name: str, node: ast.AST) -> None:
    """Note that opaque code has containers which lead to no graph now: what is put into them later it comes to, too."""
    given = torch.world.assumptions.given
    if containers and not given:
        torch.machine.exits.append(lambda: look_again(torch, node, most=None))
    given.update((id(one), (one, name)) for one in containers)


def look_again(torch: Torch, node: ast.AST, *, most: int | None = limits.MOST_GIVEN) -> None:
    """Note what opaque code comes to by now in the containers that it was given before, in the last ones of them, where
    it may be run again.
    """
    given = torch.world.assumptions.given
    last = list(itertools.islice(reversed(given.items()), most))
    for number, (container, name) in reversed(last):
        about: dict[int, None] = {}
        kind = _reach(torch, container, about, [])
        if about or kind == "anything":
            del given[number]
            nodes = () if kind == "anything" else tuple(about)
            torch.world.assumptions.note("effect", f"`{name}` leaves what it was given as it is", node, nodes)


def skipped(torch: Torch, args: Iterable[Value], node: ast.AST, *, anything: bool) -> None:
    """Note that text which does not parse is taken to leave everything as it is that its names lead to."""
    about: dict[int, None] = {}
    args = list(args)
    carry.hand_over(torch.machine, args)
    for arg in args:
        # What a library or the program itself defines may lead to everything, and set how everything is recorded.
        anything = anything or isinstance(arg, Lib) or _reach(torch, arg, about) == "anything"
    torch.world.assumptions.note_skipped(node, () if anything else tuple(about) or NOTHING)


def may_freeze(args: Iterable[Value]) -> None:
    """Note that opaque code which is called for what it does may switch off the gradients of parameters it is given."""
    for arg in args:
        if is_parameter(arg) and arg.is_leaf and arg.graph == "yes":
            arg.graph = "may"


def _written(node: ast.AST, count: int) -> list[ast.expr | None]:
    """Return the expressions of some arguments at their call; None for each where that is not written."""
    if isinstance(node, ast.Call):
        written = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg is not None)]
        plain = len(written) == len(node.args) + len(node.keywords)
        if plain and len(written) == count and not any(isinstance(one, ast.Starred) for one in node.args):
            return list(written)
    return [None] * count


_Reach = Literal["anything", "listed", "data", "nothing"]
_REACHES: tuple[_Reach, ...] = ("anything", "listed", "data", "nothing")
"""What code can come to by a value, the most first."""


def _reach(
    torch: Torch, value: Value, about: dict[int, None], held: list[Value] | None = None, depth: int = limits.HELD_DEPTH
) -> _Reach:
    """Return what code can come to by a value; nodes and leaves that it is known to lead to are added to `about`, and
    containers of which nothing more is known than what they hold now to `held`, where that is wanted.
    """
    if isinstance(value, (Bound, Native)):
        value = value.receiver
    if may_carry(value):
        return _reach_graph(torch, value, about)
    if isinstance(value, Instance):
        return _reach_object(torch, value, about)
    if isinstance(value, tuple):
        return _most(_reach(torch, one, about, held, depth) for one in value)
    if held is not None and depth > 0 and isinstance(value, (List, Dict, Set)) and not _holds_more(value):
        held.append(value)
        torch.world.budget.spend(len(value.items) // limits.PARTS_A_UNIT)
        return _most(_reach(torch, one, about, held, depth - 1) for one in behaviour(value).children())
    if isinstance(value, Stream):
        return _reach(torch, tuple(value.reached()), about)
    if isinstance(value, (Context, Lib, PythonValue, Range)):
        return "nothing"
    # What a list of hidden elements holds when it is given away says nothing of what is in it.
    return "anything" if isinstance(value, BaseValue) else "nothing"


def _holds_more(value: Value) -> bool:
    """Return whether a value may hold more than is known of it, beside numbers and text."""
    return not isinstance(value, (List, Dict, Set)) or bool(behaviour(value).rest() & MORE)


def _most(kinds: Iterable[_Reach]) -> _Reach:
    found = set(kinds)
    return next((kind for kind in _REACHES if kind in found), "nothing")


def _reach_graph(torch: Torch, value: Tensor | Unknown, about: dict[int, None]) -> _Reach:
    """Return what code can come to by what may carry a graph."""
    leaf = value.kept.leaf if isinstance(value, Unknown) else None
    if leaf is not None and leaf.node is not None:
        about[leaf.node] = None
    if value.node is not None:
        about[value.node] = None
        return "listed"
    if value.parameter:
        # It is frozen now, and need not be afterwards.
        return "anything"
    if isinstance(value, Unknown) and (made_of := root(value).kept.values):
        return _reach(torch, made_of, about)
    if isinstance(value, Unknown) and value.part_of.owner is None and root(value).kept.leaves:
        # It was made of a model, perhaps to call it.
        about.update(dict.fromkeys(value.kept.leaves))
        return "listed"
    drawn = value.origin.drawn if isinstance(value, Unknown) and value.may_be_tensor() else ()
    if any(isinstance(one, List) and _holds_more(one) for one in drawn):
        # An element of the program's own list that nobody has seen: it may be any of what the list is made of.
        return "anything"
    return "data" if value.itself() is value else "nothing"


def _reach_object(torch: Torch, value: Instance, about: dict[int, None]) -> _Reach:
    """Return what code can come to by an object."""
    if _is_data(value):
        state = state_of(value, DatasetState)
        return _reach(torch, (*value.attrs.values(), *(state.tensors if state is not None else ())), about)
    found = leaves.within(torch, value)
    about.update(dict.fromkeys(found))
    only_leaves = value.module or (value.cls is None and state_of(value, OptimizerState) is not None)
    return "listed" if only_leaves and found else "anything"


def _is_data(value: Instance) -> bool:
    """Return whether an object is a loader or a dataset: what it was made of is all that it leads to."""
    bases = (value.lib or "",) if value.cls is None else value.cls.library_bases()
    return bool(bases) and all(base.startswith("torch.utils.data.") for base in bases)


def option(world: World, value: Value, name: str, node: ast.AST) -> bool:
    """Note that the value of an argument is not visible; return whether code has it that is not visible."""
    path = root(value).name if isinstance(value, Unknown) else behaviour(value).name_as_type()
    hidden = "." in path and not modelled(path)
    if hidden or has_default(value) or is_open(value):
        world.assumptions.note("option", f"`{name}` is what this path takes it for", node)
    return hidden and not has_default(value)


def used(world: World, values: Iterable[Value], node: ast.AST) -> None:
    """Note that values of modules that are not visible are computed with, as if they were data."""
    for value in values:
        if type(value) is Lib and not modelled(value.path):
            world.assumptions.note("value", f"`{value.path}` is data", node)
