"""Which parameters DistributedDataParallel could not reduce, and the lines that say why."""

from __future__ import annotations

import ast
import re
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Tuple, Union

from .hooks import nodes_of, roots_of
from .lines import ThreadLines
from .recording import Recording
from .sources import SourceText
from .writer import Site, span

if TYPE_CHECKING:
    from torch import Tensor
    from torch.autograd.graph import Node
    from torch.nn import Module
    from torch.nn.parallel import DistributedDataParallel

_UNUSED = re.compile(r"Parameter indices which did not receive grad for rank \d+:((?: \d+)+)")
_TWICE = re.compile(r"Parameter at index (\d+)(?: with name (\S+))? has been marked as ready twice")
_MAX_NODES = 200_000
_MAX_LINES = 8


def not_reduced(error: BaseException) -> bool:
    """Return whether an exception is DistributedDataParallel's about parameters without a gradient, or with two."""
    text = str(error)
    return _UNUSED.search(text) is not None or _TWICE.search(text) is not None


class ParallelReport:
    """Writes the parameters that such an exception is about, with the lines that make and use them."""

    def __init__(self) -> None:
        self._told = False

    def write(
        self, recorder: Recording, lines: ThreadLines, error: BaseException, traceback: Optional[TracebackType]
    ) -> None:
        """Write it as measures, in the innermost user frame that the exception passes."""
        if recorder.tracer.passed_on(traceback):
            return
        model = _model(traceback) or _only(recorder.torch)
        if self._told or model is None:
            return
        self._told = True
        text = str(error)
        unused, twice = _UNUSED.search(text), _TWICE.search(text)
        own = list(_parameters(model))
        indices = [int(index) for index in unused[1].split()] if unused else [int(twice[1])] if twice else []
        found = [own[index] for index in indices if index < len(own)]
        with recorder.group():
            recorder.declare_loops(lines)
            event, here = recorder.writer.event, recorder.here(lines)
            kind = "unused" if unused else "twice"
            event("Measure", at=here, name="parallel-" + kind, value=len(indices), unit="parameters")
            for name, parameter in found:
                at = _made(recorder, model.module, name)
                event("Measure", at=here if at is None else at, name="parallel-parameter:" + name,
                      value=int(at is not None), unit="place")  # fmt: skip
                if twice:
                    for at in _uses(recorder, parameter, traceback):
                        event("Measure", at=at, name="parallel-use:" + name, value=1, unit="place")


def _model(traceback: Optional[TracebackType]) -> Optional[DistributedDataParallel]:
    """Return the DistributedDataParallel whose forward an exception passes."""
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_filename.endswith("distributed.py"):
            owner = frame.f_locals.get("self")
            if type(owner).__name__ == "DistributedDataParallel":
                return owner
        traceback = traceback.tb_next
    return None


def _only(torch: ModuleType) -> Optional[DistributedDataParallel]:
    """Return the one DistributedDataParallel there is: the backward does not lead to it."""
    found = _wrappers(torch)
    return found[0] if len(found) == 1 else None


def _wrappers(torch: ModuleType) -> List[DistributedDataParallel]:
    """Return all that there are. The type is asked, since an object may say anything of its class."""
    import gc

    kind = torch.nn.parallel.DistributedDataParallel
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]


def averaged(torch: ModuleType) -> Iterator[Tensor]:
    """Yield the parameters whose gradients DistributedDataParallel averages over all processes: those of models that no
    hook of the program reduces in another way.
    """
    several = torch.distributed.get_world_size()
    for model in _wrappers(torch):
        try:
            if model.process_group.size() == several and not model._comm_hooks:
                yield from (parameter for _, parameter in _parameters(model))
        except (AttributeError, RuntimeError):
            # Its constructor raised: it was left half made.
            continue


def _parameters(model: DistributedDataParallel) -> Iterator[Tuple[str, Tensor]]:
    """Yield the parameters in the order in which the reducer counts them, each once, with their names."""
    seen = set()
    for full, parameter in _inside(model.module):
        if parameter.requires_grad and full not in model.parameters_to_ignore and id(parameter) not in seen:
            seen.add(id(parameter))
            yield full, parameter


