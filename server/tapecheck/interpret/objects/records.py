"""Classes that Python makes from a list of names: dataclasses, named tuples, enums."""

from __future__ import annotations

import ast
from typing import TypeGuard

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.values import (
    Args,
    Asked,
    Class,
    Dict,
    Env,
    Field,
    Function,
    Instance,
    Kwargs,
    Lib,
    List,
    Native,
    Record,
    Signal,
    Unknown,
    Value,
    Wrapped,
    argument,
    attrs_of,
    is_constant,
    is_missing,
    known_keywords,
    known_text,
    listed,
    only,
    passed_on,
    perhaps_given,
    perhaps_overwritten,
    positional,
    user_class,
)
from tapecheck.source.nodes import id_of

_DATACLASSES = ("dataclass", "define", "attrs", "attr", "s", "frozen", "mutable")
_ENUMS = frozenset(("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "ReprEnum"))
_MODELS = frozenset(("pydantic.BaseModel", "pydantic_settings.BaseSettings", "flax.struct.PyTreeNode"))


def finish(machine: Engine, cls: Class, node: ast.ClassDef, namespace: Env) -> None:
    """Give a class that was just run its fields or members, where it is of one of these kinds."""
    bases = cls.library_bases()
    last = [base.rsplit(".", 1)[-1] for base in bases]
    if not _ENUMS.isdisjoint(last):
        _finish_enum(machine, cls, last, node)
        return
    if "NamedTuple" in last:
        cls.kind = "namedtuple"
        cls.fields = _annotated(machine, cls, node, namespace)
        return
    options = _dataclass_options(node) or ({"kw_only": True} if not _MODELS.isdisjoint(bases) else None)
    inherited = [field for base in reversed(list(cls.mro())[1:]) for field in base.fields or ()]
    if options is not None:
        _finish_dataclass(machine, cls, options, inherited, node, namespace)
    elif inherited and cls.kind == "":
        cls.kind, cls.fields = "dataclass", _merged(inherited)
        cls.options = next(base.options for base in cls.mro() if base.kind == "dataclass" and base is not cls)


def _finish_dataclass(
    machine: Engine, cls: Class, options: dict[str, bool], inherited: list[Field], node: ast.ClassDef, namespace: Env
) -> None:
    cls.kind, cls.options = "dataclass", options
    own = _annotated(machine, cls, node, namespace)
    for field in own:
        field.keyword = field.keyword or options.get("kw_only", False)
        if field.spec is not None:
            # The class keeps the default of a field, not the description of the field.
            cls.namespace.pop(field.name, None)
            if field.given:
                cls.namespace[field.name] = field.default
    cls.fields = _merged([*inherited, *own])


def _merged(fields: list[Field]) -> list[Field]:
    """Put a field in its place; one that is given again keeps the place it had."""
    return list({field.name: field for field in fields}.values())


def _annotated(machine: Engine, cls: Class, node: ast.ClassDef, namespace: Env) -> list[Field]:
    fields: list[Field] = []
    keyword = False
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not (name := id_of(statement.target)):
            continue
        annotation = ast.unparse(statement.annotation).strip("'\"")
        kind = annotation.split("[")[0].rsplit(".", 1)[-1]
        if kind == "ClassVar":
            continue
        if kind == "KW_ONLY":
            keyword = True
            continue
        field = Field(name, keyword=keyword, annotation=annotation)
        if statement.value is not None:
            default = namespace.vars.get(name)
            if isinstance(default, Instance) and isinstance(default.state, dict) and default.lib == "dataclasses.field":
                facts = default.state
                field.spec = default
                field.factory = facts.get("default_factory", facts.get("factory"))
                field.given = "default" in facts
                field.default = facts.get("default")
                field.init = facts.get("init") is not False
                field.keyword = keyword or facts.get("kw_only") is True
                field.compare = facts.get("compare") is not False
            else:
                field.given, field.default = True, default
        fields.append(field)
    return fields


def _dataclass_options(node: ast.ClassDef) -> dict[str, bool] | None:
    for decorator in node.decorator_list:
        target = getattr(decorator, "func", decorator)
        name = getattr(target, "attr", getattr(target, "id", ""))
        if name not in _DATACLASSES:
            continue
        options = {"frozen": name == "frozen"}
        for keyword in getattr(decorator, "keywords", ()):
            if keyword.arg is not None and isinstance(keyword.value, ast.Constant):
                options[keyword.arg] = bool(keyword.value.value)
        return options
    return None


# -- objects ----------------------------------------------------------------------------------------------------


def values_of(machine: Engine, fields: list[Field], args: Args, kwargs: Kwargs, node: ast.AST) -> dict[str, Value]:
    """Return the value of each field that a call of the class gives it."""
    values: dict[str, Value] = {}
    given = list(args)
    options = passed_on(kwargs)
    for field in fields:
        value: Value = Unknown.named(field.name)
        if not field.init:
            pass
        elif given and not field.keyword:
            values[field.name] = given.pop(0)
            continue
        elif field.name in kwargs:
            values[field.name] = kwargs[field.name]
            continue
        if field.factory is not None:
            value = machine.call(field.factory, [], {}, node)
        elif field.given:
            value = field.default
            if options is not None:
                value = perhaps_given(machine, options, field.name, value, node)
        elif not field.init:
            continue
        values[field.name] = value
    return values


def fill(machine: Engine, cls: Class, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """Run the `__init__` that a dataclass has by itself."""
    for name, value in values_of(machine, cls.fields or [], args, kwargs, node).items():
        machine.store_attribute(owner, name, value, node)
    after = machine.find_method(owner, "__post_init__")
    if after is not None:
        machine.call(after, [], {}, node)


def named_tuple(machine: Engine, cls: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Record:
    return Record(cls, list(values_of(machine, cls.fields or [], args, kwargs, node).values()))


def frozen(cls: Class) -> bool:
    return bool(cls.options.get("frozen"))


def compared(owner: Instance) -> tuple[Value, ...] | None:
    """Return what a dataclass object is compared by; None where it is compared as the object it is."""
    cls = owner.cls
    if cls is None or cls.kind != "dataclass" or cls.options.get("eq") is False:
        return None
    return tuple(owner.attrs.get(field.name, Unknown.named(field.name)) for field in cls.fields or () if field.compare)


def _with_fields(m: Engine, owner: Record, names: list[str], kwargs: Kwargs, node: ast.AST) -> Record:
    """`_replace` of a named tuple."""
    held: dict[str, Value] = dict(zip(names, owner))
    if (options := passed_on(kwargs)) is not None:
        perhaps_overwritten(m, held, options, node)
    return Record(owner.cls, list({**held, **{name: kwargs[name] for name in names if name in kwargs}}.values()))


def record_attribute(machine: Engine, owner: Record, name: str, node: ast.AST) -> Value:
    """Return a field or method of a named tuple; None where it has none of that name."""
    names = [field.name for field in owner.cls.fields or ()]
    if name in names:
        place = names.index(name)
        return owner[place] if place < len(owner) else Unknown.named(name)
    if name == "_replace":
        return Native(name, lambda m, args, kwargs, at: _with_fields(m, owner, names, kwargs, at))
    if name == "_asdict":
        return Native(name, lambda m, args, kwargs, at: Dict(dict(zip(names, owner)), born=m.world.position.clock))
    found = machine.class_attribute(owner.cls, name, owner, node)
    return None if is_missing(found) else found


def class_attribute(machine: Engine, cls: Class, name: str) -> Value:
    """Return what classes of these kinds have of themselves; None where nothing."""
    if cls.kind == "namedtuple":
        if name == "_fields":
            return tuple(field.name for field in cls.fields or ())
        if name == "_make":
            return Native(name, lambda m, args, kwargs, at: Record(cls, list(m.elements(args[0], at)) if args else []))
    if cls.members is not None and name == "__members__":
        return Dict(dict(cls.members.items()), born=machine.world.position.clock)
    if name == "__dataclass_fields__" and cls.kind == "dataclass":
        return Dict({field.name: Unknown("field") for field in cls.fields or ()}, born=machine.world.position.clock)
    return None


def _replaced(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """dataclasses.replace: a new object, with `__post_init__` run again."""
    owner = positional(args, 0)
    cls = _dataclass_of(owner)
    if not isinstance(owner, Instance) or cls is None:
        return m.library.opaque_result("replace", args, kwargs, node)
    given = {field.name: owner.attrs.get(field.name) for field in cls.fields or () if field.init}
    if (options := passed_on(kwargs)) is not None:
        perhaps_overwritten(m, given, options, node)
    given.update(known_keywords(kwargs))
    return m.call(cls, [], given, node)


def is_dataclass(value: Value) -> TypeGuard[Class]:
    """Whether a value is a dataclass of the program."""
    return isinstance(value, Class) and value.kind == "dataclass"


def _dataclass_of(value: Value) -> Class | None:
    """Return the dataclass that a value is or is an object of; None of anything else."""
    cls = user_class(value) or value
    return cls if is_dataclass(cls) else None


def _as_dict(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    born = m.world.position.clock

    def convert(value: Value) -> Value:
        if isinstance(value, Instance) and (cls := _dataclass_of(value)) is not None:
            return Dict({field.name: convert(value.attrs.get(field.name)) for field in cls.fields or ()}, born=born)
        if isinstance(value, (List, Dict)):
            return value.mapped(convert, born)
        return m.library.copy_of(value, node)

    return convert(args[0]) if args else Unknown("dict")


def _as_tuple(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = _as_dict(m, args, kwargs, node)
    return tuple(made.items.values()) if isinstance(made, Dict) else Unknown("tuple")


def _fields(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    cls = _dataclass_of(positional(args, 0))
    if cls is None:
        return Unknown("fields")
    made: list[Value] = []
    for field in cls.fields or ():
        described = Instance(None, "dataclasses.Field")
        described.attrs.update({"name": field.name, "default": field.default, "init": field.init})
        made.append(described)
    return tuple(made)


def _field(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Instance(None, "dataclasses.field")
    result.state = {**kwargs, "default": args[0]} if args else dict(kwargs)
    return result


def _is_dataclass(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner = positional(args, 0)
    return Unknown.plain("test") if isinstance(owner, Unknown) else _dataclass_of(owner) is not None


# -- named tuples and enums ---------------------------------------------------------------------------------------


def _namedtuple(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """collections.namedtuple(name, fields, defaults=)."""
    names = argument(args, kwargs, 1, "field_names")
    if isinstance(names, str):
        names = tuple(names.replace(",", " ").split())
    wanted = list(m.elements(names, node)) if names is not None else []
    fields = [Field(name) for name in only(wanted, str)]
    defaults = list(m.elements(kwargs["defaults"], node)) if kwargs.get("defaults") is not None else []
    for field, default in zip(reversed(fields), reversed(defaults)):
        field.given, field.default = True, default
    return _made_class(m, args, fields, node)


def _typed_namedtuple(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """typing.NamedTuple("Name", [("field", type), ...])."""
    pairs = m.elements(args[1], node) if len(args) > 1 else ()
    fields = [Field(pair[0]) for pair in pairs if isinstance(pair, tuple) and pair and isinstance(pair[0], str)]
    return _made_class(m, args, fields, node)


def _made_class(m: Engine, args: Args, fields: list[Field], node: ast.AST) -> Class:
    """Return the class of a named tuple, whose name is the first argument."""
    name = known_text(positional(args, 0)) or "Record"
    definition = ast.ClassDef(
        name, [], [], [], [], lineno=getattr(node, "lineno", 1), col_offset=getattr(node, "col_offset", 0)
    )
    base = Lib("typing.NamedTuple")
    return Class(name, [base], {}, m.module_of(m.envs[-1]), definition, "namedtuple", fields)


def _finish_enum(machine: Engine, cls: Class, bases: list[str], node: ast.ClassDef) -> None:
    cls.kind = "enum"
    cls.members = {}
    constant = any(base in ("IntEnum", "StrEnum", "IntFlag", "str", "int", "float") for base in bases)
    count = 0
    for name, value in list(cls.namespace.items()):
        if name.startswith("_") or isinstance(value, (Function, Wrapped, Class, Native)):
            continue
        if isinstance(value, Instance) and value.lib == "enum.auto":
            value = name.lower() if "StrEnum" in bases else (1 << count if "Flag" in bases else count + 1)
        count += 1
        member: Instance | Unknown
        if constant and is_constant(value):
            member = Unknown(f"{cls.name}.{name}")
            member.concrete = value
            member.take_for_data()
            member.asked = Asked({"value": value, "name": name})
        else:
            member = Instance(cls)
            member.attrs.update({"value": value, "name": name, "_value_": value, "_name_": name})
            init = machine.find_method(member, "__init__")
            if init is not None:
                machine.call(init, listed(value), {}, node)
        cls.namespace[name] = cls.members[name] = member


def member_of(machine: Engine, cls: Class, value: Value, node: ast.AST) -> Value:
    """`Mode("train")`: the member of that value."""
    for member in (cls.members or {}).values():
        attrs = member.asked.attrs if isinstance(member, Unknown) else attrs_of(member)
        held = None if attrs is None else attrs.get("value")
        if value is member or machine.known_truth(machine.compare(ast.Eq(), held, value, node)) is True:
            return member
    if is_constant(value) and machine.expects("ValueError"):
        raise Signal("ValueError")
    return Unknown.named(cls.name)


FUNCTIONS = {
    "dataclasses.replace": _replaced, "dataclasses.asdict": _as_dict, "dataclasses.astuple": _as_tuple,
    "dataclasses.fields": _fields, "dataclasses.field": _field, "dataclasses.is_dataclass": _is_dataclass,
    "attr.ib": _field, "attr.field": _field, "attrs.field": _field, "attr.evolve": _replaced,
    "attrs.evolve": _replaced, "attr.asdict": _as_dict, "attrs.asdict": _as_dict, "pydantic.Field": _field,
    "copy.replace": _replaced, "collections.namedtuple": _namedtuple, "typing.NamedTuple": _typed_namedtuple,
    "enum.auto": lambda m, args, kwargs, node: Instance(None, "enum.auto"),
}  # fmt: skip
