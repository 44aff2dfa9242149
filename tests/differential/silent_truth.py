"""What torch itself says of the mistakes that raise nothing, in any program, without a word from its author.

A program runs with its backward calls, optimizer steps, saved tensors and reads of `.grad` watched, and once more for
each question with one thing changed (`Change`). What the rules call a mistake is then a comparison:

| rule | truth |
|---|---|
| TAPE402 | a parameter that requires grad has `.grad is None` at each of two steps or more, and no value written |
| TAPE403 | before a backward the gradient is bit-equal to what a step used, after it is not, and a step uses the sum |
| TAPE404 | without the calls of which all was cleared every step makes bit-equal parameters, and are half or more |
| TAPE302 | under `no_grad` the loop gives the same values, and less is saved for a backward |
| TAPE405 | a leaf gets gradients twice or more, no optimizer has it, it ends bit-equal, its `.grad` is never read, a
|         | module that keeps it has parameters that are stepped |
| TAPE406 | a parameter has a gradient only where every checkpoint is `use_reentrant=False` |
| TAPE407 | every step makes bit-equal parameters without the term, and others without the sum |
| TAPE501 | the norm of the gradients at a line is not what it is with a scale of 1 |
"""

from __future__ import annotations

import ast
import contextlib
import gc
import hashlib
import io
import random
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

NAME = "p.py"
MIN_STEPS = 2
_NO_USE = re.compile(
    r"\.grad\s+is\s+(not\s+)?None|\.grad\.(zero_|detach_|requires_grad_)\(|\.grad\s*=\s*None|del \w+(\.\w+)*\.grad"
)
_QUIET = ("/torch/optim/", "/torch/amp/", "/torch/nn/modules/module.py")
"""Files of torch whose reads of `.grad` step, unscale and clear: they are counted as that."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one run has otherwise: nothing, or one of these."""

    no_grad: int | None = None
    """The line of a loop, or of a statement with a comprehension, that is put under `torch.no_grad()`."""
    without_backward: tuple[int, tuple[int, ...]] | None = None
    """A line, and which of its backward calls do nothing."""
    zeroed: bool = False
    """Those calls give parameters zeros instead of nothing: a step may tell zeros from no gradient."""
    term: tuple[int, int, int, int, str] | None = None
    """Where a sum begins and ends, lines and columns, and what becomes of it: "left" or "right" alone, "nothing", or
    a list "without" one of its elements."""
    scale: float | None = None
    """What every GradScaler scales by."""
    reentrant: bool | None = None


@dataclass(slots=True)
class Watch:
    """What was seen in one run."""

    steps: list[str] = field(default_factory=list)
    """A digest of all parameters that optimizers have, after each step."""
    fed: dict[tuple[int, int], list[bool]] = field(default_factory=dict)
    given: set[tuple[int, int]] = field(default_factory=set)
    """Parameters of optimizers that a backward gave something."""
    idle: bool = False
    """Whether a layer that no forward pass runs is in an optimizer."""
    stale: set[int] = field(default_factory=set)
    backwards: dict[int, int] = field(default_factory=dict)
    cleared: set[tuple[int, int]] = field(default_factory=set)
    """Backward calls (line, which of its calls) of which something was cleared before a step had it."""
    used: set[tuple[int, int]] = field(default_factory=set)
    left: list[str] = field(default_factory=list)
    """Leaves with gradients that no optimizer has: their shapes."""
    loose: list[str] = field(default_factory=list)
    """Those of them that no module with stepped parameters keeps."""
    calls: set[tuple[int, int]] = field(default_factory=set)
    """Lines of calls that run a loop which records graphs, with the loop's line."""
    walking: set[int] = field(default_factory=set)
    """Lines of the program that were running at some backward."""
    saving: dict[int, int] = field(default_factory=dict)
    """Lines of loops and the most bytes saved for a backward at a time while they ran."""
    inside: set[tuple[int, int]] = field(default_factory=set)
    """Loops that ran within others: (outer, inner)."""
    norms: dict[int, float] = field(default_factory=dict)
    scaled: bool = False
    looked: bool = False
    """Whether the program looks at the gradient of what is no parameter."""
    checkpoints: set[int] = field(default_factory=set)
    walked: set[int] = field(default_factory=set)
    """Loops with a backward in them."""
    rounds: dict[int, int] = field(default_factory=dict)
    output: str = ""
    state: str = ""


