"""A parameter that no optimizer has: register it, or hand it over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered
from tapecheck.fixes.code import Code, assigned, dotted, root_name, targets
from tapecheck.fixes.edit import Change
from tapecheck.fixes.strategies.cuts import is_under_no_grad
from tapecheck.fixes.strategies.registered import EFFECT, added_to, lacking_of, make_optimizer_later, switches_on
from tapecheck.rules.facts import Lacking
from tapecheck.source.nodes import STORES, attr_of, id_of, is_read, method_called, of_kind
from tapecheck.tape import Span
from tapecheck.torchfacts import classes


def register(context: Context) -> Iterator[Candidate]:
    """Wrap a plain list or dict in the container that registers what is in it, and a tensor in `nn.Parameter`."""
    code, lacking = context.code, lacking_of(context)
    if lacking is None or lacking.kind != "unregistered":
        return
    held: dict[ast.expr, str] = {}
    for span in _made(lacking):
        made, statement = context.call_at(span), code.statement_at(span)
        if made is None or statement is None:
            continue
        stored = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        if stored is made and switches_on(made):
            yield from _as_parameter(code, made)
            continue
        # What a helper of the module makes is stored where that is called.
        places = filter(None, map(code.statement_at, (span, *lacking.calls)))
        value = next((found for place in places if (found := _holder(code, place)) is not None), None)
        if value is not None and (_is_list(value) or _has_names(code, value, context.finding.facts.parameters)):
            held.setdefault(value, _container(code, made, value))
    # Several that lack together are mended together: one alone leaves the others in no optimizer.
    for values in dict.fromkeys((tuple(held), *((value,) for value in held))):
        if values:
            wrappers = " and ".join(f"`{wrapper}`" for wrapper in dict.fromkeys(held[value] for value in values))
            yield Candidate(
                f"Register them: {wrappers}",
                f"{EFFECT} `.to()` and `state_dict()` know them, too.",
                [_registered(code, value, held[value]) for value in values],
                group="register",
            )


def register_what_is_returned(context: Context) -> Iterator[Candidate]:
    """Wrap the call of a helper, in whichever file, that returns a plain list or dict of modules to an attribute."""
    code, lacking = context.code, lacking_of(context)
    if lacking is None or lacking.kind != "unregistered":
        return
    for storing in dict.fromkeys(map(code.statement_at, (context.finding.span, *lacking.calls))):
        value = storing.value if isinstance(storing, (ast.Assign, ast.AnnAssign)) else None
        wrapper = _module_for(context, storing) if isinstance(value, ast.Call) and storing is not None else ""
        if wrapper and value is not None:
            yield Candidate(
                f"Register them: `{wrapper}`", f"{EFFECT} `.to()` and `state_dict()` know them, too.",
                [code.replace(value, f"{wrapper}({code.segment(value)})")], group="register",
            )  # fmt: skip
            return


def _module_for(context: Context, storing: ast.stmt) -> str:
    """Return the container of `torch.nn` for what a statement stores in an attribute, where each parameter that lacks
    is one of a module in there, by a number or by a name; empty where that is not so.
    """
    stored = targets(storing)
    name = attr_of(stored[0]) if len(stored) == 1 else ""
    below = re.compile(rf"[^\[\]]*\.{re.escape(name)}\[([^\[\]]+)\]\.[^\[\]]+")
    keys = [found[1] if found is not None else "" for found in map(below.fullmatch, context.finding.facts.parameters)]
    kinds = {"List" if key.isdecimal() else "Dict" if _NAME_AS_KEY.fullmatch(key) else "" for key in keys}
    return f"{_nn(context.code)}.Module{min(kinds)}" if name and len(kinds) == 1 and "" not in kinds else ""


def _registered(code: Code, value: ast.expr, wrapper: str) -> Change:
    """Return the edit that wraps a plain list or dict, or puts the container in the place of an empty one."""
    empty = isinstance(value, ast.Call) or not code.segment(value).strip("[]{} \n")
    return code.replace(value, f"{wrapper}({'' if empty else code.segment(value)})")


def _holder(code: Code, statement: ast.stmt) -> ast.expr | None:
    """Return the plain list or dict that has what a statement makes, at once or by a name that it is given first."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(statement.value, _PLAIN):
        return statement.value
    found = _filled(code, statement)
    named = [one.id for one in targets(statement) if isinstance(one, ast.Name)]
    if found is not None or len(named) != 1 or not isinstance(statement, ast.Assign):
        return found
    loads = (load for load in code.loads(code.function(statement), named[0]) if load.lineno > statement.lineno)
    stored = (code.statement(load) for load in loads if _is_stored(code, load))
    held = (_holder(code, one) for one in stored if one is not None and named[0] not in map(id_of, targets(one)))
    return next((one for one in held if one is not None), None)


