"""What nobody can look into: its results may carry a graph, and may keep what they were given."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from tapecheck.interpret import limits
from tapecheck.interpret.library import arguments, leaves, scalers, visible
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.objects import carry, methods, unknowns
from tapecheck.interpret.state import cuts_of, merge_cuts
from tapecheck.interpret.values import (
    COUNTED,
    INERT,
    MORE_KEYWORDS,
    NO_MODEL,
    Args,
    Bound,
    Function,
    Instance,
    Kept,
    Kind,
    Kwargs,
    Lib,
    List,
    Mark,
    Native,
    Origin,
    Tensor,
    Trust,
    Unknown,
    Value,
    Whole,
    Wrapped,
    argument,
    behaviour,
    bound_function,
    concrete,
    expression,
    function_of,
    is_constant,
    is_module,
    listed,
    may_carry,
    only,
    positional,
    requires_any,
    unpacked,
)
from tapecheck.interpret.values.vocabulary import ANY_NAME
from tapecheck.source.skipped import TEXT
from tapecheck.tape import NOTHING, CutKind, Escape, Fact, ModeSet, Node
from tapecheck.torchfacts import classes

NO_GRAPH_ATTRIBUTES = frozenset((
    "shape", "device", "dtype", "is_cuda", "ndim", "layout", "is_leaf", "requires_grad", "grad_fn", "names",
    "itemsize", "nbytes", "is_sparse", "_version", "output_nr", "is_quantized",
))  # fmt: skip
_GENERIC_DATA = ("numpy.", "PIL.", "torchvision.transforms", "torchvision.datasets", "sklearn.", "pandas.", "scipy.",
                 "cv2.",
                 "random.", "time.", "datetime.", "os.", "json.", "pickle.", "argparse.", "pathlib.", "glob.", "yaml.",
                 "matplotlib.", "logging.", "wandb.", "shutil.", "re.", "string.", "gym.", "gymnasium.",
                 *leaves.SETTINGS)  # fmt: skip
_CHANCE = ("random.", "numpy.random.", "secrets.")
OF_TENSORS = ("clone", "detach", "item")
"""What is called to store a value: what is no tensor may not have it."""
_PURE = frozenset((
    "startswith", "endswith", "lower", "upper", "strip", "split", "get", "isdigit", "find", "replace", "count",
))  # fmt: skip
_LOOKS_UP = frozenset(("get_buffer", "get_parameter", "get_submodule"))
"""Methods of a module that give a part of it by its name."""
_LISTING = ("children", "modules", "named_children", "named_modules")
"""Methods of a module that give all that it is made of."""
_COMPUTES_NOTHING = _LOOKS_UP | frozenset((
    "_load_from_state_dict", "_save_to_state_dict", "add_module", "extra_repr", "load_state_dict", "register_buffer",
    "register_module", "register_parameter", "set_extra_state", "set_submodule",
))  # fmt: skip
"""Methods of a module that run nothing of it, and give at most the part whose name they are told."""


def unknown_operator(torch: Torch, op: str, left: Value, right: Value, node: ast.AST) -> Value:
    """Return an operator on unknown values: an op where one of them carries a graph, else unknown."""
    counted = data = True
    assumed = False
    for value in (left, right):
        if isinstance(value, Unknown):
            if value.node is not None:
                return torch.operator(op, left, right, node)
            counted = counted and value.kind in COUNTED
            data = data and value.trust.data
            assumed = assumed or value.trust.assumed
        elif isinstance(value, List):
            # Nobody knows what is in it once it has been stored to.
            data = False
    cuts = cuts_of(left, right)
    result = Unknown.number(cuts) if counted else Unknown("result", None, cuts)
    result.trust = Trust(data, assumed)
    result.origin = Origin(op, (left, right))
    unknowns.usually_computed(result, op, left, right)
    return result


def _without_graph(owner: Unknown, name: str) -> Value:
    """Return an attribute of what may be a tensor that has no graph, whatever the tensor has."""
    child = owner.part_named(name)
    if isinstance(child, Unknown):
        child.node, child.oldest = None, None
        child.trust = child.trust._replace(data=name != "grad")
        if name == "shape":
            child.kind = Kind.SIZES
    return child


def unknown_attribute(torch: Torch, owner: Unknown, name: str, node: ast.AST) -> Value:
    """Return an attribute of an unknown value; those that never carry a graph carry none here either."""
    if owner.node is not None and name == "grad":
        # What a backward adds to it, whoever reads it uses.
        text = f"`{owner.name}` has no gradient of its own"
        torch.world.assumptions.note("gradient", text, node, (owner.node,))
    if owner.node is not None and (owner.asked.attrs is None or name not in owner.asked.attrs):
        if name == "data":
            result = Unknown(owner.name, None, torch.world.graph.cut("data", node, owner, name=owner.name))
            result.take_for_data()
            return result
        if name in NO_GRAPH_ATTRIBUTES or name in ("grad", "size"):
            return _without_graph(owner, name)
    if name in OF_TENSORS and perhaps_a_number(torch, owner):
        torch.world.omissions.supposed.add(torch.world.position.span(node))
    if owner.kind in COUNTED and name not in ("item", "mean"):
        # NumPy's numbers and arrays have these two.
        methods.expects_tensor(torch.machine, name, node)
    part = owner.part_named(name)
    if isinstance(part, Unknown) and torch.facts.op(name) is None and name not in _METHODS:
        given_apart(torch, owner, part, node)
    return part


def _hidden_maker(torch: Torch, value: Unknown) -> Node | None:
    """Return the node of a value where code that was handed in made it, or any other that is not visible. A layer of
    torch whose class alone is unknown gives tensors, and so is presumed to do a model that the program has made.
    """
    ledger = torch.world.writer.ledger
    made = ledger.nodes.get(value.node) if value.node is not None else None
    if made is None or made.linked != "yes":
        return made
    used = (ledger.leaves[one] for one in made.inputs if one in ledger.leaves)
    return made if any(leaf.many and not leaf.made for leaf in used) else None


def perhaps_a_number(torch: Torch, value: Value) -> bool:
    """Return whether a value may be a number: torch made no graph for it, and no backward began at it."""
    if isinstance(value, Tensor):
        return value.graph != "yes" and value.noted(Mark.PERHAPS_A_NUMBER) is True
    if not isinstance(value, Unknown):
        return is_constant(value)
    if value.borne() == "yes" and _hidden_maker(torch, value) is None:
        return False
    return not walked(torch, value)


def walked(torch: Torch, value: Unknown) -> bool:
    """Return whether a backward began at a value."""
    walks = torch.world.writer.ledger.traversals.values() if value.node is not None else ()
    return any(value.node in walk.backward.root_nodes for walk in walks)


def given_apart(torch: Torch, whole: Unknown, part: Unknown, node: ast.AST) -> None:
    """Give a part of what unknown code made a node of its own: that it has the graph of the whole is taken for granted
    where that was handed in.
    """
    made = _hidden_maker(torch, whole)
    if made is None or part.node != whole.node:
        return
    keeps: Fact = "no" if made.keeps == "no" else "yes"
    exists, certain = part.requires(), part.trust.certain
    part.stands_at(torch.world.graph.build(made.op, node, [part], keeps=keeps, linked=made.linked, exists=exists))
    part.trust = part.trust._replace(certain=certain)
    if made.linked == "yes" and part.node is not None:
        text = f"each part of what `{made.op}` gives has a graph"
        torch.world.assumptions.note("part", text, node, (part.node,))


def opaque_result(torch: Torch, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the result of a call that cannot be looked into: it may carry the graph of what went in."""
    _assume(torch, name, args, kwargs, node)
    torch.world.modes.compiling.breaks += 1
    given = leaves.escape(torch, (*args, *kwargs.values()), node, name)
    values = torch.tensors((*args, *kwargs.values()))
    acts = torch.world.position.is_discarded(node) or name == TEXT
    if acts and not name.startswith(_GENERIC_DATA):
        _given_away(torch, values, node, name)
    result = opaque(torch, name, values, node, linked="may", keeps="may")
    if result.node is None and values and not name.startswith(_GENERIC_DATA) and torch.world.modes.grad_mode != "no":
        # Data goes into models as well, and `odeint(func, y0, t)` calls what has a graph that the values need not have.
        # A function of torch's own has no model but the one that it is given.
        if not name.startswith("torch.") or _computes_any(args, kwargs) or requires_any(values) != "no":
            result.trust = result.trust._replace(data=False, returned=True)
    result.kept = Kept(given, values=_led_to(name, args, kwargs), walked=_walked(torch, values))
    if "." in name:
        result.origin = result.origin._replace(called=Lib(name))
    if not name.startswith((*_GENERIC_DATA, *leaves.LOOKING)):
        for value in values:
            torch.world.graph.hand_over(value)
        _reworked(torch, (*args, *kwargs.values()), node, name)
    return result