class _Edit(ast.NodeTransformer):
    def __init__(self, change: Change) -> None:
        self.change = change

    def visit(self, node: ast.AST) -> Any:
        change = self.change
        if isinstance(node, ast.stmt) and node.lineno == change.no_grad:
            item = ast.withitem(ast.parse("__import__('torch').no_grad()", mode="eval").body)
            return ast.copy_location(ast.With([item], [node]), node)
        if isinstance(node, ast.BinOp) and change.term is not None:
            *place, how = change.term
            if place_of(node) == tuple(place) and isinstance(node.op, (ast.Add, ast.Sub)):
                return self._without(node, how)
        if isinstance(node, ast.List) and change.term is not None and place_of(node) == tuple(change.term[:4]):
            index = int(change.term[4].rpartition(" ")[2])
            return ast.copy_location(
                ast.List([each for at, each in enumerate(node.elts) if at != index], node.ctx), node
            )
        if isinstance(node, ast.AugAssign) and change.term is not None:
            *place, how = change.term
            if place_of(node) == tuple(place):
                if how == "left":
                    return ast.copy_location(ast.Expr(node.value), node)
                if how == "nothing":
                    name = ast.unparse(node.target)
                    again = ast.parse(f"{name} = {name} * 0.0").body[0]
                    return [node, ast.copy_location(again, node)]
        return self.generic_visit(node)

    def _without(self, node: ast.BinOp, how: str) -> ast.expr:
        if how == "left":
            return node.left
        if how == "right":
            return node.right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), node.right)
        return ast.BinOp(node, ast.Mult(), ast.Constant(0.0))


def place_of(node: ast.expr | ast.stmt) -> tuple[int, int, int, int]:
    """Return the line and column where a node begins, and those where it ends."""
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def passes(tree: ast.AST) -> set[int]:
    """Return the parts of functions named forward: what is summed and looped there is no loss and no evaluation."""
    return {
        id(part)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name == "forward"
        for part in ast.walk(function)
    }


def loops(tree: ast.AST) -> dict[int, tuple[int, int]]:
    """Return the loops of a program, comprehensions included, by the line of their statement, with their rows."""
    found: dict[int, tuple[int, int]] = {}
    within = passes(tree)
    for node in ast.walk(tree):
        if id(node) in within:
            continue
        if isinstance(node, (ast.For, ast.While)):
            found[node.lineno] = node.lineno, node.end_lineno or node.lineno
        elif isinstance(node, ast.stmt) and not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.If, ast.With)):
            parts = list(ast.walk(node))
            if any(isinstance(part, (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)) for part in parts):
                found.setdefault(node.lineno, (node.lineno, node.end_lineno or node.lineno))
    return found


def watch(text: str, change: Change | None = None) -> dict[str, Any]:
    """Run a program in this process, which must not be used for another one; `watch` holds what was seen.

    The answer is `{"kind": "other", "message": ...}` where the program raises.
    """
    import torch

    change = change or Change()
    seen = Watch()
    tree = ast.parse(text)
    rows = loops(tree)
    lines = text.splitlines()
    editor = _Edit(change)
    code = compile(ast.fix_missing_locations(editor.visit(tree)), NAME, "exec")
    finish = _install(seen, change, rows, lines)
    scope = types.ModuleType("__main__")
    scope.__dict__.update({"__name__": "__main__", "__file__": NAME})
    sys.modules["__main__"] = scope
    sys.argv = [NAME]
    random.seed(0)
    torch.manual_seed(0)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, scope.__dict__)
    except SystemExit:
        pass
    except BaseException as error:
        return {"kind": "other", "message": f"{type(error).__name__}: {error}"[:300]}
    finish()
    seen.output = hashlib.sha256(printed.getvalue().encode()).hexdigest()
    return {"kind": None, "watch": _plain(seen)}