def _is_stored(code: Code, load: ast.expr) -> bool:
    """Return whether a name is read to become an element of something."""
    outer = code.parent(load)
    if isinstance(outer, (ast.List, ast.Dict, ast.Tuple)):
        return True
    if isinstance(outer, ast.Call):
        return load in outer.args and method_called(outer) in STORES
    return isinstance(outer, ast.Assign) and isinstance(outer.targets[0], ast.Subscript)


def _is_list(value: ast.expr) -> bool:
    return isinstance(value, (ast.List, ast.ListComp)) or (isinstance(value, ast.Call) and id_of(value.func) == "list")


def _has_names(code: Code, value: ast.expr, parameters: Sequence[str]) -> bool:
    """Return whether the keys of a dict can be names of modules, by the parameters that are reached through it."""
    statement = code.statement(value)
    pairs = assigned(statement) if statement is not None else ()
    name = next((attr_of(target) for target, stored in pairs if stored is value), None)
    own = [one for one in parameters if name is not None and f".{name}[" in one]
    return all(map(_is_named, own or parameters))


def _is_named(parameter: str) -> bool:
    """Return whether the keys by which a parameter is reached can be names of a module: text without a dot."""
    return all(_NAME_AS_KEY.fullmatch(key) for key in re.findall(r"\[([^]]*)]", parameter))


def _container(code: Code, made: ast.Call, value: ast.expr) -> str:
    """Return the container of `torch.nn` for what is made, in the place of a list or dict."""
    kind = "Module" if _is_module(made) and not switches_on(made) else "Parameter"
    return f"{_nn(code)}.{kind}{'List' if _is_list(value) else 'Dict'}"


def frozen_too(context: Context) -> Iterator[Candidate]:
    """Give the optimizer all parameters in the place of those that require grad when it is made: it steps what has a
    gradient.
    """
    code, lacking = context.code, lacking_of(context)
    making = code.statement_at(lacking.optimizer) if lacking is not None and lacking.whole else None
    if not isinstance(making, ast.Assign):
        return
    scope = code.function(making)
    listed = (store for one in of_kind(making.value, ast.Name) for store in code.stores(scope, one.id))
    for value in (making.value, *(store.value for store in listed if isinstance(store, ast.Assign))):
        for change in _unfiltered(code, value):
            yield Candidate(
                "Give the optimizer what is frozen, too: it is stepped once it has gradients", EFFECT, [change],
                group="frozen",
            )  # fmt: skip


def _unfiltered(code: Code, value: ast.expr) -> Iterator[Change]:
    """Yield the edits that take a choice of what requires grad out of an expression."""
    for part in ast.walk(value):
        match part:
            case ast.Call(func=ast.Name(id="filter"), args=[test, every]) if _asks_for_grad(test):
                yield code.replace(part, code.segment(every))
            case ast.ListComp() | ast.GeneratorExp():
                loop = part.generators[-1]
                if loop.ifs and all(map(_asks_for_grad, loop.ifs)):
                    yield Change(code.end(loop.iter), code.end(loop.ifs[-1]), "")


def _asks_for_grad(test: ast.expr) -> bool:
    body = test.body if isinstance(test, ast.Lambda) else test
    return attr_of(body) == "requires_grad"


def hand_over(context: Context) -> Iterator[Candidate]:
    """Give the optimizer the part that it lacks, as a group of its own."""
    code, lacking = context.code, lacking_of(context)
    if lacking is None or lacking.kind not in ("registered", "loose"):
        return
    making = code.statement_at(lacking.optimizer)
    if not isinstance(making, ast.Assign) or len(making.targets) > 1:
        return
    optimizer = dotted(making.targets[0])
    if optimizer is None:
        return
    if lacking.kind == "loose":
        yield from _loose(code, making, optimizer, lacking)
        return
    name = next((name for name in context.finding.facts.parameters if "." in name), "")
    owner = name.partition(".")[0]
    if name and lacking.whole:
        yield from _added(context, optimizer, lacking)
        # All that required grad when the optimizer was made may be one part of the model.
        yield from _beside_a_sibling(code, making, optimizer, name, lacking)
    elif name and owner not in (sibling.partition(".")[0] for sibling in lacking.siblings):
        yield from _whole_module(code, making, optimizer, owner, (*_made(lacking), *lacking.calls))
    elif name:
        yield from _beside_a_sibling(code, making, optimizer, name, lacking)