def _inside(module: object) -> Iterator[Tuple[str, Tensor]]:
    """Yield the parameters of a module and of those in it, in torch's own order: no method of the user's is called."""
    seen = set()
    stack = [("", module)]
    while stack:
        prefix, each = stack.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        own = vars(each)
        for name, parameter in own.get("_parameters", {}).items():
            if parameter is not None:
                yield prefix + name, parameter
        below = [(prefix + name + ".", inner) for name, inner in own.get("_modules", {}).items() if inner is not None]
        stack.extend(reversed(below))


def _made(recorder: Recording, module: Module, name: str) -> Optional[int]:
    """Return the site of the statement that gives the innermost module of the user's, on the way to a parameter, what
    leads on to it.
    """
    found = None
    parts = name.split(".")
    for position, part in enumerate(parts):
        code = getattr(getattr(type(module), "__init__", None), "__code__", None)
        if code is not None and recorder.sources.is_user(code.co_filename):
            # A name of a file's own class: what a base in a library keeps is not told apart from it.
            row = _assigned(recorder.sources.text(code.co_filename), code.co_firstlineno, part)
            if row is not None:
                found = code.co_filename, row, type(module).__name__
        if position < len(parts) - 1:
            module = module._modules.get(part)
    if found is None:
        return None
    filename, row, owner = found

    def make() -> Site:
        extent = recorder.sources.text(filename).line_extent(row)
        return span(recorder.sources.name(filename), extent), owner, [], ()

    return recorder.writer.site(("parallel", filename, row), make)


def _assigned(text: SourceText, first: int, attribute: str) -> Optional[int]:
    """Return the row in which the class with a constructor at a row assigns an attribute of `self`."""
    try:
        tree = ast.parse("\n".join(text.lines))
    except (SyntaxError, ValueError, RecursionError):
        return None
    owners = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.lineno <= first <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    for owner in sorted(owners, key=lambda node: -node.lineno):
        for node in ast.walk(owner):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Call)) and _assigns(node, attribute):
                return node.lineno
    return None


def _assigns(node: Union[ast.Assign, ast.AnnAssign, ast.Call], attribute: str) -> bool:
    """Return whether a statement or call gives `self` an attribute of that name."""
    if isinstance(node, ast.Call):
        registers = getattr(node.func, "attr", "") in ("add_module", "register_parameter")
        name = node.args[0] if registers and node.args else None
        return isinstance(name, ast.Constant) and name.value == attribute
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Attribute) and target.attr == attribute for target in targets)


def _uses(recorder: Recording, parameter: Tensor, traceback: Optional[TracebackType]) -> List[int]:
    """Return the sites of the operations, checkpointed functions included, that use a parameter in a graph."""
    roots: List[Optional[Node]] = []
    while traceback is not None and not roots:
        if traceback.tb_frame.f_code.co_name == "_engine_run_backward":
            roots = nodes_of(roots_of(traceback.tb_frame))
        traceback = traceback.tb_next
    found: Dict[int, None] = {}
    for node in recorder.reader.walk_all(roots, _MAX_NODES):
        function = getattr(node, "run_function", None)
        mine = any(getattr(source, "variable", None) is parameter for source, _ in node.next_functions)
        if mine or (function is not None and any(each is parameter for each in _within(function))):
            place, _ = recorder.tracer.where(node._sequence_nr())
            if place is not None:
                found.setdefault(recorder.site(place, ()), None)
    return list(found)[:_MAX_LINES]


def _within(function: object) -> Iterator[object]:
    """Yield the parameters of a checkpointed function: a module, its method, or a closure over modules."""
    holders = [function, getattr(function, "__self__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            holders.append(cell.cell_contents)
        except ValueError:
            continue
    for holder in holders:
        if "_parameters" in getattr(holder, "__dict__", {}):
            for _, parameter in _inside(holder):
                yield parameter
