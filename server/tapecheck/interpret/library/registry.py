"""The models of libraries put together: which one sees to a name, an attribute, an object.

Python's side asks `Libraries` alone. A function or class is looked up by its whole path first, then in the model of
its library; what no model knows is opaque.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library import (
    arguments,
    builtin,
    contexts,
    copies,
    frameworks,
    leaves,
    lightning,
    loaders,
    names,
    nnlib,
    opaque,
    pretrained,
    processes,
    scalers,
    sharding,
    stdlib,
    tables,
    tensorlib,
    torchfunctions,
    visible,
    wrappers,
)
from tapecheck.interpret.library.copies import Copier
from tapecheck.interpret.library.states import CompiledState, OptimizerState, ScalerState, state_of
from tapecheck.interpret.library.torchlib import Torch
from tapecheck.interpret.objects import carry, exceptions, methods, records, unknowns
from tapecheck.interpret.objects.syntax import called_in, named_in, text_of
from tapecheck.interpret.state import World
from tapecheck.interpret.values import (
    COUNTED,
    NO_MODEL,
    Args,
    Class,
    Dict,
    Function,
    Instance,
    Kind,
    Kwargs,
    Lib,
    List,
    Module,
    Set,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    function_of,
    is_unseen,
    only,
    path_of,
    positional,
    user_class,
)
from tapecheck.tape import NOTHING, NoEffect
from tapecheck.torchfacts import classes

Model = Callable[[Torch, str, Args, Kwargs, ast.AST], Value]
"""Calls a function or class of a library by its dotted path; NO_MODEL where it does not know it."""


def _builtin_class(torch: Torch, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Instance(None, path)
    result.args = args
    return result


def _metrics(torch: Torch, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if path.rsplit(".", 1)[-1][:1].isupper():
        # What it keeps has no graph.
        return Instance(None, "torchmetrics.Metric")
    return NO_MODEL


FUNCTIONS = {**torchfunctions.FUNCTIONS, **frameworks.FUNCTIONS, "argparse.ArgumentParser": arguments.parser}
"""Functions and classes with a model of their own, by their whole path."""
MODELS: dict[str, Model] = {
    "builtins": _builtin_class, "numpy": tensorlib.to_numpy, "np": tensorlib.to_numpy, "torchmetrics": _metrics,
}  # fmt: skip
"""The model of each other library, by its name."""
_TRANSPARENT = frozenset((
    "torch.jit.script", "torch.jit.ignore", "torch.jit.export", "typing.no_type_check",
    "abc.abstractmethod", "dataclasses.dataclass", "typing.overload",
))  # fmt: skip
"""Decorators that change nothing of what a function does to graphs."""
_CONTAINER_BASES: dict[str, Callable[[], Dict | List | Set]] = {
    "builtins.dict": lambda: Dict({}), "builtins.list": lambda: List([]), "builtins.set": lambda: Set([]),
    "collections.OrderedDict": lambda: Dict({}), "collections.UserDict": lambda: Dict({}),
    "collections.UserList": lambda: List([]), "collections.defaultdict": lambda: Dict({}),
}  # fmt: skip


def has_model(path: str) -> bool:
    """Return whether more may be known of what a function of a library returns than that it is an unknown value."""
    library = path.partition(".")[0]
    if library == "torch":
        # What prepares data (samplers, splits, workers) has a model where it is listed.
        return path in FUNCTIONS or not path.startswith("torch.utils.")
    return path in FUNCTIONS or library in MODELS or library in sys.stdlib_module_names


def _is_known(value: Unknown) -> bool:
    """Return whether it is known what Python and torch do with an unknown value: a tensor, a number, a text."""
    plain = value.kind in _NUMBERS_AND_TEXT or value.concrete is not None
    return plain or value.node is not None or value.taken_for_data()


_READS = (ast.Attribute, ast.Call, ast.Assign, ast.AugAssign, ast.AnnAssign)
"""Where the text reads or sets an attribute: with `getattr` and `setattr`, in calls."""
_NUMBERS_AND_TEXT = frozenset((*COUNTED, Kind.SIZES, Kind.TEXT))


class Libraries:
    """The models of libraries, for one program being run."""

    builtins = builtin.NAMES

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.world: World = engine.world
        self.torch = torch = Torch(engine)
        self._imported: set[str] = set()
        # What tensors and unknown values do is asked at every step: torch's own methods, not ways to them.
        self.requires = torch.requires
        self.tensor_attribute = torch.tensor_attribute
        self.set_tensor_attribute = torch.set_tensor_attribute
        self.tensor_stream = torch.tensor_stream
        self.get_item = torch.get_item
        self.set_item = torch.set_item
        self.operator = torch.operator
        self.augmented = torch.augmented
        self.comparison = torch.comparison
        self.unknown_operator = torch.unknown_operator
        self.unknown_attribute = torch.unknown_attribute
        self.given_apart = torch.given_apart
        self.call_unknown = torch.call_unknown
        self.opaque_result = torch.opaque_result
        self.left_behind = torch.autograd.left_behind
        self.written_again = torch.autograd.written_again
        self.apply_function = torch.autograd.apply_function
        self.lost_gradient, self.bound_to_none = torch.autograd.absent.lost, torch.autograd.absent.bound
        self.name_parameters = torch.nn.name_parameters
        self.object_attribute = torch.nn.attribute
        self.object_item = torch.nn.item
        self.object_stream = torch.nn.stream
        self.call_object = torch.nn.call

    # -- names ----------------------------------------------------------------------------------------------

    def call(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call a function or class of a library by its dotted path."""
        torch = self.torch
        wrappers.collective(torch, path, args, node)
        if path != "torch.device":
            # What is a device or a type has no code that torch runs.
            given = (value for name, value in kwargs.items() if name not in ("device", "dtype"))
            self.engine.operates((*args, *given), node)
        self._may_call((*args, *kwargs.values()), node)
        known = FUNCTIONS.get(path)
        if known is not None:
            return known(torch, args, kwargs, node)
        if path.startswith("torch."):
            made = torch.call(path, args, kwargs, node)
            if made is not NO_MODEL:
                return made
        made = pretrained.model(torch, path, node)
        if made is not None:
            return made
        made = stdlib.standard_library(self.engine, path, args, kwargs, node)
        if made is not NO_MODEL:
            return made
        model = MODELS.get(path.partition(".")[0])
        if model is not None:
            made = model(torch, path, args, kwargs, node)
            if made is not NO_MODEL:
                return made
        return torch.opaque_result(path, args, kwargs, node)

    def _may_call(self, given: Iterable[Value], node: ast.AST) -> None:
        """Note that a library may run hidden functions out of a dict that it is given, on what else is in there."""
        for one in only(given, Dict):
            paths = (value.path for value in islice(only(one.items.values(), Lib), limits.LOOKED_AT))
            if path := next((path for path in paths if not visible.modelled(path)), None):
                visible.called(self.torch, path, (one,), node)

    def given_away(self, values: Iterable[Value], node: ast.AST, to: str, *, told: bool = False) -> None:
        """Note that code nobody can look into got values, and the leaves in them; `told` where it is modelled."""
        leaves.escape(self.torch, values, node, to, told=told)

    def calls_kept(self, owner: Instance, name: str, node: ast.AST) -> None:
        """Note that what an object keeps is called: it is taken for a function that knows nothing of the object."""
        if about := leaves.within(self.torch, owner):
            self.torch.world.assumptions.note("name", f"`{name}` has not the object that keeps it", node, about)

    def stepped(self, owner: Instance, begun: int, node: ast.AST) -> None:
        """Note that the `step` of an object's class has run; `begun` is the number of events before it."""
        if state_of(owner, OptimizerState) is not None:
            self.torch.optimizers.stepped(owner, begun, node)

    def left_uncalled(self, owner: Value, node: ast.Attribute) -> None:
        """Note that a statement names a step or a backward and does not call it."""
        steps = node.attr == "step" and state_of(owner, OptimizerState) is not None
        world = self.torch.world
        if (steps or (node.attr == "backward" and type(owner) is Tensor)) and not world.position.is_shown(node):
            text = world.position.notes.of(node, text_of)
            world.writer.emit(NoEffect(world.position.site(node), "uncalled", text))

    def stored(self, owner: Value, value: Value, node: ast.AST) -> None:
        """Note that an attribute or item of an object is set, as far as a model has to know."""
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            wrappers.synced(owner, node.targets[0].attr, value)
            wrappers.configured(self.torch, path_of(owner) or "", node.targets[0].attr, value)
        if (path_of(owner) or "").startswith("torch._dynamo."):
            # It may say for which sizes something is compiled.
            self.torch.world.modes.compiling.as_usual = False
        if is_unseen(owner):
            leaves.scaling_escapes(self.torch, (value,), node, (ScalerState, OptimizerState))
        elif state_of(owner, ScalerState) is not None:
            scalers.rescaled(self.torch.world, node)
        if (path := path_of(owner)) and not visible.modelled(path):
            opaque.handed_over(self.torch, value, path, node)
            self.engine.escape(value, node, path)
        elif isinstance(owner, Unknown) and visible.is_opaque(owner):
            opaque.handed_over(self.torch, value, unknowns.root(owner).name, node)

    def constant(self, value: Value) -> Value:
        """Return what a name of a library stands for."""
        return names.constant(self.world, value)

    def known_name(self, library: str, name: str) -> Value:
        """Return what a library has under a name; None where it is not known to have any."""
        return self.torch.known_name(f"{library}.{name}") if library.partition(".")[0] == "torch" else None

    def decorate(self, path: str, function: Value, node: ast.AST) -> Value:
        """Return what a decorator of a library makes of a function; None where it is not known."""
        if path in stdlib.DECORATORS:
            return self.engine.call(Lib(path), [function], {}, node)
        if path == "torch.compile":
            return wrappers.compile_(function, {})
        if path in torchfunctions.GRAD_MODES:
            return Wrapped(torchfunctions.GRAD_MODES[path], function)
        return function if path in _TRANSPARENT else None

    def hides(self, path: str) -> bool:
        return "." in path and not visible.base_modelled(path)

    def runs_unseen(self, value: Value, node: ast.AST) -> None:
        """Note that an operation may run code of a value that is not visible, which is taken to leave recording on."""
        if name := self._may_switch(value):
            # What calls give is told apart by no name: one may have given a loader, and another one.
            given = type(value) is Unknown and unknowns.root(value).origin.called is not None
            visible.leaves_recording_on(self.torch, name, node, read=not given)

    def gives_data(self, value: Unknown | Lib, node: ast.AST) -> None:
        """Note that the parts of a value which hidden code gives are taken for data, with no graph that they share."""
        name = self._may_switch(value)
        # What Python gives has no import's name: the lines of a file, an option that is taken apart.
        if name and any(name.partition(".")[0] == path.partition(".")[0] for path in self._imported):
            text = f"`{name}` gives no parts of one graph"
            self.world.assumptions.note("batches", text, node, NOTHING, read=True)

    def _may_switch(self, value: Value) -> str:
        """Return the name of a value whose code is not visible and may switch recording off; an empty one of others."""
        if type(value) is Unknown and _is_known(value):
            return ""
        name = self._unseen(value)
        # That of an element, `shape[...]`, is no path.
        return name if "[...]" not in name or self.hides(name.replace("[...]", "")) else ""

    def imported(self, path: str, node: ast.AST) -> None:
        """Note that a module is run that is not visible; what is imported before anything is made only defines things,
        unless it is a part of the program itself.
        """
        own = path.startswith("relative.")
        library = path if own else path.partition(".")[0]
        late = own or self.world.writer.has_leaves or self.world.modes.stretch.number
        if late and library not in self._imported and self.hides(f"{path}.__name__"):
            visible.leaves_recording_on(self.torch, path.removeprefix("relative"), node)
        self._imported.add(library)

    def trusted_decorator(self, decorator: Value, function: Value, node: ast.AST) -> None:
        """Note that a decorator which is not visible is taken to call the function that it is given."""
        if name := self._may_switch(decorator):
            visible.leaves_recording_on(self.torch, name, node)
        path = path_of(decorator) or getattr(decorator, "name", "")
        decorated = function_of(function)
        if decorated is not None and not visible.decorator_modelled(path):
            self.world.assumptions.decorated[id(decorated.node)] = path
            self.perhaps_registered(function, path, decorated.module, decorated.node)

    def perhaps_registered(self, made: Value, by: str, module: Module, node: ast.AST) -> None:
        """Note that code which is not visible has a function or a class that it is made with and that nothing else in
        the file names: it is there to be run later.
        """
        tree = module.source.tree if module.source is not None else None
        if "." in by and tree is not None and getattr(node, "name", "") not in module.notes.of(tree, named_in):
            opaque.handed_over(self.torch, made, by, node)

    def unseen_maker(self, maker: Value) -> str:
        """Return the name of a metaclass, or of a decorator of classes, that is not visible; an empty one of others."""
        name = self._unseen(maker)
        return "" if visible.decorator_modelled(name) else name

    def unseen_type(self, value: Value) -> str:
        """Return a name for the type of what is not visible, of a class with a hidden base its metaclass; an empty one
        of anything else.
        """
        name = self._unseen(value) if isinstance(value, (Class, Lib)) else ""
        return f"{name}.__class__" if name else ""

    def _unseen(self, value: Value) -> str:
        """Return the name of the code behind a value that is not visible; an empty one where all of it is."""
        value = user_class(value) or value
        if isinstance(value, Class):
            if any(only(cls.bases, Unknown) for cls in value.mro()):
                return f"{value.name}'s base class"
            names = [value.unseen_maker(), *value.library_bases()]
        else:
            names = [unknowns.root(value).name if isinstance(value, Unknown) else path_of(value)]
        return next(filter(self.hides, names), "")

    def hidden_descriptor(self, held: Lib | Unknown, owner: Value, node: ast.AST) -> None:
        """Note that a method or a descriptor which is not visible has the object that reads or sets it."""
        name = held.path if type(held) is Lib else self._may_switch(held)
        if name and not visible.modelled(name):
            opaque.handed_over(self.torch, owner, name, node)

    def read_method(self, function: Function, owner: Value, node: ast.AST) -> None:
        """Note that an object reads or sets a method of its class: what a hidden decorator has made of it may run."""
        name = self.world.assumptions.decorated.get(id(function.node))
        source = self.world.position.frames[-1].module.source
        if name is None or source is None or type(node) not in _READS:
            return
        if id(node) not in self.world.position.notes.of(source.tree, called_in):
            opaque.handed_over(self.torch, owner, name, node)

    def trusted_context(self, manager: Unknown | Lib, node: ast.AST) -> None:
        """Note that a context manager which is not visible is taken to leave recording on in the block that begins."""
        match manager:
            case Lib(path=path):
                whole = path
            case Unknown(name=path):
                whole = unknowns.root(manager).name
        if "." in whole and not visible.modelled(whole):
            self.world.assumptions.enter(manager, "context", f"`{path}` leaves recording as it is", node)

    def trusted_store(self, keeper: Value, value: Value, node: ast.AST) -> None:
        """Note that code which is not visible is taken to keep what is stored in its object as it is."""
        held = carry.tensors_in(value, into_objects=False)
        about = dict.fromkeys(one.node for one in held if one.node is not None and not carry.is_leaf(one))
        name = self._unseen(keeper) if about else ""
        if name:
            self.world.assumptions.note("effect", f"`{name}` keeps what is stored as it is", node, tuple(about))

    def trusted_keys(self, owner: Dict, options: Value, node: ast.AST) -> None:
        """Note that what is stored under keys which nobody knows is taken to leave what a dict holds under others."""
        known = (owner.items[key] for key in [*owner.items][::-1] if type(key) is str or type(key) is int)
        held = carry.tensors_in(tuple(islice(known, limits.LOOKED_AT)), into_objects=False)
        about = dict.fromkeys(one.node for one in held if one.node is not None and not carry.is_leaf(one))
        if about:
            name = path_of(options) or getattr(options, "name", "")
            self.world.assumptions.note("effect", f"`{name}` leaves what is stored", node, tuple(about))

    def trusted_name(self, named: Value, value: Value, node: ast.AST) -> None:
        """Note that what is stored in an attribute by a name that nobody knows is taken for none that is read."""
        if any(one.borne() != "no" for one in carry.tensors_in(value, into_objects=False)):
            name = path_of(named) or getattr(named, "name", "")
            self.world.assumptions.note("effect", f"`{name}` names no attribute that is read", node)

    def trusted_exceptions(self, kinds: Iterable[Value], node: ast.AST) -> None:
        """Note that exceptions whose classes are not visible are taken to be raised nowhere."""
        for kind in kinds:
            if name := self._unseen(kind):
                self.world.assumptions.note_exception(name, node)

    def chosen(
        self, index: Value, entries: Sequence[tuple[Hashable, Value]], node: ast.AST, *, by_name: bool = False
    ) -> Value:
        """Return which of several values, by their keys, an index chooses that nobody knows."""
        return tables.chosen(self.engine, index, entries, node, by_name=by_name)

    def taken_as_first(self, index: Value, first: Value, node: ast.AST, others: Sequence[Value] = ()) -> None:
        """Note that what an index chooses that nobody knows is taken for one of several values that are alike; and for
        none of the `others` that another such index has chosen before.
        """
        if not tables.taken_as_first(self.engine, index, first, node) and others:
            held = tuple(others[: limits.LOOKED_AT])
            tables.taken_for_another(self.engine, index, leaves.within(self.torch, held), node)

    def place(self, index: Value, items: Sequence[Value], node: ast.AST, *stored: Value) -> int | None:
        """Return which place of a list an index is on this path that nobody knows; None where it does not matter."""
        return tables.place(self.engine, index, items, node, *stored)

    def overwritten(self, owner: Dict, index: Value, value: Value, node: ast.AST) -> Hashable:
        """Return the key of the entry that a value is stored over on this path; None where it is none of them."""
        return tables.overwritten(self.engine, owner, index, value, node)

    def drawn(self, items: list[Value], node: ast.AST) -> list[Value]:
        """Return some values in an order that nobody knows."""
        return tables.drawn(self.engine, items, node)

    def of_base(self, owner: Instance, name: str) -> Value:
        """Return a part of what a module has from a library's model that its class derives from; None without one."""
        base = owner.attrs.get(pretrained.BASE)
        return base.part_named(name) if isinstance(base, Unknown) else None

    def trusted_bases(self, cls: Class, bases: list[str], owner: Instance, node: ast.AST) -> None:
        """Note that a base class which is not visible is taken to add nothing to a class."""
        if pretrained.BASE in owner.attrs:
            bases = []
        hidden = next((base for base in bases if not visible.base_modelled(base)), "") or cls.unseen_maker()
        if hidden or cls.opaque:
            text = f"`{hidden or 'its base class'}` changes nothing of what `{cls.name}` does"
            self.world.assumptions.note("base", text, node, leaves.within(self.torch, owner))

    def call_wrapped(self, wrapped: Wrapped, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call a function under a decorator that changes what it does to graphs."""
        return torchfunctions.call_wrapped(self.torch, wrapped, args, kwargs, node)

    def is_instance(self, value: Value, kind: Value) -> bool | None:
        """Return what `isinstance` would; None where nobody knows. What a backward began at is a tensor, no number."""
        if type(value) is Unknown:
            named = builtin.as_kind(kind)
            if (named == "torch.Tensor" or unknowns.is_plain(named)) and opaque.walked(self.torch, value):
                return named == "torch.Tensor"
        return names.is_instance(value, kind)

    decorated = staticmethod(contexts.decorated)
    expecting = staticmethod(contexts.expecting)

    # -- objects --------------------------------------------------------------------------------------------

    def class_method(self, cls: Class, name: str) -> Value:
        """Return a method that a user's class has from a framework's; None where it has none of that name."""
        return lightning.class_method(cls, name)

    def is_module_class(self, cls: Class) -> bool:
        """Return whether objects of a class are modules: with a base that is not visible, those that have a forward."""
        bases = cls.library_bases()
        if any(self.torch.nn.is_module_base(base) for base in bases):
            return True
        hidden = cls.opaque or not all(map(visible.base_modelled, bases))
        return hidden and cls.defines("forward") and not cls.defines("__call__")

    def prepare_object(self, owner: Instance, bases: list[str]) -> None:
        if owner.module:
            owner.attrs["training"] = True
            self.torch.nn.made.append(owner)
        for base in bases:
            if self.torch.nn.is_class(base) or base.startswith(("torch.optim.", "torch.distributions.")):
                owner.lib = base
            elif base in _CONTAINER_BASES and not owner.module:
                owner.inner = _CONTAINER_BASES[base]()
            elif base.startswith("builtins.") and base[9:] in exceptions.NAMES:
                owner.args = []
            elif base in processes.CLASSES:
                processes.prepare(owner)

    def construct_base(self, owner: Instance, bases: list[str], args: Args, kwargs: Kwargs, node: ast.AST) -> None:
        """Run the constructor of the library base of a user's class."""
        inner = owner.inner
        if inner is not None:
            self.engine.call(methods.attribute(self.engine, inner, "__init__", node), args, kwargs, node)
            return
        if owner.args is not None:
            owner.args = args
            return
        for base in bases:
            if base in processes.CLASSES:
                processes.construct(owner, args, kwargs)
                return
            if owner.module and (inherited := pretrained.inherited(self.torch, base, node)) is not None:
                owner.attrs[pretrained.BASE] = inherited
                return
            if self.torch.nn.is_class(base):
                self.torch.nn.construct_into(owner, base, args, kwargs, node)
                return
            if base.startswith("torch.optim.") and ".lr_scheduler" not in base:
                self.torch.optimizers.initialize(owner, args, kwargs, node)
                return
            if base.startswith("torch.distributions."):
                self.torch.distributions.construct_into(owner, base, args, kwargs, node)
                return

    def instantiate_special(self, cls: Class, bases: list[str], args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Classes whose objects are something else: enums, exceptions; None for the usual ones."""
        if cls.members is not None:
            return records.member_of(self.engine, cls, positional(args, 0), node)
        if any(base in torchfunctions.PACKING for base in bases):
            return torchfunctions.packing(self.torch, args, kwargs, node)
        if cls.kind == "namedtuple":
            return records.named_tuple(self.engine, cls, args, kwargs, node)
        return None

    def object_has(self, owner: Instance, name: str, node: ast.AST) -> bool | None:
        return builtin.object_has(self.engine, owner, name, node)

    def lacks(self, owner: Tensor | Instance, name: str) -> bool:
        """Return whether a value of torch's has no attribute of a name, unless the program gives it one."""
        if isinstance(owner, Tensor):
            return classes.tensor_lacks(name)
        layer, cls = owner.layer, owner.cls
        if owner.open or (layer is not None and (layer.more or layer.wrapped)):
            return False
        if layer is not None and layer.added and sharding.adds(name):
            return False
        if (compiled := state_of(owner, CompiledState)) is not None:
            # What it is asked for beside its own is looked for in the model.
            model = compiled.model
            return isinstance(model, Instance) and not model.has(name) and self.lacks(model, name)
        return classes.lacks(owner.lib, name) if cls is None else _bases_lack(cls, name)

    def lacks_name(self, path: str, name: str) -> bool:
        """Return whether a module of torch has nothing of a name, in the version that was measured."""
        return classes.torch_lacks(path, name)

    def is_method(self, path: str) -> bool:
        """Return whether a dotted path is that of a method of a class of torch."""
        return classes.is_method(path)

    def object_length(self, owner: Value, node: ast.AST) -> Value:
        length = loaders.length(self.torch, owner, node)
        return builtin.length_unknown(self.engine, owner, node) if length is None else length

    def length_of(self, owner: Instance, node: ast.AST) -> Unknown:
        """Return the unknown that says how long an object is."""
        return loaders.length_of(self.torch, owner, node)

    def only_shown(self, node: ast.AST) -> bool:
        return builtin.only_shown(self.engine, node)

    def copy_of(self, value: Value, node: ast.AST, *, shallow: bool = False) -> Value:
        """Return what copy.deepcopy makes, new objects and leaves all the way down; copy.copy a new object alone."""
        return Copier(self.torch, node, shallow=shallow).of(value)

    def bare_object(self, cls: Value) -> Instance:
        match cls:
            case Class() if not cls.opaque and all(map(self.torch.nn.is_plain_base, cls.library_bases())):
                return self.engine.new_object(cls)
            case Lib() if self.torch.nn.is_class(cls.path):
                made = Instance(None, cls.path, module=True)
                self.prepare_object(made, [])
                return made
        raise TypeError(cls)

    takes_after = staticmethod(copies.take_after)


__all__ = ["Libraries", "has_model"]


def _bases_lack(cls: Class, name: str) -> bool:
    """Return whether no base that a class has from torch has an attribute of a name, and all bases are known."""
    bases = cls.library_bases()
    return bool(bases) and not cls.opaque and all(base in nnlib.BARE for base in bases) and classes.module_lacks(name)
