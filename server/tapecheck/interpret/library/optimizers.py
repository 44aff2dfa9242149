"""torch.optim: which parameters an optimizer has, and what its step changes."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapecheck.interpret import limits
from tapecheck.interpret.library import averaging, left_out, optimizer_arguments, scalers, sharding
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import OptimizerState, kept, state_of
from tapecheck.interpret.objects.syntax import root_of
from tapecheck.interpret.values import (
    BEYOND,
    MORE,
    Args,
    Dict,
    Generator,
    Instance,
    Kwargs,
    List,
    Native,
    Set,
    Stream,
    Tensor,
    Unknown,
    Value,
    argument,
    behaviour,
    concrete,
    is_module,
    is_whole_list,
    known_int,
    only,
    only_tensors,
    unwrapped,
)
from tapecheck.source.nodes import bound_by_import, id_of, is_literal, walk
from tapecheck.tape import Fact, InPlace, Optimizer, Site, Step, both
from tapecheck.torchfacts import load

_SWITCH = "requires_grad"


def _whole(more: int) -> Fact:
    """Return what a container says by what is not known of it: what is picked of its elements holds no others."""
    return "may" if more & BEYOND else "no" if more else "yes"


def _together(wholes: Iterable[Fact]) -> Fact:
    """Return what the parts of a list say together."""
    found = set(wholes)
    return "may" if "may" in found else "no" if "no" in found else "yes"


class Optimizers:
    """torch.optim for one machine."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        self.machine = torch.machine
        self.world = torch.world
        self.facts = load()
        self.listed: set[int] = set()
        """The leaves that some optimizer has."""

    def construct(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        name = path.rsplit(".", 1)[-1]
        if ".lr_scheduler." in path:
            result = Instance(None, "torch.optim.lr_scheduler")
            return result
        if name == "AveragedModel":
            return averaging.averaged_model(self.torch.nn, args, kwargs, node)
        if ".swa_utils." in path:
            return Instance(None, "torch.optim.lr_scheduler") if name == "SWALR" else Unknown.named(name)
        owner = Instance(None, path)
        self.initialize(owner, args, kwargs, node)
        return owner

    def initialize(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        source = unwrapped(argument(args, kwargs, 0, "params"))
        if isinstance(source, Generator):
            source = List(*self.machine.gathered(source, node))
        given = bool(args) or "params" in kwargs
        if given and (refusal := optimizer_arguments.refusal(self.machine, source, node)):
            self.torch.fail(node, "no parameters for an optimizer", kind=refusal)
        self.world.writer.optimizers += 1
        number = self.world.writer.optimizers
        tensors, complete = self._leaves(source, node)
        owner.state = OptimizerState(
            number, tensors, complete, kwargs.get("fused"), argument(args, kwargs, 2, "max_iter"),
            left_out.given_whole(self.torch, tensors),
        )  # fmt: skip
        owner.state.passed_over = left_out.passed_over(self.torch, owner.state.whole, tensors)
        recorded = concrete(kwargs.get("differentiable", False))
        owner.state.recorded = "yes" if recorded is True else "no" if recorded is False else "may"
        owner.state.frozen = left_out.frozen_now(self.torch, owner.state.whole)
        self._list(tensors)
        defaults = _defaults(args, kwargs)
        groups = self._groups(source, defaults, node)
        nothing = isinstance(source, _LISTED) and not tensors and not groups
        if not groups:
            groups = [Dict({"params": List(list(tensors), complete != "yes"), **defaults.items}, more=True)]
        owner.state.groups = [self._leaves(group.items.get("params"), node)[0] for group in groups]
        owner.state.at = self.world.position.site(node)
        self._set_attributes(owner, groups, defaults)
        self._emit(owner.state, _name_of(owner), owner.state.at, complete)
        self._refuse(owner.state, tensors, complete == "yes", nothing, node)
        return None

    def _refuse(
        self, state: OptimizerState, tensors: Iterable[Tensor], complete: bool, nothing: bool, node: ast.AST
    ) -> None:
        """Raise where torch takes no optimizer of what it is given."""
        computed = next((one.node for one in tensors if one.lacks_gradient), None)
        if computed is not None and state.recorded == "no":
            self.torch.fail(node, "can't optimize a non-leaf Tensor", kind="ValueError", of=computed)
        if complete and nothing:
            self.torch.fail(node, "optimizer got an empty parameter list", kind="ValueError")
        if complete and _shared(state.groups):
            self.torch.fail(node, _TWICE, kind="ValueError")

    def _list(self, tensors: Iterable[Tensor]) -> None:
        """Note that an optimizer has some leaves; it has them, too, when they are frozen now and switched on later."""
        numbers = (one.frozen_leaf() if one.node is None else one.node for one in tensors)
        self.listed.update(number for number in numbers if number is not None)

    def _set_attributes(self, owner: Instance, groups: Iterable[Dict], defaults: Dict) -> None:
        """Give an optimizer the attributes that torch's constructor gives it."""
        owner.attrs["param_groups"] = List([*groups])
        # A class of the program's own has there what it puts there: torch's steps alone fill it otherwise.
        factory = self.machine.library.builtins["dict"] if owner.cls is not None else None
        owner.attrs.setdefault("state", Dict({}, more=True, factory=factory))
        owner.attrs.setdefault("defaults", defaults)

    def _emit(self, state: OptimizerState, name: str, at: Site, complete: Fact) -> None:
        """Write down which leaves an optimizer has."""
        leaves = tuple(one.node for one in state.params if one.node is not None and one.is_leaf)
        frozen, idle = self._frozen(state.groups)
        # Parameters of code that is not visible may be in the same group, and be trained.
        idle = idle if complete == "yes" else ()
        self.world.writer.emit(Optimizer(state.number, at, name, leaves, complete, frozen, idle))

    def _groups(self, source: Value, defaults: Dict, node: ast.AST) -> list[Dict]:
        """Return the parameter groups that an optimizer is given as such, with its defaults."""
        known = behaviour(source).known_items(self.machine, node) if isinstance(source, _LISTED) else None
        groups = only(map(unwrapped, known or ()), Dict)
        if known is None or len(groups) != len(known):
            return []
        for group in groups:
            members, _ = self._leaves(group.items.get("params"), node)
            group.items["params"] = List(list(members))
            for key, value in defaults.items.items():
                group.items.setdefault(key, value)
        return groups

    def _frozen(self, groups: list[list[Tensor]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the leaves that are given while they are frozen, and those of groups that stay so."""
        frozen: list[int] = []
        idle: list[int] = []
        for tensors in groups:
            off = [leaf for tensor in tensors if (leaf := tensor.frozen_leaf()) is not None]
            frozen += off
            if off and len(off) == len(tensors):
                idle += off
        source = self.world.position.frames[-1].module.source
        if idle and source is not None and _may_unfreeze(source.tree):
            idle = []
        return tuple(frozen), tuple(idle)

    def _leaves(self, source: Value, node: ast.AST) -> tuple[list[Tensor], Fact]:
        """Return the parameters that are given, and whether it is these ("yes") or some of these ("no")."""
        source = unwrapped(source)
        if isinstance(source, Tensor):
            return [source], "yes"
        if isinstance(source, Dict):
            if "params" in source.items:
                given = source.items["params"]
                if isinstance(given, Generator):
                    # It gives its elements once, and the group has them from then on.
                    given = source.items["params"] = List(*self.machine.gathered(given, node))
                return self._leaves(given, node)
            return only_tensors(source.items.values()), _whole(source.more)
        if isinstance(source, (List, tuple, Set, Stream)):
            found: list[Tensor] = []
            # A loop that was cut short may have left out what it would have put into the list.
            wholes: list[Fact] = [_whole(getattr(source, "more", 0)) if getattr(source, "cut", 0) == 0 else "may"]
            for item in self.machine.elements(source, node):
                inner, whole = self._leaves(item, node)
                found.extend(inner)
                wholes.append(whole)
            return found, _together(wholes)
        if is_module(source):
            return [tensor for _, tensor in self.torch.nn.named_parameters(source)], "yes"
        return [], "may"

    def attribute(self, owner: Instance, name: str) -> Value:
        if owner.lib == "torch.optim.lr_scheduler":
            return Native(name, lambda m, args, kwargs, at: Unknown.named(name))
        if name == "__init__":
            return Native(name, lambda m, args, kwargs, at: self.initialize(owner, args, kwargs, at))
        known = {"step": self._step, "zero_grad": self._zero_grad, "add_param_group": self._add_group}
        if name in known:
            return Native(name, lambda m, args, kwargs, at: known[name](owner, args, kwargs, at), receiver=owner)
        if name in ("register_step_post_hook", "register_step_pre_hook"):
            return Native(name, lambda m, args, kwargs, at: self._hooked(owner, name, at))
        if name == "load_state_dict":
            self._fill(owner)
        if name in ("state_dict", "load_state_dict", "train", "eval"):
            return Native(name, lambda m, args, kwargs, at: Unknown.named(name))
        return None

    def _add_group(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        group = unwrapped(argument(args, kwargs, 0, "param_group"))
        given = bool(args) or "param_group" in kwargs
        if given and (refusal := optimizer_arguments.refusal_of_group(self.machine, group, node)):
            self.torch.fail(node, "no group of parameters", kind=refusal)
        members, complete = self._leaves(group, node)
        groups = owner.attrs.get("param_groups")
        if isinstance(groups, List):
            known = group if isinstance(group, Dict) else Dict({}, more=True)
            known.items["params"] = List(list(members), complete != "yes")
            groups.items.append(known)
        state = kept(owner, OptimizerState)
        state.params = [*state.params, *members]
        state.groups = [*state.groups, members]
        self._list(members)
        twice = "yes" == state.complete == complete and _shared(state.groups)
        state.complete = _together([state.complete, complete])
        self._emit(state, owner.lib.rsplit(".", 1)[-1], self.world.position.site(node), complete)
        if twice:
            self.torch.fail(node, _TWICE, kind="ValueError")
        return None

    def _regrouped(self, owner: Instance, node: ast.AST) -> OptimizerState:
        """Return what is known of an optimizer, with the parameters that its groups have by now.

        `group["params"][0] = new` is how a parameter is replaced under an optimizer that goes on.
        """
        state, groups = _state(owner), owner.attrs.get("param_groups")
        if not state.number or not is_whole_list(groups):
            return state
        members: list[list[Tensor]] = []
        for group in groups.items:
            params = group.items.get("params") if isinstance(group, Dict) else None
            if not is_whole_list(params):
                return state
            members.append(only_tensors(params.items))
        if [list(map(id, group)) for group in members] == [list(map(id, group)) for group in state.groups]:
            return state
        state.groups, state.params = members, [tensor for group in members for tensor in group]
        self._list(state.params)
        at = state.at or self.world.position.site(node)
        self._emit(state, owner.lib.rsplit(".", 1)[-1], at, state.complete)
        return state

    def _step(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        closure = argument(args, kwargs, 0, "closure")
        result: Value = None
        for _ in range(1 if closure is None else _closure_calls(owner)):
            if closure is not None:
                with self.world.modes.recording("yes"):
                    made = self.machine.call(closure, [], {}, node)
                result = made if result is None else result
            state = self._regrouped(owner, node)
            if owner.attrs.get("grad_scale") is not None or kwargs.keys() - {"closure"}:
                # It is given the scale, and divides the gradients by it itself.
                scalers.divided(self.world, owner, node)
            self._note_step(state, node)
            if self.world.modes.wrapping.sharded:
                sharding.stepped(self.torch, state.params, node)
            self._fill(owner)
            self._change(owner, state, node)
        return result

    def _change(self, owner: Instance, state: OptimizerState, node: ast.AST) -> None:
        """Change the parameters that have a gradient in place, as a step does."""
        bumps, recorded = self._bumps(owner), state.recorded
        for tensor in state.params:
            if tensor.grad is not None:
                self.world.graph.change(
                    tensor, node, "optimizer.step", bumps=bumps, optimizer=state.number or None,
                    # The step itself sets that, whatever is in force.
                    grad_mode="yes" if recorded == "yes" else "no",
                )  # fmt: skip
                if recorded != "no" and tensor.graph == "no" and self.torch.requires(tensor.grad) != "no":
                    # What it steps by has a graph, and the parameter has it from then on.
                    tensor.graph = "may"

    def _fill(self, owner: Instance) -> None:
        """Note that one of torch's steps, or what was loaded, has put something into the state of each parameter."""
        held = owner.attrs.get("state")
        if not isinstance(held, Dict):
            return
        held.factory = None
        for each in held.items.values():
            if isinstance(each, Dict):
                each.more |= MORE

    def _note_step(self, state: OptimizerState, node: ast.AST) -> None:
        self.world.writer.emit(Step(self.world.position.site(node), state.number, _called(node)))
        self.world.graph.stepped = True
        left_out.look(self.torch, state, node)

    def stepped(self, owner: Instance, begun: int, node: ast.AST) -> None:
        """Note the step of an optimizer whose class the program writes: it changes its parameters itself, by none of
        torch's optimizers. `begun` is the number of events before it.
        """
        done = self.world.writer.tape.events[begun:]
        state = self._regrouped(owner, node)
        own = {tensor.node for tensor in state.params if tensor.grad is not None and tensor.node is not None}
        changed = any(event.leaf in own for event in only(done, InPlace))
        if changed and not only(done, Step):
            self._note_step(state, node)

    def _hooked(self, owner: Instance, name: str, node: ast.AST) -> Value:
        # The hook gets the optimizer at each step: it may clear what the step has used.
        self.machine.library.given_away([owner], node, name)
        return Unknown.named("handle")

    def _bumps(self, owner: Instance) -> Fact:
        """Whether a step moves the version counters of what it changes: fused steps were measured not to."""
        fact = self.facts.optimizer(owner.lib.rsplit(".", 1)[-1])
        fused = _state(owner).fused
        if fact is None or fused is None or concrete(fused) in (None, False):
            return "yes"
        measured: Fact = fact.fused_step_mutates or "yes"
        return measured if concrete(fused) is True else both("may", measured) if measured != "no" else "may"

    def _zero_grad(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        wanted = concrete(argument(args, kwargs, 0, "set_to_none", True))
        for tensor in self._regrouped(owner, node).params:
            self.torch.autograd.clear(tensor, node, "no" if wanted is False else "yes", _called(node))
        return None


_TWICE = "some parameters appear in more than one parameter group"


def _shared(groups: list[list[Tensor]]) -> bool:
    """Return whether one tensor is in more than one group, which torch refuses."""
    members = [number for group in groups for number in {id(tensor) for tensor in group}]
    return len(set(members)) < len(members)


_LISTED = (List, tuple, Stream)
"""What parameters or their groups are listed in."""


def _closure_calls(owner: Instance) -> int:
    """Return how often a step calls its closure: LBFGS does so many times over; twice shows what the second time
    does.
    """
    most = known_int(_state(owner).max_iter)
    if not owner.lib.endswith("LBFGS"):
        return 1
    return limits.CLOSURE_CALLS if most is None else min(most, limits.CLOSURE_CALLS)


def _defaults(args: Args, kwargs: Kwargs) -> Dict:
    """Return what a group of parameters has by default: what a class gives the base of all optimizers, or the rate."""
    given = argument(args, kwargs, 1, "defaults")
    rate = kwargs.get("lr", given or Unknown.plain("lr"))
    return given if isinstance(given, Dict) else Dict({"lr": rate}, more=True)


def _name_of(owner: Instance) -> str:
    """Return the name of the class of an optimizer."""
    return owner.lib.rsplit(".", 1)[-1] or (owner.cls.name if owner.cls is not None else "Optimizer")


def _state(owner: Instance) -> OptimizerState:
    """Return what is known of an optimizer; nothing of one whose constructor was not run."""
    return state_of(owner, OptimizerState) or OptimizerState(0, [])


def _called(node: ast.AST) -> str:
    """Return the name that a call calls, as it is written."""
    if not isinstance(node, ast.Call):
        return ""
    called = node.func
    while isinstance(called, ast.Attribute):
        called = called.value
    return ast.unparse(node.func) if id_of(called) else ""


def _may_unfreeze(tree: ast.Module) -> bool:
    """Return whether a file has code that may switch gradients on again, wherever it is called.

    What a function of torch is told with `requires_grad=True` is of the tensor that it makes.
    """
    nodes = walk(tree)
    bound = [each for node in nodes for each in bound_by_import(node).items()]
    torch = {name for name, (module, _) in bound if module.partition(".")[0] == "torch"}
    return any(_may_switch_on(node, torch) for node in nodes)


def _may_switch_on(node: ast.AST, torch: set[str]) -> bool:
    """Return whether a node may switch gradients on; `torch` are the names that torch and its functions have."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return any(getattr(target, "attr", "") == _SWITCH for target in targets) and _on(value)
        case (
            ast.AnnAssign(target=ast.Attribute(attr=attr), value=value)
            | ast.AugAssign(target=ast.Attribute(attr=attr), value=value)
        ):
            return attr == _SWITCH and _on(value)
        case ast.Call(func=ast.Attribute(attr=attr), args=given) if attr == f"{_SWITCH}_":
            return not given or _on(given[0])
        case ast.Call(func=called, keywords=words) if any(one.arg == _SWITCH and _on(one.value) for one in words):
            return root_of(called) not in torch
        case ast.Call(func=ast.Name(id="setattr"), args=given):
            return any(isinstance(part, ast.Constant) and part.value == _SWITCH for part in given)
    return False


def _on(value: ast.expr | None) -> bool:
    return not is_literal(value, False)