def _walked(torch: Torch, given: Iterable[Value]) -> int:
    """Return how many backwards have run before a call; -1 where it is given what may have an older graph."""
    walked = len(torch.world.writer.ledger.traversals)
    return -1 if any(unknowns.made_since(one, walked) is False for one in given) else walked


def _led_to(path: str, args: Args, kwargs: Kwargs) -> tuple[Value, ...]:
    """Return what whoever has the result of a function of Python's own can come to: what it is made of."""
    if path.partition(".")[0] not in sys.stdlib_module_names or path.startswith((*_GENERIC_DATA, *leaves.LOOKING)):
        return ()
    return tuple(one for one in (*args, *kwargs.values()) if not is_constant(one))


def _assume(torch: Torch, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """Note what is taken for granted of a function by its path."""
    if path == TEXT:
        visible.skipped(torch, args, node, anything=bool(kwargs))
        visible.may_freeze(args)
    elif visible.was_saved(path):
        visible.leaves_recording_on(torch, path, node)
    elif "." in path and not visible.modelled(path):
        _left_alone(torch, path, (*args, *kwargs.values()), node)
    elif "." not in path:
        carry.hand_over(torch.machine, (*args, *kwargs.values()))


def _left_alone(torch: Torch, name: str, given: Sequence[Value], node: ast.AST) -> None:
    """Note that code which is not visible is taken to leave what it is given as it is, up to what it may freeze."""
    visible.called(torch, name, given, node)
    if torch.world.position.is_discarded(node):
        visible.may_freeze(given)


def handed_over(torch: Torch, owner: Value, to: str, node: ast.AST) -> None:
    """Note that unknown code has an object."""
    visible.called(torch, to, (owner,), node)
    leaves.escape(torch, (owner,), node, to)
    _reworked(torch, (owner,), node, to)


def _reworked(torch: Torch, values: Iterable[Value], node: ast.AST, to: str) -> None:
    """Unknown code can come to what the objects that it is given hold: it may detach, empty or store that anew, and run
    a backward through it.
    """
    found: list[Tensor | Unknown] = []
    seen: set[int] = set()
    for value in values:
        _rework(torch, value, node, to, limits.ESCAPE_DEPTH, seen, found)
    if found:
        torch.machine.escape(tuple(found), node, to)


def _rework(
    torch: Torch, value: Value, node: ast.AST, to: str, depth: int, seen: set[int], found: list[Tensor | Unknown]
) -> Value:
    """Return what may stand in the place of a value that unknown code can come to; what had a graph is `found`."""
    if depth == 0 or id(value) in seen or type(value) in INERT:
        return value
    if isinstance(value, Bound):
        _rework(torch, value.receiver, node, to, depth, seen, found)
        return value
    if isinstance(value, (Function, Native, Wrapped)):
        # What it reads stays what it is, unless it is called.
        seen.add(id(value))
        found += leaves.graphs_behind(value, depth)
        return value

    def left(one: Value) -> Value:
        return _left(torch, one, node, to, depth - 1, seen, found)

    if isinstance(value, tuple):
        return tuple([left(one) for one in value])
    owner = behaviour(value)
    if owner is value:
        seen.add(id(value))
        owner.replace_held(left)
    return value


def _left(
    torch: Torch, value: Value, node: ast.AST, to: str, depth: int, seen: set[int], found: list[Tensor | Unknown]
) -> Value:
    if not may_carry(value):
        return _rework(torch, value, node, to, depth, seen, found)
    if value.node is None or value.is_leaf:
        torch.world.graph.hand_over(value)
        return value
    found.append(value)
    left = opaque(torch, to, [value], node, linked="may", keeps="may")
    left.name = value.name
    left.trust = left.trust._replace(certain=False)
    return left


def _computes(value: Value) -> bool:
    """Return whether a value is a module or a function, which whoever gets it may call."""
    if isinstance(value, Bound):
        value = value.receiver
    return isinstance(value, Function) or is_module(value)


def _computes_any(args: Args, kwargs: Kwargs) -> bool:
    """Return whether a call is given a module or a function, or a tuple with one."""
    return any(_computes(part) for arg in (*args, *kwargs.values()) for part in listed(arg))


def opaque(
    torch: Torch,
    name: str,
    values: Sequence[Tensor | Unknown],
    node: ast.AST,
    *,
    linked: Fact,
    keeps: Fact,
    shared: bool = False,
) -> Unknown:
    world = torch.world
    carriers = [value for value in values if value.node is not None]
    cuts = cuts_of(*[value for value in values if value.node is None])
    result = Unknown(f"{name}()", None, cuts)
    if carriers and world.modes.grad_mode != "no":
        exists = requires_any(carriers)
        built = world.graph.build(
            name, node, carriers, keeps=keeps, linked=linked, cuts=cuts, exists=exists, shared=shared
        )
        result.node, result.oldest = built.node, built.oldest
        result.trust = result.trust._replace(certain=linked == "yes" and exists == "yes")
    elif carriers:
        for value in carriers:
            result.cuts = merge_cuts(
                world.graph.cut("no_grad", node, value, name=getattr(value, "name", "")), result.cuts
            )
        result.take_for_data()
    else:
        result.trust = result.trust._replace(
            data=name.startswith(_GENERIC_DATA) or (bool(values) and requires_any(values) == "no")
        )
        if name.startswith(_CHANCE):
            unknowns.drawn(result)
    return result


def _taken(torch: Torch, function: Unknown, args: Args, kwargs: Kwargs) -> Sequence[Tensor | Unknown]:
    """Return what a call may let require grad: nothing where it only looks at it."""
    return () if leaves.only_looks(torch, function) else torch.tensors((*args, *kwargs.values()))


def _call_any(torch: Torch, function: Unknown, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """Note that any method of an object may be called, `getattr(trainer, name)()`; what is given tensors is a layer."""
    if function.name == ANY_NAME and not torch.tensors((*args, *kwargs.values())):
        for owner in function.kept.values:
            handed_over(torch, owner, ANY_NAME, node)


def call_unknown(torch: Torch, function: Unknown, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call an unknown value: a method of an unknown object, an unknown model, or anything at all."""
    owner, name = function.part_of.owner, function.part_of.attr
    keywords = kwargs.pop(MORE_KEYWORDS, None)
    more = keywords is not None
    kwargs.update(unpacked(keywords))
    if owner is not None and owner.node is None and _is_pure(name, args, kwargs):
        return _same_answer(torch, function, owner, args, node)
    leaves.held(torch, function, node)
    _call_any(torch, function, args, kwargs, node)
    given = leaves.escape(torch, (*args, *kwargs.values()), node, function.name, function)
    torch.world.graph.lend(_taken(torch, function, args, kwargs))
    whole = unknowns.root(function)
    passed = id(whole) in torch.world.assumptions.passed
    # What a method of a model gives of its parts, `model.children()`, is as visible as the model.
    source = (whole.part_of.within or whole).name
    # What nothing defines is code that is not visible, wherever the program does run.
    missing = id(whole) in torch.world.omissions.missing
    hidden = missing or ("." in source and not passed and not visible.acts_as_known(source))
    if not hidden:
        _may_run(torch, source, given, (*args, *kwargs.values()), node)
    known = _called_by_name(torch, function, hidden, args, kwargs, node)
    if known is not NO_MODEL:
        return known
    _may_clear(torch, function, whole, node)
    _meet(torch, function, node)
    computed = _computed(torch, function, given, args, kwargs, more, node)
    computed.origin = computed.origin._replace(called=function)
    if passed:
        torch.world.assumptions.passed[id(computed)] = computed
    if computed.node is not None:
        graphs = (*whole.kept.graphs[-limits.MOST_MADE :], (function, computed.node))
        whole.kept = whole.kept._replace(graphs=graphs)
    elif computed.trust.returned and not any(one is function for one in whole.kept.unseen):
        whole.kept = whole.kept._replace(unseen=(*whole.kept.unseen[-limits.MOST_MADE :], function))
    return computed


def _may_run(torch: Torch, path: str, reached: tuple[int, ...], given: Sequence[Value], node: ast.AST) -> None:
    """Note that Python's own library may run a function of the program that it is given, on what it is given besides:
    executors and pools do.
    """
    others = [one for one in given if function_of(one) is None and bound_function(one) is None]
    if len(others) == len(given) or path.partition(".")[0] not in sys.stdlib_module_names:
        return
    visible.called(torch, path, others, node)
    if reached:
        text = f"`{path}` runs nothing that changes what it is given"
        torch.world.assumptions.note("effect", text, node, reached)


def _called_by_name(torch: Torch, function: Unknown, hidden: bool, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a method as its name says, and note what is taken for granted of a `hidden` one; NO_MODEL of any other."""
    owner, name, leaves_kept = function.part_of.owner, function.part_of.attr, unknowns.root(function).kept.leaves
    by_name = owner is not None and not (hidden and _is_given_values(torch, name, args, kwargs))
    if hidden:
        about = leaves_kept or (_stepped(torch, function, args, kwargs) if by_name else None)
        if owner is not None and about is not None:
            torch.world.assumptions.note("name", f"`{function.name}` does what its name says", node, about)
        whole = unknowns.root(function)
        if visible.was_saved((whole.part_of.within or whole).name) and not torch.nn.is_method(name):
            # What was saved to be called is a model, or a part of one: a forward pass does nothing to what it is given.
            text = f"`{function.name}` computes what it returns, and does no more"
            torch.world.assumptions.note("result", text, node)
            visible.leaves_recording_on(torch, function.name, node)
        else:
            _left_alone(torch, function.name, (*args, *kwargs.values()), node)
    known = _unknown_method(torch, owner, name, args, kwargs, node) if owner is not None and by_name else NO_MODEL
    if hidden and known is not NO_MODEL:
        _by_name(torch, function, node)
    return known


def _stepped(torch: Torch, function: Unknown, args: Args, kwargs: Kwargs) -> tuple[int, ...] | None:
    """Return the leaves that the `step` of an object from hidden code can come to, an optimizer's or an environment's:
    those of hidden models, and what hidden code was given; empty where it may be any, None where there is none, or the
    method is none that acts.
    """
    if function.part_of.attr not in _ACTING:
        return None
    given = (*args, *kwargs.values())
    if function.part_of.attr != "step" or _computes_any(args, kwargs) or any(map(_may_lead, given)):
        return NOTHING
    known = torch.world.graph.leaf_tensors
    reached = [number for number, leaf in known.items() if leaf.noted(Mark.OPAQUE) or number in torch.autograd.escaped]
    return tuple(reached) if reached or not known else None


def _may_lead(value: Value) -> bool:
    """Return whether a value that hidden code is given may lead to parameters: no number and no text does."""
    return not is_constant(value) and not (may_carry(value) and value.borne() == "no")


def _may_clear(torch: Torch, function: Unknown, model: Unknown, node: ast.AST) -> None:
    """Note that a method of a model's own, called for its effect alone, may do something to the model's gradients."""
    leaf = model.kept.leaf
    if function is model or leaf is None or leaf.node is None or not torch.world.position.is_discarded(node):
        return
    if torch.world.writer.ledger.traversals:
        torch.world.assumptions.note("name", f"`{function.name}` does what its name says", node, (leaf.node,))


def _is_pure(name: str, args: Args, kwargs: Kwargs) -> bool:
    """Return whether a method's call gives the same each time: one of text or settings, with constants alone."""
    return name in _PURE and all(map(is_constant, args)) and not kwargs


def _same_answer(torch: Torch, function: Unknown, owner: Unknown, args: Args, node: ast.AST) -> Unknown:
    """Return the result of a method of text or settings, which answers the same question the same way."""
    torch.machine.library.gives_data(owner, node)
    key = (expression(owner), function.part_of.attr, *args)
    result = unknowns.remembered(torch.world, key, f"{function.name}()")
    result.origin = Origin(function.part_of.attr, (owner, *args))
    if function.part_of.attr == "get" and owner is torch.world.knowledge.known.get("os.environ"):
        unknowns.usually(result, positional(args, 1))
    usual = unknowns.default_of(owner)
    if isinstance(usual, str):
        # A method of text makes of what an option is by default what it makes of any text.
        with suppress(TypeError, ValueError, AttributeError):
            made = getattr(usual, function.part_of.attr)(*args)
            if isinstance(made, (str, int)):
                unknowns.usually(result, made)
    return result


def _is_given_values(torch: Torch, name: str, args: Args, kwargs: Kwargs) -> bool:
    """Return whether a method is given a model or tensors: those of tensors and models of that name are not, and of
    what takes a loss, nobody knows more than the name.
    """
    given = (*args, *kwargs.values())
    return name in _METHODS and (
        any(map(is_module, given))
        or any(isinstance(one, Tensor) or one.node is not None for arg in given for one in torch.tensors(arg))
    )


def _by_name(torch: Torch, function: Unknown, node: ast.AST) -> None:
    """Note that a method of an object that is not visible was taken for torch's of that name."""
    owner = function.part_of.owner
    if function.part_of.attr not in _ACTING and owner is not None:
        reads = _METHODS.get(function.part_of.attr) in (_asked, _taken_out, _set_mode)
        about = NOTHING if owner.node is None or reads else (owner.node,)
        torch.world.assumptions.note("name", f"`{function.name}` does what its name says", node, about)


def _meet(torch: Torch, function: Unknown, node: ast.AST) -> None:
    """Note that an object is called which has computed graphs in other calls: it may have them still, and walk them.

    The same call again is taken for another forward pass, which walks nothing.
    """
    if torch.nn.is_method(function.part_of.attr):
        return
    kept = unknowns.root(function).kept
    nodes = tuple(made for by, made in kept.graphs if by is not function)
    unseen = any(by is not function for by in kept.unseen)
    if nodes or unseen:
        at = torch.world.position.site(node)
        torch.world.writer.emit(Escape(at, nodes, function.name, open=unseen, built=True))


def _computed(
    torch: Torch, function: Unknown, given: tuple[int, ...], args: Args, kwargs: Kwargs, more: bool, node: ast.AST
) -> Unknown:
    """Return what a call gives of which nothing is known; with `more` it has keywords that are not seen."""
    passed = (*args, *kwargs.values())
    for arg in passed:
        behaviour(arg).given_away()
    values = torch.tensors(passed)
    looks = leaves.only_looks(torch, function)
    if not looks:
        torch.nn.ran(function, args, node)
    for model in (function, _run_by_name(function)):
        leaf = None if model is None else model.kept.leaf
        if model is not None and leaf is not None and _is_run(torch, model, leaf, values, more, node):
            return _output(torch, model, leaf, values, node)
    owner, whole = function.part_of.owner, _model_run(torch, function)
    if owner is not None and (function.node is not None or owner.cuts):
        values.append(owner)
    keeps: Fact = "may"
    trained = _trained(whole)
    if values and trained is not None:
        # What a part of a model makes of values comes out of its parameters as well, as far as anybody knows.
        values.insert(0, trained)
        keeps = "yes"
    result = opaque(torch, function.name, values, node, linked="may", keeps=keeps)
    if not args:
        result.part_of = Whole(within=whole)
    elif function.part_of.attr in _LOOKS_UP:
        result.part_of = Whole(within=function.part_of.within)
    result.trust = _trust_in(torch, function, values, passed, result)
    made_of = [*values, owner] if owner is not None and owner.trust.returned else values
    result.kept = Kept(given, values=unknowns.root(function).kept.values, walked=_walked(torch, made_of))
    if _acts(torch, owner, keeps == "yes", looks, node):
        _given_away(torch, values, node, function.name)
    if not looks:
        _reworked(torch, passed, node, function.name)
    return result


def _trust_in(
    torch: Torch, function: Unknown, values: Sequence[Tensor | Unknown], passed: tuple[Value, ...], result: Unknown
) -> Trust:
    """Return what is taken for granted of the graph of what a call gives, of which nothing is known."""
    data = _gives_data(torch, function, values, passed, result.trust.data)
    returned = not data and (function.trust.returned or len(values) > 0)
    return Trust(data, function.trust.assumed, returned, result.trust.certain)


def _is_run(
    torch: Torch, model: Unknown, parameters: Tensor, values: Sequence[Tensor | Unknown], more: bool, node: ast.AST
) -> bool:
    """Return whether a call runs a module: what a method's name alone makes one is run on what may be a tensor.

    `more` keywords that are not seen may be some.
    """
    if not parameters.noted(Mark.PRESUMED):
        return True
    if not (more or any(isinstance(one, Tensor) or one.may_be_tensor() for one in values)):
        return False
    if parameters.node is not None:
        torch.world.assumptions.note("module", f"`{model.name}` is a module", node, (parameters.node,))
    return True


def _run_by_name(function: Unknown) -> Unknown | None:
    """Return the model whose `forward` is called: a call of the model does no more that matters here."""
    return function.part_of.owner if function.part_of.attr == "forward" else None


def _trained(model: Unknown | None) -> Tensor | None:
    """Return the leaf that stands for the parameters of an unknown model, where they surely require grad."""
    leaf = None if model is None else model.kept.leaf
    return leaf if leaf is not None and leaf.graph == "yes" else None


def _acts(torch: Torch, owner: Unknown | None, computes: bool, looks: bool, node: ast.AST) -> bool:
    """Return whether a call may act on what it is given: a part of a model that is asked for a result `computes` it."""
    if computes or owner is None:
        return torch.world.position.is_discarded(node)
    return owner.node is None and not looks


def _output(
    torch: Torch, model: Unknown, parameters: Tensor, values: Sequence[Tensor | Unknown], node: ast.AST
) -> Unknown:
    """Return what an unknown model makes of values."""
    parts = [parameters, *torch.nn.replaced_parameters(model), *values]
    # A model that somebody wrote and saved may hand back states that it has cut, and so may one that hidden code made.
    unseen = parameters.noted(Mark.UNSEEN) is True
    linked: Fact = "may" if unseen or parameters.noted(Mark.SAVED) else "yes"
    # Nobody knows what several values share, nor what is kept by a model that need not have a layer.
    shared = unseen or torch.world.position.unpacked.get(node, 0) > 0
    return opaque(torch, model.name, parts, node, linked=linked, keeps="may" if shared else "yes", shared=shared)


def _model_run(torch: Torch, function: Unknown) -> Unknown | None:
    """Return the model that a call of its part or method runs; None where it runs none."""
    owner, whole = function.part_of.owner, function.part_of.within
    if owner is None:
        return whole
    # What every module has, and what runs none of it.
    name = function.part_of.attr
    runs_none = name in _COMPUTES_NOTHING or (name.startswith("register_") and classes.module_has(name))
    return None if runs_none or (owner is not whole and _without_parameters(torch, owner)) else whole


def _gives_data(
    torch: Torch, function: Unknown, values: Sequence[Tensor | Unknown], passed: Iterable[Value], of_data: bool
) -> bool:
    """Return whether a call certainly gives data: data goes into a model as well, so only a method of data does. One of
    torch's does so by itself, any other where what it gives is `of_data` alone.
    """
    if not function.trust.data or not function.part_of.attr or any(map(_computes, passed)):
        return False
    is_op = torch.facts.op(function.part_of.attr) is not None
    return of_data and is_op if values else of_data or is_op


def _without_parameters(torch: Torch, part: Unknown) -> bool:
    """Return whether what has this name in all modules that the program has made is no module and holds no tensor: what
    a file held is of a class of the program, as far as anybody knows.
    """
    made = [
        module.attrs[part.part_of.attr]
        for module in torch.nn.made[-limits.MOST_MODULES :]
        if part.part_of.attr in module.attrs
    ]
    return bool(made) and all(_is_plain(value, limits.LEAVES_DEPTH) for value in made)


def _is_plain(value: Value, depth: int) -> bool:
    if isinstance(value, Instance):
        plain = depth > 0 and not value.module and value.cls is not None
        return plain and all(_is_plain(held, depth - 1) for held in value.attrs.values())
    return is_constant(value) or (isinstance(value, Unknown) and value.kept.leaf is None and value.borne() == "no")


def _given_away(torch: Torch, values: Sequence[Tensor | Unknown], node: ast.AST, to: str) -> None:
    """Code that nobody can look into got values, and may run a backward through them, now or later."""
    if any(value.trust.returned and value.node is None for value in only(values, Unknown)):
        values = [*values, torch.world.graph.unknown_source(node)]
    torch.machine.escape(tuple(values), node, to)


def _unknown_method(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a method that is known by its name, whatever it is called on; NO_MODEL for any other."""
    known: Value = NO_MODEL
    if isinstance(owner, arguments.Parser):
        known = arguments.method(torch, owner, name, args, kwargs, node)
    method = _METHODS.get(name)
    if known is NO_MODEL and method is not None:
        known = method(torch, owner, name, args, kwargs, node)
    if known is NO_MODEL and owner.node is not None and torch.facts.op(name) is not None:
        return torch.op(name, [owner, *args], kwargs, node)
    return known


def _backward(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and may_carry(args[0]) and owner.node is None and args[0].requires() != "no":
        # accelerator.backward(loss), fabric.backward(loss), scaler-like objects nobody can see into: what they do with
        # the graph besides, nobody knows.
        return torch.autograd.backward_method(args[0], args[1:], kwargs, node, may_retain=True)
    return torch.autograd.backward_method(owner, args, kwargs, node)


def _register_hook(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return NO_MODEL
    if name == "register_forward_hook":
        torch.nn.loose_hooks.append(args[0])
    return Unknown("handle")


def _requires_grad(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    wanted = concrete(argument(args, kwargs, 0, "requires_grad", True))
    if wanted is not True:
        # It may be one of the parameters that its maker was given.
        held = map(torch.world.graph.leaf_tensors.get, unknowns.root(owner).kept.leaves)
        visible.may_freeze(leaf for leaf in held if leaf is not None)
        _freezes_any(torch, owner, node)
    model = owner if wanted is True else _listing(owner)
    # What a file held and is frozen may be a model.
    saved = owner.part_of.within is not None and wanted is False
    if owner.kept.leaf is not None or not owner.trust.data or model is not owner or saved:
        if owner.kept.leaf is not None or wanted is False:
            # Of a model nobody knows, whatever it is used for later, no parameter certainly requires grad any more.
            opaque_parameters(torch, model, node).graph = "yes" if wanted is True else "may"
        return owner
    if owner.node is not None or wanted is not True:
        return owner
    # What is data is a tensor here, and a leaf from now on, under each name that it has.
    made = torch.world.graph.data(owner.name, owner.cuts)
    made.storage = torch.world.graph.storage_of(owner)
    torch.world.graph.make_leaf(made, node, owner.name)
    owner.node = made.node
    owner.trust = owner.trust._replace(data=False, certain=True)
    return made


def _freezes_any(torch: Torch, owner: Unknown, node: ast.AST) -> None:
    """Note that one of the attributes of an object is frozen, and nobody knows which."""
    within = [leaf for value in unknowns.root(owner).kept.values for leaf in leaves.within(torch, value)]
    held = [leaf for leaf in map(torch.world.graph.leaf_tensors.get, within) if leaf is not None]
    if held:
        visible.may_freeze(held)
        text = f"`{owner.name}` is none that is to be trained"
        torch.world.assumptions.note("option", text, node, tuple(within))


def _parameters(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    leaf = opaque_parameters(torch, _listing(owner), node)
    return List([(Unknown.plain("name"), leaf) if name == "named_parameters" else leaf], more=True)


def _set_mode(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    mode = concrete(argument(args, kwargs, 0, "mode", True)) if name == "train" else False
    told = (not args and not kwargs) or (name == "train" and type(mode) is bool and len(args) + len(kwargs) == 1)
    if owner.part_of.within is not None and owner.node is None and told:
        # Of what a file held, only a model can be told to evaluate. Its parts are its own from now on.
        opaque_parameters(torch, owner, node)
        owner.trust = owner.trust._replace(data=False)
    elif owner.node is None and not args and not kwargs:
        _presume(torch, owner, name, node)
    if isinstance(mode, bool) and owner.kept.leaf is not None and owner.kept.leaf.node is not None:
        torch.world.writer.emit(ModeSet(torch.world.position.site(node), mode, (owner.kept.leaf.node,)))
    return owner


def _presume(torch: Torch, owner: Unknown, name: str, node: ast.AST) -> None:
    """Take for a model what is told to evaluate: what was passed in, or a part of it, as far as anybody knows, and what
    hidden code has made, which may be told to train whatever it is.
    """
    passed = id(unknowns.root(owner)) in torch.world.assumptions.passed
    # What has parameters as a whole has those of its parts among them.
    whole = any(one.kept.leaf is not None for one in _wholes(owner))
    if (passed or name == "eval") and not whole:
        presumed_parameters(torch, owner, node, made=not passed)
        source = owner.part_of.source
        if source is not None and any(one is owner for one in (source.asked.drawn or {}).values()):
            source.kept = source.kept._replace(models=True)


def _taken_out(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    how: CutKind = "numpy" if name == "numpy" else "item"
    result = Unknown.number(torch.world.graph.cut(how, node, owner, name=owner.name))
    result.take_for_data()
    return result


def _detach(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Unknown(owner.name, None, torch.world.graph.cut("detach", node, owner, name=owner.name))
    result.take_for_data()
    if name == "detach_":
        owner.node, owner.cuts = None, result.cuts
        owner.take_for_data()
        return owner
    return result


def _generate(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if owner.kept.leaf is None or owner.kept.leaf.noted(Mark.UNSEEN):
        return NO_MODEL
    # Text generation of transformers runs under no_grad.
    result = Unknown("generate()")
    result.take_for_data()
    return result


def _prepare(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Give back what was handed over, as accelerator.prepare(model, optimizer) does."""
    if not args:
        return NO_MODEL
    return args[0] if len(args) == 1 else tuple(args)


def _asked(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """What gives data, and the same each time."""
    result = owner.part_named(f"{name}({len(args)})")
    if isinstance(result, Unknown):
        result.node = None
        result.take_for_data()
        if name == "dim" and result.shown.truth is None:
            result.shown = result.shown._replace(truth=True)
        if name == "size" and owner.node is not None:
            result.kind = Kind.SIZES
        if name == "size" and args:
            return result.part_at(args[0])
    return result


def _state_dict(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Give the values of a model's parameters and buffers, or these themselves."""
    if concrete(kwargs.get("keep_vars", args[2] if len(args) > 2 else False)) is not False:
        return NO_MODEL
    return _asked(torch, owner, name, args, kwargs, node)


def _zero_grad(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    leaves.cleared_elsewhere(torch, owner, node)
    return _asked(torch, owner, name, args, kwargs, node)


def _step(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args:
        scalers.divided(torch.world, args[0], node)
        # A step that is given a loss does the backward itself, as far as anybody knows.
        _given_away(torch, torch.tensors(tuple(args)), node, f"{owner.name}.step")
    # An environment's says each time what has come of it.
    result = owner.given_anew(name)
    result.node = None
    result.take_for_data()
    return result


def _scale(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) != 1 or not may_carry(args[0]):
        return NO_MODEL
    # A gradient scaler that was handed in may be switched off.
    return scalers.scaled_by(torch, args[0], torch.world.graph.data("scale"), "may", node)


def _unscale(torch: Torch, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return NO_MODEL
    scalers.divided(torch.world, args[0], node)
    return None


_METHODS: dict[str, Callable[[Torch, Unknown, str, Args, Kwargs, ast.AST], Value]] = {
    "backward": _backward,
    "manual_backward": (
        lambda torch, owner, name, a, k, n: torch.autograd.backward_method(a[0], a[1:], k, n) if a else NO_MODEL
    ),
    "register_forward_hook": _register_hook, "register_forward_pre_hook": _register_hook,
    "requires_grad_": _requires_grad,
    "parameters": _parameters, "named_parameters": _parameters, "trainable_parameters": _parameters,
    "eval": _set_mode, "train": _set_mode,
    **dict.fromkeys(
        ("to", "cuda", "cpu", "float", "half", "double", "contiguous", "type"),
        lambda torch, owner, name, a, k, n: owner,
    ),
    "item": _taken_out, "tolist": _taken_out, "numpy": _taken_out,
    "detach": _detach, "detach_": _detach,
    "generate": _generate, "prepare": _prepare,
    **dict.fromkeys(("size", "dim", "numel", "keys", "parse_args"), _asked),
    "state_dict": _state_dict,
    "zero_grad": _zero_grad, "step": _step, "scale": _scale, "unscale_": _unscale,
}  # fmt: skip
"""What methods do by their names where nobody knows the object: a tensor, a model, an optimizer or a scaler."""


_ACTING = frozenset((
    "backward", "manual_backward", "register_forward_hook", "requires_grad_", "parameters", "named_parameters",
    "trainable_parameters", "detach", "detach_", "zero_grad", "step", "scale", "unscale_",
))  # fmt: skip
"""Those of them that do something to graphs or gradients."""


def opaque_parameters(
    torch: Torch, owner: Unknown, node: ast.AST, source: Tensor | None = None, *, made: bool = False
) -> Tensor:
    """One leaf that stands for all parameters of an unknown model, or for copies of what `source` stands for; `made`
    says that the program has got the model from hidden code, as those that come out of a library or a file.
    """
    if owner.kept.leaf is None or owner.kept.leaf.noted(Mark.UNSEEN):
        # What is asked for its parameters is a model, and these are what is asked for.
        name = f"{owner.name} parameters"
        leaf = torch.world.graph.data(name)
        made, copied = made or owner.part_of.within is not None, None if source is None else source.of_leaf
        torch.world.graph.make_leaf(leaf, node, name, parameter=True, copy_of=copied, made=made, many=True)
        # Until it is told to train or to evaluate, what a file held is data.
        leaf.extra = {Mark.OPAQUE: True, Mark.SAVED: owner.part_of.within is not None and owner.trust.data}
        if source is not None:
            # A copy is frozen, and a model at all, where what it was copied from is.
            leaf.graph = source.graph
            leaf.extra.update(source.extra or {})
        owner.kept = owner.kept._replace(leaf=leaf)
        for part in _models_within(owner, limits.LEAVES_DEPTH):
            # Whoever has them all may freeze them.
            part.graph = "may"
        if owner.part_of.within is not None:
            # What is asked of its parts from now on is asked of its own parameters.
            owner.part_of = owner.part_of._replace(within=owner)
        return leaf
    if owner.kept.leaf.extra is not None:
        owner.kept.leaf.extra[Mark.PRESUMED] = False
    return owner.kept.leaf


def _listing(module: Unknown) -> Unknown:
    """Return the model that lists a value among all its modules, whose parameters are its own; any other is itself."""
    for called in only((unknowns.root(module).origin.called,), Unknown):
        owner = called.part_of.owner
        if called.part_of.attr in _LISTING and owner is not None and owner.node is None:
            return owner
    return module


def _wholes(part: Unknown) -> Iterator[Unknown]:
    """Yield what a value is a part of, innermost first."""
    while (whole := part.part_of.owner or part.part_of.source) is not None:
        yield whole
        part = whole


def _models_within(owner: Unknown, depth: int) -> Iterator[Tensor]:
    """Yield what stands for the parameters of those parts of a value that are presumed to be models."""
    if depth == 0:
        return
    for part in only((*(owner.asked.attrs or {}).values(), *(owner.asked.items or {}).values()), Unknown):
        if part.kept.leaf is not None and part.kept.leaf.noted(Mark.PRESUMED):
            yield part.kept.leaf
        yield from _models_within(part, depth - 1)


def presumed_parameters(torch: Torch, owner: Unknown, node: ast.AST, *, made: bool = False) -> None:
    """Take for a module what only the name of a method tells to be one, such as `eval`: a dataset may have that."""
    if owner.kept.leaf is None:
        leaf = opaque_parameters(torch, owner, node, made=made)
        leaf.extra = {**(leaf.extra or {}), Mark.PRESUMED: True, Mark.UNSEEN: made}
