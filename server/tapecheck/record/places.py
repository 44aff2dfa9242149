"""Whether what a run measured lies in the place of a finding: its file, function, loop, line and holder."""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterator

from tapecheck.record.held import Series
from tapecheck.record.story import Story
from tapecheck.rules import Finding
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts
from tapecheck.tape import Optimizer, Site, Span

_STORES = ("kept", "carried")
"""The roles of labels at statements that store what a finding is about."""

_SUBSCRIPT = re.compile(r"\[[^][]*\]")
_ANY = "[*]"
"""How a run names an attribute of any of the objects in a container."""


def loop_of(finding: Finding) -> Span | None:
    """Return the loop over whose iterations a finding says that graphs pile up."""
    return finding.facts.loop


def holder_of(finding: Finding) -> str:
    """Return the name of what keeps graphs; empty for findings of other rules."""
    return finding.facts.holder if isinstance(finding.facts, GraphKeptFacts) else ""


def _known_scope(finding: Finding) -> Span | None:
    return finding.facts.scope if isinstance(finding.facts, GraphKeptFacts) else None


def outside_its_loop(story: Story, finding: Finding) -> bool:
    """Return whether the lines of a finding ran, but not within the loop that it is about."""
    loop = loop_of(finding)
    if loop is None or not is_statement(story, loop):
        return False
    seen = story.loops_of(finding.span)
    return bool(seen) and seen <= story.reading.loops.keys() and not any(story.is_loop(one, loop) for one in seen)


def holds_there(story: Story, series: Series, finding: Finding) -> bool:
    """Return whether a holder that the run saw is the one of a finding, stored by its lines within its loop."""
    if not _in_loop(story, series, finding) or _of_other_scopes(story, series.scope, _known_scope(finding)):
        return False
    spans = list(_stores(finding))
    predicted = holder_of(finding)
    if any(story.at(span, place) for span in spans for place in (series.at.span, *story.bound(series))):
        if _stored_text(story, finding.facts.stored or finding.span) == series.holder:
            # The statement's own name for what the finding calls by another one.
            return True
        return named_alike(series.holder, predicted) or not _stored_beside(story, spans, series.holder, predicted)
    # One variable is stored by several statements of a loop, of which the run names one.
    loop = loop_of(finding)
    same_loop = loop is not None and story.is_loop(series.loop, loop) and named_alike(series.holder, predicted)
    if not same_loop:
        return False
    return any(_same_function(story, span, series.at) for span in spans) or _is_of_scope(story, series.scope, finding)


def same_holder(story: Story, left: Finding, right: Finding) -> bool:
    """Return whether two findings name one holder that grows over the same loop, or over one that has the other."""
    if _of_other_scopes(story, _known_scope(left), _known_scope(right)):
        return False
    others = list(_loops_of(right))
    if not any(one.line == other.line and story.at(one, other) for one in _loops_of(left) for other in others):
        return False
    return named_alike(holder_of(left), holder_of(right))


def _loops_of(finding: Finding) -> Iterator[Span]:
    loop = loop_of(finding)
    if loop is not None:
        yield loop
        yield from (label.span for label in finding.labels if label.role == "path")


def its_optimizers(story: Story, finding: Finding) -> list[Optimizer]:
    """Return the optimizers of the run that were made where a finding says that those of its parameters are."""
    made = finding.facts.optimizers
    return [one for one in story.reading.optimizers.values() if any(story.at(span, one.at.span) for span in made)]


def reached_there(story: Story, finding: Finding) -> set[int] | None:
    """Return the leaves that the backward calls of a finding came to, None where the run has none of these calls."""
    span = finding.facts.backward if isinstance(finding.facts, UntrainedParameterFacts) else None
    runs = story.runs_at(span) if span is not None else []
    return {number for run in runs for number in run.executed} if runs else None


def is_made_of(story: Story, found: Finding, other: Finding) -> bool:
    """Return whether a holder is made anew of what another one keeps, by a statement that names that: a copy of a list
    keeps what the list does, for as long as that does.
    """
    names = {_parts(holder_of(other))[-1]}
    mine, others = [], []
    for series in story.holdings.series.values():
        if holds_there(story, series, other):
            others.append(series)
            names.add(_parts(series.holder)[-1])
        elif series.holder == holder_of(found) and story.at(found.span, series.at.span):
            mine.append(series)
    read = bool(names & _names_read_by(story, found.span))
    return read and any(_keeps_all(one, two) for one in others for two in mine)


def _keeps_all(series: Series, other: Series) -> bool:
    """Return whether one holder has all that another one has, at each look at both."""
    held = {sample.index: set(sample.held) for sample in series.samples}
    looks = [set(sample.held) <= held[sample.index] for sample in other.samples if sample.index in held]
    return series.loop == other.loop and len(looks) > 1 and all(looks)


def _names_read_by(story: Story, span: Span) -> set[str]:
    """Return what the values are made of that the assignments of a span store."""
    tree = story.files.tree(span.file)
    return {
        getattr(node, "id", getattr(node, "attr", ""))
        for assigned in (ast.walk(tree) if tree is not None else ())
        if isinstance(assigned, ast.Assign) and span.line <= assigned.lineno <= max(span.end_line, span.line)
        for node in ast.walk(assigned.value)
    }


def given_together(story: Story, finding: Finding) -> list[tuple[int, Site]]:
    """Return the leaves whose used gradient a backward was seen to change, with that call, where the backward of a
    finding came to them for the same step: it added zeros.
    """
    steps = [position for position, _ in story.reading.steps]
    mine = [(bisect.bisect(steps, run.position), run) for run in story.runs_at(finding.span)]
    return [
        (leaf, at)
        for leaf, at in story.gradients.stale
        for run in story.runs_at(at.span)
        if run.at.iteration == at.iteration
        and any(leaf in own.executed and step == bisect.bisect(steps, run.position) for step, own in mine)
    ]