def _loose(code: Code, making: ast.Assign, optimizer: str, lacking: Lacking) -> Iterator[Candidate]:
    """Hand over tensors that are in no module."""
    for span in _made(lacking):
        made = code.statement_at(span)
        name = dotted(made.targets[0]) if isinstance(made, ast.Assign) else None
        line = f'{optimizer}.add_param_group({{"params": [{name}]}})'
        pair = code.same_block(making, made) if made is not None else None
        last = max(pair, key=lambda each: each.lineno) if pair is not None else None
        change = code.insert_after(last, [line]) if name and last is not None else None
        if change is not None:
            yield Candidate(f"Hand `{name}` over: `{optimizer}.add_param_group`", EFFECT, [change], group="over")


def _added(context: Context, optimizer: str, lacking: Lacking) -> Iterator[Candidate]:
    """Hand over what was added to a module that the optimizer has."""
    code = context.code
    for span in added_to(context, lacking):
        adding = code.statement_at(span)
        if not isinstance(adding, ast.Assign):
            continue
        owner = code.segment(adding.targets[0])
        parameters = f"{owner}.parameters()" if _is_module(adding.value) else f"[{owner}]"
        change = code.insert_after(adding, [f'{optimizer}.add_param_group({{"params": {parameters}}})'])
        if change is not None:
            yield Candidate(f"Hand it over: `{optimizer}.add_param_group`", EFFECT, [change], group="over")


def _beside_a_sibling(
    code: Code, making: ast.Assign, optimizer: str, name: str, lacking: Lacking
) -> Iterator[Candidate]:
    """Hand over `model.head` beside a sibling that was given: `model.body.parameters()`."""
    for node in ast.walk(making.value):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute() as sibling, attr="parameters")):
                part = _part(name, sibling.attr, lacking.siblings)
                given = f"{code.segment(sibling.value)}.{part}"
                parameters = f"[{given}]" if name.endswith(f".{part}") else f"{given}.parameters()"
                change = code.insert_after(making, [f'{optimizer}.add_param_group({{"params": {parameters}}})'])
                if change is not None:
                    yield Candidate(f"Hand `{part}` over, too: `{optimizer}.add_param_group`", EFFECT, [change])
                return


def _whole_module(
    code: Code, making: ast.Assign, optimizer: str, owner: str, calls: Sequence[Span]
) -> Iterator[Candidate]:
    """Hand over a module that the optimizer has nothing of: a loss with parameters of its own."""
    for call in calls:
        made = code.statement_at(call) if call.file == code.source.path else None
        pair = code.same_block(making, made) if made is not None and made is not making else None
        if pair is None or not isinstance(made, ast.Assign):
            continue
        named = [name for name in map(dotted, targets(made)) if name is not None]
        name = next((name for name in named if name in (owner, f"self.{owner}")), None)
        line = f'{optimizer}.add_param_group({{"params": {name}.parameters()}})'
        change = code.insert_after(max(pair, key=lambda each: each.lineno), [line])
        if name is not None and change is not None:
            yield Candidate(f"Hand `{name}` over, too: `{optimizer}.add_param_group`", EFFECT, [change], group="over")
            return


def make_once(context: Context) -> Iterator[Candidate]:
    """Make a layer in the `__init__` of the module whose method makes it anew at each call."""
    code, lacking = context.code, lacking_of(context)
    for span in (lacking.made[0], *lacking.calls) if lacking is not None and lacking.kind == "anew" else ():
        made = _whole_layer(code, context.call_at(span))
        owner, init = _method_of_module(code, made)
        if made is None or owner is None or init is None:
            continue
        method, own = code.function(made), init.args.args[0].arg
        name, changes = _in_the_place_of(code, made, own) if _once_in(code, made, method) else ("", [])
        stored = code.insert_after(init.body[-1], [f"{own}.{name} = {code.segment(made)}"])
        if name and changes and stored is not None and _same_in(made, own, method, init):
            yield Candidate(f"Make `{name}` once, in `__init__`", EFFECT, [stored, *changes], group="once")
        return


def _whole_layer(code: Code, made: ast.Call | None) -> ast.Call | None:
    """Return the call that takes in what a call makes, as `nn.Sequential(nn.Linear(2, 2))` does, else that itself."""
    outer = code.parent(made) if made is not None else None
    takes_in = isinstance(outer, ast.Call) and made in outer.args and root_name(outer.func) in code.imported()
    return _whole_layer(code, outer) if takes_in and isinstance(outer, ast.Call) else made