def _plain(seen: Watch) -> dict[str, Any]:
    return {
        "steps": seen.steps,
        "never": [
            list(key) for key, had in sorted(seen.fed.items()) if len(had) >= MIN_STEPS and not any(had)
        ],
        "given": sorted(seen.given), "idle": seen.idle, "stale": sorted(seen.stale),
        "backwards": sorted(seen.backwards), "cleared": sorted(seen.cleared), "used": sorted(seen.used),
        "left": seen.left, "loose": seen.loose, "saving": sorted(seen.saving.items()), "inside": sorted(seen.inside),
        "norms": sorted(seen.norms.items()), "scaled": seen.scaled, "looked": seen.looked,
        "checkpoints": sorted(seen.checkpoints),
        "walked": sorted(seen.walked),
        "calls": sorted(call for call in seen.calls if call[0] not in seen.walking),
        "rounds": sorted(seen.rounds.items()), "output": seen.output,
    }  # fmt: skip


def _rows(frame: Any) -> Iterator[int]:
    """Yield the rows of the program that are running, the innermost first."""
    while frame is not None:
        if frame.f_code.co_filename == NAME:
            yield frame.f_lineno
        frame = frame.f_back


def _install(seen: Watch, change: Change, rows: dict[int, tuple[int, int]], lines: list[str]) -> Callable[[], None]:
    """Watch what the program does from here on; return what is called once it has ended."""
    import torch
    import torch.utils.checkpoint as checkpoints
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    optimizers: list[Any] = []
    kept: dict[int, Any] = {}
    used: dict[int, Any] = {}
    """The gradient that a step used, of each parameter."""
    pending: dict[int, dict[tuple[int, int], bool]] = {}
    """Of each parameter, the lines of the backward calls that its gradient comes from; whether it is stale."""
    first: dict[int, Any] = {}
    given: dict[int, int] = {}
    read: set[int] = set()
    written: set[int] = set()

    plain = torch._C.TensorBase.grad

    def running() -> list[int]:
        return list(_rows(sys._getframe(2)))

    def get(self: Any) -> Any:
        value = plain.__get__(self)
        if value is not None and id(self) in kept:
            frame = sys._getframe(1)
            name = frame.f_code.co_filename
            if name == NAME:
                row = frame.f_lineno
                if ".grad" in _NO_USE.sub("", lines[row - 1]):
                    seen.looked |= not isinstance(self, torch.nn.Parameter)
                    read.add(id(self))
                    norm(row)
            elif not any(part in name for part in _QUIET) and not busy:
                read.add(id(self))
                norm(next(_rows(frame), 0))
        return value

    def norm(row: int) -> None:
        if seen.scaled and row not in seen.norms:
            gradients = [g for g in (plain.__get__(p) for p in parameters()) if g is not None]
            size = torch.stack([g.detach().double().norm() for g in gradients]).norm().item() if gradients else 0.0
            if size:
                seen.norms[row] = size

    def parameters() -> list[Any]:
        return [p for each in optimizers for group in each.param_groups for p in group["params"]]

    busy: list[int] = []
    depth: list[tuple[int, int]] = []
    modules: list[Any] = []
    begin = torch.nn.Module.__init__

    def module(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        modules.append(self)

    torch.nn.Module.__init__ = module  # type: ignore[method-assign]
    torch.Tensor.grad = property(get, plain.__set__, plain.__delete__)  # type: ignore[assignment,method-assign]

    def same(one: Any, other: Any) -> bool:
        return one is not None and other is not None and one.shape == other.shape and bool(torch.equal(one, other))

    def sweep() -> None:
        """Forget what is cleared by now."""
        for number, sources in list(pending.items()):
            value = plain.__get__(kept[number])
            if value is None or not bool(value.detach().abs().sum() != 0):
                seen.cleared.update(sources)
                del pending[number]
                used.pop(number, None)

    inner = torch.autograd.backward

    def backward(*args: Any, **options: Any) -> Any:
        where = running()
        row = where[0] if where else 0
        if depth:
            # What a reentrant checkpoint goes back through belongs to the call that came to it.
            return run(depth[-1], args, options)
        seen.backwards[row] = seen.backwards.get(row, 0) + 1
        seen.walking.update(where)
        for line, (start, end) in rows.items():
            if any(start <= each <= end for each in where):
                seen.walked.add(line)
        call = row, seen.backwards[row]
        sweep()
        if change.without_backward is not None and row == change.without_backward[0]:
            if call[1] in change.without_backward[1]:
                return run(call, args, options, change.zeroed) if change.zeroed else None
        return run(call, args, options)

    def run(call: tuple[int, int], args: Any, options: Any, zeroed: bool = False) -> Any:
        tensors = args[0] if args else options["tensors"]
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        leaves = _leaves(tensors)
        before = {}
        for leaf in leaves:
            kept.setdefault(id(leaf), leaf)
            first.setdefault(id(leaf), leaf.detach().clone())
            value = plain.__get__(leaf)
            before[id(leaf)] = None if value is None else value.detach().clone()
        busy.append(1)
        depth.append(call)
        result = inner(*args, **options)
        depth.pop()
        busy.pop()
        for leaf in leaves:
            number = id(leaf)
            value = plain.__get__(leaf)
            if zeroed and value is not None and isinstance(leaf, torch.nn.Parameter):
                value.detach().copy_(torch.zeros_like(value) if before[number] is None else before[number])
            if value is None or same(before[number], value) or not bool(value.detach().abs().sum() != 0):
                continue
            given[number] = given.get(number, 0) + 1
            old = before[number] is not None and same(before[number], used.get(number))
            pending.setdefault(number, {})[call] = old and bool(used[number].abs().sum() != 0)
        return result

    torch.autograd.backward = backward

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> Any:
        busy.append(1)
        if not any(optimizer is each for each in optimizers):
            optimizers.append(optimizer)
        if not isinstance(optimizer, torch.optim.LBFGS):
            return None
        closure = args[1] if len(args) > 1 else kwargs["closure"]

        def evaluate() -> Any:
            value = closure()
            # This one evaluates as often as it likes, and uses the gradient each time.
            use(optimizer)
            return value

        return (args[0], evaluate), {}

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        busy.pop()
        use(optimizer)
        digest = hashlib.sha256()
        for parameter in parameters():
            digest.update(parameter.detach().contiguous().numpy().tobytes())
        seen.steps.append(digest.hexdigest())

    def use(optimizer: Any) -> None:
        sweep()
        number = next(index for index, each in enumerate(optimizers) if each is optimizer)
        place = 0
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                kept.setdefault(id(parameter), parameter)
                first.setdefault(id(parameter), parameter.detach().clone())
                value = plain.__get__(parameter)
                if parameter.requires_grad:
                    seen.fed.setdefault((number, place), []).append(value is not None)
                if value is not None:
                    used[id(parameter)] = value.detach().clone()
                    for call, stale in pending.pop(id(parameter), {}).items():
                        seen.used.add(call)
                        if stale:
                            seen.stale.add(call[0])
                place += 1

    register_optimizer_step_pre_hook(before_step)
    register_optimizer_step_post_hook(after_step)

    ours = checkpoints.checkpoint

    def checkpoint(function: Any, *args: Any, **options: Any) -> Any:
        reentrant = options.get("use_reentrant")
        if reentrant is None or reentrant:
            tensors = [each for each in args if isinstance(each, torch.Tensor)]
            frozen = isinstance(function, torch.nn.Module) and not any(p.requires_grad for p in function.parameters())
            if torch.is_grad_enabled() and not frozen and not any(each.requires_grad for each in tensors):
                seen.checkpoints.add(next(_rows(sys._getframe(1)), 0))
            if change.reentrant is False:
                options["use_reentrant"] = False
        return ours(function, *args, **options)

    checkpoints.checkpoint = checkpoint  # type: ignore[assignment]

    make = torch.amp.GradScaler.__init__

    def scaler(self: Any, *args: Any, **options: Any) -> None:
        if change.scale is not None:
            options["init_scale"] = change.scale
        make(self, *args, **options)
        if self.is_enabled():
            seen.scaled = True

    torch.amp.GradScaler.__init__ = scaler  # type: ignore[method-assign]

    live: dict[int, tuple[int, list[int]]] = {}
    totals: dict[int, int] = {}

    class Kept:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor
            # Arithmetic on parameters alone keeps no activations.
            if isinstance(tensor, torch.nn.Parameter) or not _in_module(sys._getframe(1)):
                return
            where = list(_rows(sys._getframe(1)))
            mine = [line for line, (start, end) in rows.items() if any(start <= each <= end for each in where)]
            size = tensor.numel() * tensor.element_size()
            live[id(self)] = size, mine
            for line in mine:
                start, end = rows[line]
                inner = next(index for index, each in enumerate(where) if start <= each <= end)
                seen.calls.update((each, line) for each in where[inner + 1 :] if not start <= each <= end)
                totals[line] = totals.get(line, 0) + size
                seen.saving[line] = max(seen.saving.get(line, 0), totals[line])
                for other in mine:
                    # A loop around another one, in its text or by a call.
                    if other != line and _around(rows, where, line, other):
                        seen.inside.add((line, other))

        def __del__(self) -> None:
            size, mine = live.pop(id(self), (0, []))
            for line in mine:
                totals[line] -= size

    hooks = torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor)
    hooks.__enter__()

    called: set[int] = set()
    torch.nn.modules.module.register_module_forward_pre_hook(lambda module, args: called.add(id(module)))

    def finish() -> None:
        owners: dict[int, list[int]] = {}
        for each in modules:
            for parameter in each._parameters.values():
                owners.setdefault(id(parameter), []).append(id(each))
        idle = {number for number, own in owners.items() if called.isdisjoint(own)}
        hooks.__exit__(None, None, None)
        sweep()
        for optimizer in list(optimizers):
            written.update(id(p) for group in optimizer.param_groups for p in group["params"])
        for each in gc.get_objects():
            if isinstance(each, torch.optim.Optimizer):
                written.update(id(p) for group in each.param_groups for p in group["params"])
        families = [_kept(each) for each in modules]
        for number, count in given.items():
            leaf = kept[number]
            if count >= MIN_STEPS and number not in written and number not in read and same(first[number], leaf):
                kin = any(number in kept_by and kept_by & written for kept_by in families)
                (seen.left if kin else seen.loose).append("x".join(map(str, leaf.shape)) or "scalar")
        # A parameter that the program writes itself is trained in another way.
        for number, optimizer in enumerate(optimizers):
            place = 0
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if id(parameter) in idle:
                        # A layer that no forward pass runs: what is wrong there is no gradient's business.
                        seen.idle |= not any(seen.fed.pop((number, place), [True]))
                    if id(parameter) in given:
                        seen.given.add((number, place))
                    if not same(first.get(id(parameter)), parameter.detach()):
                        seen.fed.pop((number, place), None) if not any(seen.fed.get((number, place), [True])) else None
                    place += 1

    return finish