def is_statement(story: Story, loop: Span) -> bool:
    """Return whether a loop is a statement whose body has lines of its own, so that the recorder sees it run."""
    tree = story.files.tree(loop.file)
    return tree is not None and any(
        isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and node.body[0].lineno > node.lineno
        for node in ast.walk(tree)
        if getattr(node, "lineno", 0) == loop.line
    )


def _in_loop(story: Story, series: Series, finding: Finding) -> bool:
    """Return whether a series is of the finding's loop, of one within it or of one around it."""
    loop = loop_of(finding)
    if loop is None:
        return True
    runs = story.runs_of_loop(loop)
    if not runs:
        # The iterations of a library's loop, or of one on a single line, may have been seen as those of another.
        return not is_statement(story, loop)
    around = {number for number, _ in series.at.iteration} | {series.loop}
    return any(one.id in around or series.loop in dict(one.at.iteration) for one in runs)


def _stores(finding: Finding) -> Iterator[Span]:
    yield finding.span
    if finding.facts.stored is not None:
        yield finding.facts.stored
    for label in finding.labels:
        if label.role in _STORES:
            yield label.span


def named_alike(recorded: str, predicted: str) -> bool:
    """Return whether two names may be of one holder: `model.mean` is what the model's own code calls `self.mean`, and a
    run may leave out the keys of `self.meters["loss"].sum`.
    """
    if _end_alike(_own_parts(recorded), _own_parts(predicted)):
        return True
    keys = iter(_SUBSCRIPT.findall(predicted))
    if not all(key in keys for key in _SUBSCRIPT.findall(recorded) if key != _ANY):
        # The run has another key than the finding.
        return False
    return _end_alike(*(_own_parts(_SUBSCRIPT.sub("", name)) for name in (recorded, predicted)))


def _own_parts(name: str) -> list[str]:
    return [part for part in _parts(name) if part not in ("self", "cls")]


def _end_alike(left: list[str], right: list[str]) -> bool:
    return bool(left and right) and all(a == b for a, b in zip(left[::-1], right[::-1], strict=False))


def _parts(name: str) -> list[str]:
    return [part.strip("]'\"") for part in name.replace("[", ".").split(".")]


def _stored_beside(story: Story, spans: list[Span], recorded: str, predicted: str) -> bool:
    """Return whether the same lines store under both names: `a, b = f(a), g(b)`."""
    stored = {name for span in spans for name in _names_stored(story, span)}
    return _parts(recorded)[-1] in stored and _parts(predicted)[-1] in stored


def _names_stored(story: Story, span: Span) -> Iterator[str]:
    tree = story.files.tree(span.file)
    for node in ast.walk(tree) if tree is not None else ():
        if span.line <= getattr(node, "lineno", 0) <= max(span.end_line, span.line):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                yield node.id if isinstance(node, ast.Name) else node.attr
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                holder = node.func.value
                yield getattr(holder, "id", getattr(holder, "attr", ""))


def _stored_text(story: Story, span: Span) -> str:
    """Return the one thing that a statement stores under, else fills by a method, as it is written: `last.total`."""
    tree = story.files.tree(span.file)
    begins, ends = (span.line, span.column), (span.end_line, span.end_column)
    stored: set[str] = set()
    filled = ""
    for node in ast.walk(tree) if tree is not None else ():
        if begins <= (getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1) < ends:
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
                stored.add(ast.unparse(node))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                # Outer calls are walked before inner ones.
                filled = filled or ast.unparse(node.func.value)
    return stored.pop() if len(stored) == 1 else "" if stored else filled


def _same_function(story: Story, span: Span, site: Site) -> bool:
    if story.file(span.file) != story.file(site.file):
        return False
    tree = story.files.tree(span.file)
    return tree is not None and _function_at(tree, span.line) is _function_at(tree, site.line)


def _is_of_scope(story: Story, scope: Span | None, finding: Finding) -> bool:
    """Return whether what a run names is a variable of the same function, or module, as the holder of a finding, or is
    remembered by the same function.
    """
    return scope is not None and _begin(story, scope) == _scope_of(story, finding)


def _scope_of(story: Story, finding: Finding) -> tuple[str, int] | None:
    """Return the file and the first line of the function that has the variable which a finding names.

    As it is named in the loop and where it is stored, else in the calls that lead there. None where that tells nothing,
    or not of which one it is.
    """
    known = _known_scope(finding)
    if known is not None:
        return _begin(story, known)
    name, loop = _parts(holder_of(finding))[0], loop_of(finding)
    found = {_named_at(story, name, span, given=False) for span in _stores(finding)}
    found |= {_named_at(story, name, loop)} if loop is not None else set()
    if found == {None}:
        found |= {_named_at(story, name, label.span) for label in finding.labels if label.role == "called"}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def _named_at(story: Story, name: str, span: Span, *, given: bool = True) -> tuple[str, int] | None:
    line = story.files.scopes(span.file).begin(name, span.line, given=given)
    return (story.file(span.file), line) if line is not None else None


def _begin(story: Story, scope: Span) -> tuple[str, int]:
    return story.file(scope.file), scope.line


def _of_other_scopes(story: Story, *scopes: Span | None) -> bool:
    """Return whether scopes are known, and not the same one."""
    return None not in scopes and len({_begin(story, scope) for scope in scopes if scope is not None}) > 1


def _function_at(tree: ast.AST, line: int) -> ast.AST:
    """Return the innermost function around a line, or the module."""
    found = tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= line <= (node.end_lineno or 0):
            # Outer functions are walked before inner ones.
            found = node
    return found