def _once_in(code: Code, made: ast.Call, method: ast.AST) -> bool:
    """Return whether each call of a method makes one of what a call in it makes, whatever holds then."""
    around = takewhile(lambda parent: not isinstance(parent, ast.stmt), code.parents(made))
    always = not any(isinstance(one, (*_EACH, ast.IfExp, ast.BoolOp)) for one in around)
    return always and isinstance(method, ast.FunctionDef) and code.statement(made) in method.body


def _is_free(code: Code, name: str, method: ast.AST | None = None) -> bool:
    """Return whether no class of a file has an attribute of a name, but for what a method does with its own, and no
    module has one.
    """
    attributes = (one for one in of_kind(code.tree, ast.Attribute) if one.attr == name)
    named = (one for owner in of_kind(code.tree, ast.ClassDef) for one in owner.body)
    taken = any(getattr(one, "name", "") == name or name in map(dotted, targets(one)) for one in named)
    own = all(method is not None and code.inside(one, method) for one in attributes)
    return own and not taken and classes.module_lacks(name)


def _only_read(code: Code, loads: Sequence[ast.expr]) -> bool:
    """Return whether loads are of what a statement computes something with, nothing that may set what is loaded."""
    for load in loads:
        value = getattr(code.statement(load), "value", None)
        # A statement that leaves its value alone is there for what it does, as `nn.init.zeros_(head.bias)` is.
        if isinstance(code.statement(load), ast.Expr) or value is None or not code.inside(load, value):
            return False
        if any(method_called(one).endswith("_") for one in code.parents(load) if isinstance(one, ast.Call)):
            return False
    return True


def _in_the_place_of(code: Code, made: ast.Call, own: str) -> tuple[str, list[Change]]:
    """Return a name for what a call makes, and the changes that take it from the attribute of that name: the variable
    that it is stored in, else what it is an instance of.
    """
    making, method = code.statement(made), code.function(made)
    if not isinstance(making, ast.Assign) or making.value is not made:
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", attr_of(made.func) or id_of(made.func)).lower()
        return name, [code.replace(made, f"{own}.{name}")] if _is_free(code, name) else []
    return _in_the_place_of_name(code, making, method, own)


def _in_the_place_of_name(code: Code, making: ast.Assign, method: ast.AST, own: str) -> tuple[str, list[Change]]:
    """Return the same for a statement that stores what is made, where nothing else sets it in the method."""
    gone, written = code.delete(making), dotted(making.targets[0]) or ""
    loads, name = code.loads(method, written), written.removeprefix(f"{own}.")
    others = [one for one in of_kind(method, ast.Name) if one.id == written and not is_read(one)]
    alone = code.stores(method, written) == [making] and len(others) <= 1 and _only_read(code, loads)
    kept = name != written
    if gone is None or not alone or not _is_free(code, name, method if kept else None):
        return name, []
    return name, [gone] if kept else [gone, *(code.replace(load, f"{own}.{name}") for load in loads)]


def _method_of_module(code: Code, made: ast.Call | None) -> tuple[ast.ClassDef, ast.FunctionDef] | tuple[None, None]:
    """Return the class in one of whose methods a call stands, and its `__init__`; None where it has none."""
    owner, method = (code.owner(made), code.function(made)) if made is not None else (None, None)
    found = next((one for one in owner.body if getattr(one, "name", "") == "__init__"), None) if owner else None
    if owner is None or method is found or method not in owner.body or not isinstance(found, ast.FunctionDef):
        return None, None
    same = isinstance(method, ast.FunctionDef) and _first(method) and _first(method) == _first(found)
    return (owner, found) if same else (None, None)


def _first(function: ast.FunctionDef) -> str:
    """Return the first argument of a function; empty where it has none."""
    return function.args.args[0].arg if function.args.args else ""


def _same_in(value: ast.expr, own: str, *functions: ast.AST) -> bool:
    """Return whether a value means the same in each of some functions: of their names it reads the object alone."""
    local = set[str]()
    for function in functions:
        local |= {one.arg for one in of_kind(function, ast.arg)}
        local |= {one.id for one in of_kind(function, ast.Name) if _stored(one)}
        local |= {(one.asname or one.name).partition(".")[0] for one in of_kind(function, ast.alias)}
    return not (local - {own}) & {one.id for one in of_kind(value, ast.Name)}


def _stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