def _in_module(frame: Any) -> bool:
    """Return whether a module's forward is running."""
    while frame is not None:
        if frame.f_code.co_name == "_call_impl":
            return True
        frame = frame.f_back
    return False


def _around(rows: dict[int, tuple[int, int]], where: list[int], outer: int, inner: int) -> bool:
    """Return whether a loop encloses another one among the rows that are running, the innermost first."""

    def depth(line: int) -> int:
        start, end = rows[line]
        return min(index for index, row in enumerate(where) if start <= row <= end)

    mine, other = depth(outer), depth(inner)
    return mine > other or (mine == other and rows[outer][0] <= rows[inner][0] and rows[inner][1] <= rows[outer][1])


def _leaves(tensors: list[Any]) -> list[Any]:
    """Return the leaves that the graphs of some tensors lead to."""
    found, seen = [], set()
    stack = []
    for tensor in tensors:
        if tensor.grad_fn is not None:
            stack.append(tensor.grad_fn)
        elif tensor.requires_grad:
            found.append(tensor)
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.append(variable)
        stack.extend(next_node for next_node, _ in node.next_functions)
    return found


def _kept(module: Any) -> set[int]:
    """Return the tensors that a module keeps, registered or in plain lists, dicts and attributes."""
    import torch

    found: set[int] = set()
    seen: set[int] = set()
    stack: list[Any] = [module]
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            found.add(id(value))
        elif isinstance(value, torch.nn.Module):
            stack.extend(vars(value).values())
        elif isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, (list, tuple)):
            stack.extend(value)
    return found
