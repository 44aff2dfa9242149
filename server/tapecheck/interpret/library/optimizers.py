"""torch.optim: which parameters an optimizer has, and what its step changes."""

from __future__ import annotations

import ast

from tapecheck.interpret import limits
from tapecheck.interpret.library import averaging, left_out, scalers
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import OptimizerState, kept
from tapecheck.interpret.objects.syntax import root_of
from tapecheck.interpret.values import (
    Args,
    Dict,
    Generator,
    Instance,
    Kwargs,
    List,
    Mark,
    Native,
    Set,
    Stream,
    Tensor,
    Unknown,
    Value,
    behaviour,
    concrete,
    is_module,
)
from tapecheck.source.nodes import walk
from tapecheck.tape import Fact, Optimizer, Step, both
from tapecheck.torchfacts import load

_SWITCH = "requires_grad"


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
        source = args[0] if args else kwargs.get("params")
        if isinstance(source, Generator):
            items, whole = self.machine.gathered(source, node)
            source = List(items, not whole)
        self.world.writer.optimizers += 1
        number = self.world.writer.optimizers
        tensors, complete = self._leaves(source, node)
        owner.state = OptimizerState(
            number, tensors, complete, kwargs.get("fused"), args[2] if len(args) > 2 else kwargs.get("max_iter"),
            left_out.given_whole(self.torch, tensors),
        )  # fmt: skip
        owner.state.frozen = left_out.frozen_in(self.torch, owner.state.whole)
        self.listed.update(tensor.node for tensor in tensors if tensor.node is not None)
        second = args[1] if len(args) > 1 else kwargs.get("defaults")
        defaults = (
            second
            if isinstance(second, Dict)
            else Dict({"lr": kwargs.get("lr", second or Unknown.plain("lr"))}, more=True)
        )
        groups = self._groups(source, defaults, node)
        if not groups:
            groups = [Dict({"params": List(list(tensors), not complete), **defaults.items}, more=True)]
        given = [self._leaves(group.items.get("params"), node)[0] for group in groups]
        owner.state.groups, owner.state.at = given, self.world.position.site(node)
        owner.attrs["param_groups"] = List([*groups])
        owner.attrs.setdefault("state", Dict({}, more=True))
        owner.attrs.setdefault("defaults", defaults)
        name = owner.lib.rsplit(".", 1)[-1] or (owner.cls.name if owner.cls is not None else "Optimizer")
        self.world.writer.emit(
            Optimizer(
                number, self.world.position.site(node), name,
                tuple(tensor.node for tensor in tensors if tensor.node is not None and tensor.is_leaf),
                "yes" if complete else "may", *self._frozen(given),
            )
        )  # fmt: skip
        if any(tensor.node is not None and not tensor.is_leaf for tensor in tensors):
            self.torch.fail(node, "can't optimize a non-leaf Tensor", kind="ValueError")
        return None

    def _groups(self, source: Value, defaults: Dict, node: ast.AST) -> list[Dict]:
        """Return the parameter groups that an optimizer is given as such, with its defaults."""
        listed = isinstance(source, (List, tuple, Stream))
        known = behaviour(source).known_items(self.machine, node) if listed else None
        groups = [item for item in known or () if isinstance(item, Dict)]
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
            marks = [(tensor.extra or {}).get(Mark.FROZEN_LEAF) for tensor in tensors]
            off = [leaf for leaf in marks if isinstance(leaf, int)]
            frozen += off
            if off and len(off) == len(tensors):
                idle += off
        source = self.world.position.frames[-1].module.source
        if idle and source is not None and _may_unfreeze(source.tree):
            idle = []
        return tuple(frozen), tuple(idle)

    def _leaves(self, source: Value, node: ast.AST) -> tuple[list[Tensor], bool]:
        if isinstance(source, Tensor):
            return [source], True
        if isinstance(source, Dict):
            if "params" in source.items:
                return self._leaves(source.items["params"], node)
            return [value for value in source.items.values() if isinstance(value, Tensor)], not source.more
        if isinstance(source, (List, tuple, Set, Stream)):
            found: list[Tensor] = []
            complete = not getattr(source, "more", False)
            for item in self.machine.elements(source, node):
                inner, whole = self._leaves(item, node)
                found.extend(inner)
                complete = complete and whole
            return found, complete
        if is_module(source):
            return [tensor for _, tensor in self.torch.nn.named_parameters(source)], True
        return [], False

    def attribute(self, owner: Instance, name: str) -> Value:
        if owner.lib == "torch.optim.lr_scheduler":
            return Native(name, lambda m, args, kwargs, at: Unknown.named(name))
        if name == "__init__":
            return Native(name, lambda m, args, kwargs, at: self.initialize(owner, args, kwargs, at))
        if name == "step":
            return Native(name, lambda m, args, kwargs, at: self._step(owner, args, kwargs, at), receiver=owner)
        if name == "zero_grad":
            return Native(name, lambda m, args, kwargs, at: self._zero_grad(owner, args, kwargs, at), receiver=owner)
        if name == "add_param_group":
            return Native(name, lambda m, args, kwargs, at: self._add_group(owner, args, kwargs, at), receiver=owner)
        if name in ("register_step_post_hook", "register_step_pre_hook"):
            return Native(name, lambda m, args, kwargs, at: self._hooked(owner, name, at))
        if name in ("state_dict", "load_state_dict", "train", "eval"):
            return Native(name, lambda m, args, kwargs, at: Unknown.named(name))
        return None

    def _add_group(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        group = args[0] if args else kwargs.get("param_group")
        members, complete = self._leaves(group, node)
        groups = owner.attrs.get("param_groups")
        if isinstance(groups, List):
            listed = List(list(members), not complete)
            if isinstance(group, Dict):
                group.items["params"] = listed
            groups.items.append(group if isinstance(group, Dict) else Dict({"params": listed}, more=True))
        state = kept(owner, OptimizerState)
        state.params = [*state.params, *members]
        state.groups = [*state.groups, members]
        self.listed.update(tensor.node for tensor in members if tensor.node is not None)
        state.complete = state.complete and complete
        self.world.writer.emit(
            Optimizer(
                state.number, self.world.position.site(node), owner.lib.rsplit(".", 1)[-1],
                tuple(tensor.node for tensor in state.params if tensor.node is not None),
                "yes" if complete else "may", *self._frozen(state.groups),
            )
        )  # fmt: skip
        return None

    def _regrouped(self, owner: Instance, node: ast.AST) -> OptimizerState:
        """Return what is known of an optimizer, with the parameters that its groups have by now.

        `group["params"][0] = new` is how a parameter is replaced under an optimizer that goes on.
        """
        state, groups = _state(owner), owner.attrs.get("param_groups")
        if not state.number or not isinstance(groups, List) or groups.more:
            return state
        members: list[list[Tensor]] = []
        for group in groups.items:
            params = group.items.get("params") if isinstance(group, Dict) else None
            if not isinstance(params, List) or params.more:
                return state
            members.append([item for item in params.items if isinstance(item, Tensor)])
        if [list(map(id, group)) for group in members] == [list(map(id, group)) for group in state.groups]:
            return state
        tensors = [tensor for group in members for tensor in group]
        state.groups, state.params = members, tensors
        self.listed.update(tensor.node for tensor in tensors if tensor.node is not None)
        self.world.writer.emit(
            Optimizer(
                state.number, state.at or self.world.position.site(node), owner.lib.rsplit(".", 1)[-1],
                tuple(tensor.node for tensor in tensors if tensor.node is not None and tensor.is_leaf),
                "yes" if state.complete else "may", *self._frozen(members),
            )
        )  # fmt: skip
        return state

    def _step(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        closure = args[0] if args else kwargs.get("closure")
        result: Value = None
        rounds = 1
        if closure is not None:
            # LBFGS asks its closure many times over in one step; twice shows what the second time does.
            most = concrete(_state(owner).max_iter)
            if owner.lib.endswith("LBFGS"):
                rounds = min(most, limits.CLOSURE_CALLS) if isinstance(most, int) else limits.CLOSURE_CALLS
        for _ in range(rounds):
            if closure is not None:
                self.world.modes.grad_modes.append("yes")
                depth = len(self.world.modes.grad_modes)
                try:
                    made = self.machine.call(closure, [], {}, node)
                finally:
                    del self.world.modes.grad_modes[depth - 1 :]
                result = made if result is None else result
            state = self._regrouped(owner, node)
            if owner.attrs.get("grad_scale") is not None or kwargs.keys() - {"closure"}:
                # It is given the scale, and divides the gradients by it itself.
                scalers.divided(self.world, owner, node)
            self.world.writer.emit(Step(self.world.position.site(node), state.number, _called(node)))
            left_out.look(self.torch, state, node)
            bumps = self._bumps(owner)
            for tensor in state.params:
                if tensor.grad is not None:
                    self.world.graph.change(
                        tensor, node, "optimizer.step", bumps=bumps, optimizer=state.number or None,
                        grad_mode="no",
                    )  # fmt: skip
        return result

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
        wanted = concrete(args[0] if args else kwargs.get("set_to_none", True))
        for tensor in self._regrouped(owner, node).params:
            self.torch.autograd.clear(tensor, node, "no" if wanted is False else "yes")
        return None


def _state(owner: Instance) -> OptimizerState:
    """Return what is known of an optimizer; nothing of one whose constructor was not run."""
    return owner.state if isinstance(owner.state, OptimizerState) else OptimizerState(0, [])


def _called(node: ast.AST) -> str:
    """Return the name that a call calls, as it is written."""
    if not isinstance(node, ast.Call):
        return ""
    called = node.func
    while isinstance(called, ast.Attribute):
        called = called.value
    return ast.unparse(node.func) if isinstance(called, ast.Name) else ""


def _may_unfreeze(tree: ast.Module) -> bool:
    """Return whether a file has code that may switch gradients on again, wherever it is called.

    What a function of torch is told with `requires_grad=True` is of the tensor that it makes.
    """
    nodes = walk(tree)
    torch: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            torch |= {one.asname or "torch" for one in node.names if one.name.partition(".")[0] == "torch"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            torch |= {one.asname or one.name for one in node.names}
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(part, ast.Attribute) and part.attr == _SWITCH for part in targets) and _on(node.value):
                return True
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == f"{_SWITCH}_":
                if not node.args or _on(node.args[0]):
                    return True
            elif any(word.arg == _SWITCH and _on(word.value) for word in node.keywords):
                if root_of(node.func) not in torch:
                    return True
            elif isinstance(node.func, ast.Name) and node.func.id == "setattr":
                if any(isinstance(part, ast.Constant) and part.value == _SWITCH for part in node.args):
                    return True
    return False


def _on(value: ast.expr | None) -> bool:
    return not (isinstance(value, ast.Constant) and value.value is False)