_EACH = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NAME_AS_KEY = re.compile(r"'[^'.]+'|\"[^\".]+\"")
"""A key that can be the name of a module, as a finding writes it."""
_PLAIN = (ast.List, ast.ListComp, ast.Dict, ast.DictComp)


def _as_parameter(code: Code, made: ast.Call) -> Iterator[Candidate]:
    value = rewrite.tried(rewrite.without_argument, code.segment(made), "requires_grad")
    if value is not None:
        yield Candidate(
            "Make it an `nn.Parameter`",
            f"{EFFECT} `.to()` and `state_dict()` know it, too.",
            [code.replace(made, f"{_nn(code)}.Parameter({value})")],
            group="register",
        )


def _is_module(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Call) and (dotted(value.func) or "").endswith("Parameter"))


def _is_plain(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="list" | "dict"), args=[], keywords=[]):
            return True
    return isinstance(value, _PLAIN)


def _filled(code: Code, statement: ast.stmt) -> ast.expr | None:
    """Return the empty container that a statement fills: `self.layers = []` above `self.layers.append(...)`."""
    methods = (node.func for node in of_kind(statement, ast.Call) if method_called(node) in STORES)
    filled = [one.value for one in methods if isinstance(one, ast.Attribute)]
    filled += [one.value for one in targets(statement) if isinstance(one, ast.Subscript)]
    filled += targets(statement) if isinstance(statement, ast.AugAssign) else []
    names = set(map(dotted, filled)) - {None}
    made = (pair for one in of_kind(code.owner(statement) or code.tree, ast.Assign) for pair in assigned(one))
    return next((value for target, value in made if _is_plain(value) and dotted(target) in names), None)


def _nn(code: Code) -> str:
    """Return what the file calls `torch.nn`."""
    for node in ast.walk(code.tree):
        wanted = "torch.nn" if isinstance(node, ast.Import) else "nn" if getattr(node, "module", "") == "torch" else ""
        for alias in node.names if wanted and isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            if alias.name == wanted:
                return alias.asname or wanted
    return "torch.nn"


def _part(name: str, sibling: str, siblings: Sequence[str]) -> str:
    """Return the attribute of a leaf's path that stands where a sibling's does: a module, or the leaf itself."""
    parts = name.split(".")
    for path in (one.split(".") for one in siblings):
        if sibling in path and path.index(sibling) < len(parts):
            return parts[path.index(sibling)]
    return parts[-2]


def _made(lacking: Lacking) -> list[Span]:
    return list(dict.fromkeys(lacking.made))


def fill_in_place(context: Context) -> Iterator[Candidate]:
    """Write `layer.weight = nn.Parameter(value)` as a change in place of the tensor that the optimizer has."""
    code, lacking = context.code, lacking_of(context)
    if lacking is None or lacking.kind != "renamed":
        return
    for statement in dict.fromkeys(map(code.statement_at, (*_made(lacking), context.finding.span))):
        value = _made_a_parameter(code, statement) if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or value is None or not code.alone(statement):
            continue
        torch, needed = code.torch()
        target = code.segment(statement.targets[0])
        lines = [f"{target}.copy_({code.segment(value)})"]
        if not is_under_no_grad(code, statement):
            lines = [f"with {torch}.no_grad():", f"    {lines[0]}"]
        change = Change(code.start(statement), code.end(statement), f"\n{code.indent(statement) or ''}".join(lines))
        effect = f"`{target}` stays the tensor that the optimizer trains. Check that the new values have its shape."
        yield from offered(f"Change `{target}` in place: `copy_`", effect, change, *needed, group="in place")


def _made_a_parameter(code: Code, statement: ast.Assign) -> ast.expr | None:
    """Return what a statement stores as a new parameter of the old one's shape, as far as the text says that: `value`
    of `layer.weight = nn.Parameter(value)`.
    """
    match statement:
        case ast.Assign(targets=[ast.Attribute() | ast.Name()], value=ast.Call(func=func, args=[value])):
            made = classes.public(code.path(func)) == "torch.nn.Parameter"
            return value if made and _keeps_shape(value) else None
    return None


def _keeps_shape(value: ast.expr) -> bool:
    """Return whether an expression computes with operators, or with a method that could work in place."""
    match value:
        case ast.BinOp() | ast.UnaryOp():
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return not classes.tensor_lacks(f"{name}_")
    return False


STRATEGIES: tuple[Strategy, ...] = (
    register,
    register_what_is_returned,
    make_optimizer_later,
    frozen_too,
    hand_over,
    make_once,
    fill_in_place,
)
"""What is proposed, preferred first."""
