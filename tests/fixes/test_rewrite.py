"""Rewriting of calls, operands and assignments, with their formatting kept."""

from __future__ import annotations

import pytest

from tapecheck.fixes import rewrite


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("h", "h.detach()"),
        ("self.h[0]", "self.h[0].detach()"),
        ("a + b", "(a + b).detach()"),
        ("-x", "(-x).detach()"),
        ("f(\n    x,\n)", "f(\n    x,\n).detach()"),
        ("a if b else c", "(a if b else c).detach()"),
        ("lambda: 1", "(lambda: 1).detach()"),
        ("1", "(1).detach()"),
        ('"a" "b"', '("a" "b").detach()'),
        ('f"{a}"', 'f"{a}".detach()'),
        ('"a" f"{b}"', '("a" f"{b}").detach()'),
        ("x, y", "(x, y).detach()"),
        ("(x, y)", "(x, y).detach()"),
        ("(a) + (b)", "((a) + (b)).detach()"),
        ("(a + b)", "(a + b).detach()"),
        ("[i for i in x]", "[i for i in x].detach()"),
        ("(i for i in x)", "(i for i in x).detach()"),
    ],
)
def test_a_suffix_gets_parentheses_where_it_needs_them(before: str, after: str) -> None:
    assert rewrite.with_suffix(before, ".detach()") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss.backward(retain_graph=True)", "loss.backward()"),
        ("loss.backward(retain_graph = i < n)", "loss.backward()"),
        ("loss.backward(None, True)", "loss.backward(None)"),
        ("loss.backward(retain_graph=True, inputs=w)", "loss.backward(inputs=w)"),
        ("loss.backward(g, retain_graph=True, inputs=w)", "loss.backward(g, inputs=w)"),
        ("loss.backward(\n    g,\n    retain_graph=True,\n)", "loss.backward(\n    g,\n)"),
        ("loss.backward(\n    g,\n    retain_graph=True)", "loss.backward(\n    g)"),
        ("loss.backward(\n    retain_graph=True\n)", "loss.backward()"),
        ("é.f('🎉', retain_graph=True).g(retain_graph=(True))", "é.f('🎉', retain_graph=True).g()"),
        ("f(lambda a, b: (a, b), retain_graph=True, *c, **d)", "f(lambda a, b: (a, b), *c, **d)"),
        ("f((g), # one\n  retain_graph=True, # two\n  h=(i))", "f((g), # one\n  h=(i))"),
        ("f(a,\r\n  retain_graph=True)", "f(a)"),
        ("f(a,\r  retain_graph=True,\r  b=1)", "f(a,\r  b=1)"),
        ("f(f'{a,b}', retain_graph=x[1, 2])", "f(f'{a,b}')"),
    ],
)
def test_an_argument_is_taken_out(before: str, after: str) -> None:
    assert rewrite.without_argument(before, "retain_graph", 1) == after


def test_a_positional_argument_with_others_behind_it_stays() -> None:
    with pytest.raises(rewrite.RewriteError):
        rewrite.without_argument("loss.backward(None, True, False)", "retain_graph", 1)


def test_an_argument_that_is_not_there_cannot_be_taken_out() -> None:
    with pytest.raises(rewrite.RewriteError):
        rewrite.without_argument("loss.backward(**kwargs)", "retain_graph", 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("grad(y, x)", "grad(y, x, create_graph=True)"),
        ("grad(y, x,)", "grad(y, x, create_graph=True,)"),
        ("grad(y, x, retain_graph=True)", "grad(y, x, create_graph=True)"),
        ("grad(y, x, create_graph=False)", "grad(y, x, create_graph=True)"),
        ("grad(y, x, None, None, False)", "grad(y, x, None, None, True)"),
        (
            "grad(outputs=y,\n     inputs=x,\n     retain_graph=True)",
            "grad(outputs=y,\n     inputs=x,\n     create_graph=True)",
        ),
        ("grad(\n    y,\n    x,\n)", "grad(\n    y,\n    x,\n    create_graph=True,\n)"),
        ("grad()", "grad(create_graph=True)"),
        ("grad( )", "grad(create_graph=True )"),
        ("grad((y), *x)", "grad((y), *x, create_graph=True)"),
        ("grad(y, # of what\n     x, # by what\n)", "grad(y, # of what\n     x,\n     create_graph=True, # by what\n)"),
        ("grad(\n    y,\n    # by what\n    x,\n)", "grad(\n    y,\n    # by what\n    x,\n    create_graph=True,\n)"),
        ("grad(\r\n    y,\r\n    x,\r\n)", "grad(\r\n    y,\r\n    x,\r\n    create_graph=True,\r\n)"),
        ("grad(y, x, create_graph = (a or b), inputs=z)", "grad(y, x, create_graph = True, inputs=z)"),
    ],
)
def test_an_argument_is_set_replaced_or_added(before: str, after: str) -> None:
    assert rewrite.with_argument(before, "create_graph", "True", position=4, replacing=("retain_graph",)) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x += y", "x = x + y"),
        ("x+=y", "x=x + y"),
        ("x -= lr * g", "x = x - lr * g"),
        ("x -= a - b", "x = x - (a - b)"),
        ("x *= a + b", "x = x * (a + b)"),
        ("x /= a if b else c", "x = x / (a if b else c)"),
        ("self.x @= w.t()", "self.x = self.x @ w.t()"),
        ("h[t] += 1", "h[t] = h[t] + 1"),
        ("x **= 2", "x = x ** 2"),
        ("x *= (a + b)", "x = x * (a + b)"),
        ("x *= (a) + (b)", "x = x * ((a) + (b))"),
        ("x += (\n    a\n)", "x = x + (\n    a\n)"),
        ("x['+='] += y", "x['+='] = x['+='] + y"),
        ("x >>= 1 if a else b", "x = x >> (1 if a else b)"),
    ],
)
def test_an_augmented_assignment_becomes_a_plain_one(before: str, after: str) -> None:
    assert rewrite.out_of_place(before) == after


def test_what_is_no_augmented_assignment_is_refused() -> None:
    with pytest.raises(rewrite.RewriteError):
        rewrite.out_of_place("x = y")


def test_receivers_and_arguments_are_taken_apart() -> None:
    assert rewrite.receiver("(a + b).detach()") == "(a + b)"
    assert rewrite.receiver("score.data") == "score"
    assert rewrite.only_argument("torch.tensor(total / 4, dtype=torch.float)") == "total / 4"
    assert rewrite.argument("g(a, retain_graph=keep)", "retain_graph") == "keep"
    assert rewrite.argument("g(a)", "retain_graph") is None
    with pytest.raises(rewrite.RewriteError):
        rewrite.only_argument("torch.tensor(*parts)")


def test_elements_are_changed_one_by_one() -> None:
    def change(text: str) -> str | None:
        return None if text.endswith("()") else f"{text}.detach()"

    assert rewrite.elements("(h.detach(), c)", change) == "(h.detach(), c.detach())"
    assert rewrite.elements("h, c", change) == "h.detach(), c.detach()"
    assert rewrite.elements("[\n    h,\n    c,\n]", change) == "[\n    h.detach(),\n    c.detach(),\n]"
    with pytest.raises(rewrite.RewriteError):
        rewrite.elements("h", change)


@pytest.mark.parametrize("text", ["a +", "", "a) + (b", "x = 1", "a\nb c", "'", "f(", "\\"])
def test_broken_text_is_refused(text: str) -> None:
    with pytest.raises(rewrite.RewriteError):
        rewrite.with_suffix(text, ".detach()")


def test_no_argument_is_added_behind_a_generator_without_parentheses() -> None:
    with pytest.raises(rewrite.RewriteError):
        rewrite.with_argument("f(i for i in x)", "a", "1")
    assert rewrite.with_argument("f((i for i in x))", "a", "1") == "f((i for i in x), a=1)"
