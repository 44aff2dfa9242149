"""Hovers on what cuts a graph off and on optimizers, and how they name parameters."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tapecheck.check import check
from tapecheck.lsp.hover import Explainer
from tapecheck.source import from_text

PROGRAM = dedent(
    """\
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x)

    model = Net()
    head = nn.Linear(4, 1)
    unused = nn.Linear(4, 1)
    optimizer = torch.optim.Adam([*head.parameters(), *unused.parameters()])
    for step in range(5):
        features = model(torch.randn(2, 4))
        frozen = features.detach()
        loss = head(frozen).mean()
        with torch.no_grad():
            score = model(torch.ones(2, 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item(), score)
    """
)


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return explain(PROGRAM)


def explain(program: str) -> Explainer:
    report = check(from_text(dedent(program), "/train.py"))
    return Explainer(report.source, report.interpretation.tapes)


def hover(explainer: Explainer, line: str, word: str) -> str:
    """What the hover on a word of the first line with some text says."""
    lines = explainer.source.lines
    row = next(number for number, text in enumerate(lines) if line in text)
    found = explainer.hover(row + 1, lines[row].index(word) + 1)
    return found.markdown if found is not None else ""


def test_a_detach_says_what_it_cuts_off(explainer: Explainer) -> None:
    text = hover(explainer, "frozen = ", "detach")
    assert text.startswith("**`features.detach()`** cuts off 1 node built on line 17")
    assert "no gradient goes back to 2 parameters: `model.fc.weight`, `model.fc.bias`" in text


def test_no_grad_says_that_no_graph_is_recorded(explainer: Explainer) -> None:
    assert "`torch.no_grad()`: no graph is recorded" in hover(explainer, "score = ", "model(")


def test_no_grad_of_one_of_two_calls_says_in_which() -> None:
    explainer = explain(
        """\
        import torch
        layer = torch.nn.Linear(2, 1)
        def score(x):
            return layer(x)
        score(torch.ones(1, 2)).sum().backward()
        with torch.no_grad():
            print(score(torch.ones(1, 2)))
        """
    )
    text = hover(explainer, "return layer(x)", "(x)")
    assert "**`layer(x)`** is computed under `torch.no_grad()` in the call on line 7: no graph is recorded" in text


def test_a_step_that_was_not_reached_is_not_said_to_be_missing() -> None:
    explainer = explain(
        """\
        import sys, torch
        layer = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for step in range(100):
            layer(torch.ones(1, 2)).sum().backward()
            if step > 50 and step % 7 == 0 and sys.argv:
                optimizer.step()
        """
    )
    assert "never" not in hover(explainer, "optimizer = ", "optimizer")


def test_the_tensor_that_was_cut_still_has_its_own_hover(explainer: Explainer) -> None:
    assert hover(explainer, "frozen = ", "features").startswith("**`features`** carries a graph")


@pytest.mark.parametrize(
    ("line", "word"),
    [("optimizer = ", "optimizer"), ("optimizer.zero_grad", "optimizer"), ("optimizer.step", "step")],
)
def test_an_optimizer_says_which_parameters_got_a_gradient(explainer: Explainer, line: str, word: str) -> None:
    text = hover(explainer, line, word)
    assert text.startswith("**`optimizer`** updates 4 parameters")
    assert "at its first `step()` 2 of 4 have a gradient" in text
    assert "no backward before it reaches 2 parameters: `unused.weight`, `unused.bias`" in text


def test_a_model_says_what_becomes_of_its_parameters(explainer: Explainer) -> None:
    model = hover(explainer, "model = Net()", "model")
    assert model.startswith("**`model`** has 2 parameters: `model.fc.weight`, `model.fc.bias`")
    assert "- no backward reaches them" in model and "- no optimizer has them" in model
    head = hover(explainer, "loss = head(", "head")
    assert head.startswith("**`head`** has 2 parameters") and "- reached by the backward on line 23" in head
    assert "- an optimizer updates them" in head
    assert hover(explainer, "class Net", "Net").startswith("**`class Net`** has 2 parameters: `model.fc.weight`")
    assert hover(explainer, "class Net", "nn") == ""


def test_the_line_that_adds_to_a_sum_says_what_the_sum_carries() -> None:
    explainer = explain(
        """\
        import torch
        w = torch.ones(2, requires_grad=True)
        total = 0.0
        for step in range(5):
            loss = (w * w).sum()
            loss.backward()
            total += loss
        print(total)
        """
    )
    for line, word in (("total += loss", "total"), ("print(total)", "total")):
        text = hover(explainer, line, word)
        assert text.startswith("**`total`** carries a graph built on lines 5–7"), text
        assert "grows with each iteration" in text
    assert hover(explainer, "total = 0.0", "total") == ""


def test_nothing_is_said_where_nothing_is_known(explainer: Explainer) -> None:
    assert hover(explainer, "import torch", "torch") == ""
    assert hover(explainer, "for step", "step") == ""


CALLED_TWICE = """\
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

        def forward(self, x):
            x = self.layers(x)
            return x

    def batches():
        x = []
        x.append(1)
        return x

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches()
    for step in range(3):
        score = model(torch.randn(2, 4)).max()
        loss = model(torch.randn(2, 4)).mean()
        optimizer.zero_grad()
        loss.backward()
        print(loss)
        optimizer.step()
        print(score)
    """


@pytest.fixture(scope="module")
def called_twice() -> Explainer:
    return explain(CALLED_TWICE)


def test_a_name_of_another_function_is_another_name(called_twice: Explainer) -> None:
    assert hover(called_twice, "x = []", "x") == ""
    assert hover(called_twice, "x.append(1)", "x") == ""


def test_a_function_that_is_called_twice_is_told_for_each_call(called_twice: Explainer) -> None:
    text = hover(called_twice, "return x", "x")
    assert text.startswith("**`x`** carries a graph built on line 10:")
    assert "freed by line 25" in text.splitlines()[0]
    assert "- so it is in the call on line 23" in text
    assert "- in the call on line 22: no backward frees it" in text


def test_parameters_are_told_apart(called_twice: Explainer) -> None:
    text = hover(called_twice, "loss.backward()", "backward")
    assert "`model.layers.2.weight`, `model.layers.2.bias`" in text


def test_many_parameters_are_counted_by_their_modules() -> None:
    explainer = explain(
        """\
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.one = nn.Linear(2, 2)
                self.two = nn.Linear(2, 2)
                self.three = nn.Linear(2, 2)
            def forward(self, x):
                return self.three(self.two(self.one(x)))
        actor = Net()
        critic = Net()
        loss = critic(actor(torch.ones(1, 2))).sum()
        loss.backward()
        """
    )
    text = hover(explainer, "loss.backward()", "backward")
    assert "accumulates `.grad` of 12 parameters: `actor` (6), `critic` (6)" in text


def test_a_tensor_is_intact_before_its_backward_and_freed_behind_it(called_twice: Explainer) -> None:
    before = "- at this line: intact; line 25 frees it, on every iteration"
    assert before in hover(called_twice, "loss = model", "loss")
    assert before in hover(called_twice, "loss.backward()", "loss")
    assert "- at this line: freed by line 25, on every iteration" in hover(called_twice, "print(loss)", "loss")


def test_a_step_makes_the_graph_stale_that_no_backward_has_freed(called_twice: Explainer) -> None:
    assert "- at this line: intact; line 27 updates parameters, which" in hover(called_twice, "score =", "score")
    stale = "- at this line: stale: line 27 updates parameters, which `self.layers(x)` saved"
    assert stale in hover(called_twice, "print(score)", "score")


def test_what_is_built_before_the_loop_is_intact_on_the_first_iteration_only() -> None:
    explainer = explain(
        """\
        import torch
        encoder = torch.nn.Linear(4, 4)
        head = torch.nn.Linear(4, 1)
        features = encoder(torch.randn(2, 4)).tanh()
        for step in range(3):
            loss = head(features).mean()
            loss.backward()
        """
    )
    text = hover(explainer, "loss = head", "features")
    assert "at this line: intact on the first iteration, freed on later ones, by line 7 of the iteration before" in text
    assert "fails on iteration 2" in hover(explainer, "loss.backward()", "backward")


def test_a_graph_that_is_retained_is_kept() -> None:
    explainer = explain(
        """\
        import torch
        w = torch.ones(2, requires_grad=True)
        y = w.exp().sum()
        y.backward(retain_graph=True)
        print(y)
        """
    )
    assert "kept by line 4 (`retain_graph=True`)" in hover(explainer, "y = w", "y")
    assert "at this line: kept by line 4" in hover(explainer, "print(y)", "y")


def test_a_parameter_names_each_backward_that_reaches_it() -> None:
    explainer = explain(
        """\
        import torch
        w = torch.nn.Parameter(torch.ones(2))
        (w * 2).sum().backward()
        print(1)
        (w * 3).sum().backward()
        """
    )
    assert "receives a gradient from the backwards on lines 3 and 5" in hover(explainer, "w = ", "w")


SHARED = """\
    import torch
    from torch import nn

    def network(inputs):
        return nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, 2))

    def evaluate():
        with torch.no_grad():
            return generator(torch.ones(1, 3))

    def main():
        for step in range(3):
            fake = generator(torch.randn(4, 3))
            first = discriminator(fake).exp().mean()
            first.backward({keep})
            second = discriminator(fake).cos().mean()
            second.backward()
            optimizer.step()
            print(first, second, evaluate())

    generator, discriminator = network(3), network(2)
    optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
    print(main())
    """


def test_a_graph_that_is_partly_freed_is_not_said_to_be_intact() -> None:
    explainer = explain(SHARED.format(keep=""))
    text = hover(explainer, "second.backward", "second")
    assert text.splitlines()[0].endswith(", on which line 17 fails")
    assert "- at this line: partly freed: line 15 freed its nodes of line 13" in text
    assert "intact" not in text
    optimizer = hover(explainer, "optimizer = ", "optimizer")
    assert "its `step()` is not reached: the backward on line 17 fails first" in optimizer


def test_what_another_loss_shares_is_freed_and_the_rest_is_not() -> None:
    explainer = explain(
        """\
        import torch
        layer = torch.nn.Linear(2, 2)
        shared = layer(torch.ones(1, 2)).tanh()
        one, other = shared.exp().sum(), shared.cos().sum()
        one.backward()
        other.backward()
        """
    )
    text = hover(explainer, "other.backward", "other")
    assert text.count("partly freed by line 5") == 1, "once is enough"
    assert "- at this line: partly freed by line 5" in text


def test_a_graph_is_kept_before_it_is_freed() -> None:
    explainer = explain(SHARED.format(keep="retain_graph=True"))
    text = hover(explainer, "first = ", "first")
    assert "kept by line 15 (`retain_graph=True`), partly freed by line 17" in text.splitlines()[0]
    assert "- at this line: intact; line 15 keeps it, on every iteration" in text
    between = hover(explainer, "second =", "fake")
    assert "- at this line: kept by line 15; line 17 frees it, on every iteration" in between
    assert "- at this line: partly freed by line 17, on every iteration" in hover(explainer, "print(", "first")


def test_parameters_of_modules_that_a_function_made_have_the_names_of_its_results() -> None:
    explainer = explain(SHARED.format(keep="retain_graph=True"))
    assert "4 parameters: `generator.0.weight`, `generator.0.bias`, `gen" in hover(explainer, "fake = ", "fake")
    assert "`discriminator.0` (2), `discriminator.2` (2)" in hover(explainer, "second.backward", "backward")


def test_only_what_is_called_under_no_grad_is_said_to_be() -> None:
    explainer = explain(SHARED.format(keep="retain_graph=True"))
    assert "is computed under `torch.no_grad()`" in hover(explainer, "return generator", "generator(")
    assert hover(explainer, "print(main())", "main") == ""


def test_what_happens_in_the_next_iteration_has_not_happened_yet() -> None:
    explainer = explain(
        """\
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            loss = model(torch.ones(1, 2)).mean()
            loss.backward()
            optimizer.step()
            score = model(torch.zeros(1, 2)).mean()
            print(score)
        """
    )
    text = hover(explainer, "print(score)", "score")
    assert "- at this line: intact; line 7 of the next iteration updates parameters, which " in text


def test_an_operation_that_is_not_differentiable_is_quoted() -> None:
    explainer = explain(
        """\
        import torch
        w = torch.ones(2, requires_grad=True)
        best = (w * 2).argmax()
        """
    )
    assert "cut by `(w * 2).argmax()`, which is not differentiable, on line 3" in hover(explainer, "best", "best")


def test_a_hover_does_not_repeat_the_finding_on_its_call() -> None:
    program = """\
        import torch
        w = torch.ones(2, requires_grad=True)
        y = w.exp().sum()
        y.backward({})
        {}
        """
    for argument, last, place, plain, reported in (
        ("", "y.backward()  # again", "again", "was freed by the backward on line 4", " fails (TAPE101)"),
        ("retain_graph=True", "print(y)", "retain_graph", "**`retain_graph=True`** is unnecessary", ""),
    ):
        report = check(from_text(dedent(program).format(argument, last), "/train.py"))
        assert len(report.findings) == 1
        word = "backward" if place == "again" else place
        alone = hover(Explainer(report.source, report.interpretation.tapes), place, word)
        beside = hover(Explainer(report.source, report.interpretation.tapes, report.findings), place, word)
        assert plain in alone and plain not in beside
        assert beside.endswith(reported) and bool(beside) is bool(reported)


@pytest.mark.parametrize(
    ("frozen", "said"),
    [
        (".requires_grad_(False)", "records no graph: nothing inside requires grad"),
        ("", "no gradient goes back to 2 parameters: `stem.weight`, `stem.bias`"),
    ],
)
def test_a_reentrant_checkpoint_over_data(frozen: str, said: str) -> None:
    program = dedent(
        f"""\
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        stem, head = nn.Linear(4, 4){frozen}, nn.Linear(4, 1)
        for step in range(3):
            hidden = checkpoint(stem, torch.randn(2, 4), use_reentrant=True)
            head(hidden).mean().backward()
        """
    )
    report = check(from_text(program, "train.py"))
    hover = Explainer(report.source, report.interpretation.tapes, report.findings).hover(7, 18)
    assert hover is not None and said in hover.markdown
    assert ("is harmless here" in hover.markdown) is bool(frozen)


MAML = """\
    import torch

    w = torch.randn(1, 1, requires_grad=True)
    meta = torch.optim.Adam([w])
    for task in range(5):
        x, y = torch.randn(10, 1), torch.randn(10, 1)
        inner = (x @ w - y).pow(2).mean()
        (g,) = torch.autograd.grad(inner, [w]{create})
        fast = w - 0.1 * g
        outer = (x @ fast - y).pow(2).mean()
        meta.zero_grad()
        outer.backward()
        meta.step()
        {after}
"""


def test_a_gradient_that_a_later_backward_takes_for_a_number_is_first_order_only() -> None:
    text = hover(explain(MAML.format(create="", after="")), "torch.autograd.grad", "torch")
    assert "first order only: the backward on line 12 treats it as a constant" in text


def test_a_gradient_that_is_differentiated_or_only_printed_is_not_called_first_order() -> None:
    assert "first order" not in hover(
        explain(MAML.format(create=", create_graph=True", after="")), "autograd.grad", "grad"
    )
    printed = MAML.format(create="", after="print(g)").replace("0.1 * g", "0.1")
    assert "first order" not in hover(explain(printed), "torch.autograd.grad", "torch")


def test_parameters_under_a_name_with_a_capital_letter() -> None:
    told = explain(
        """\
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

            def forward(self, x):
                return self.body(x)

        G = Net()
        G(torch.randn(2, 4)).sum().backward()
        """
    )
    assert hover(told, "G = Net", "G").startswith("**`G`** has 2 parameters: `G.body.0.weight`, `G.body.0.bias`")


def test_what_a_line_reads_before_it_binds_it_again() -> None:
    told = explain(
        """\
        import torch
        from torch import nn

        rnn, hidden = nn.GRU(4, 4), None
        for x in torch.randn(3, 5, 4):
            out, hidden = rnn(x, hidden)
            out.sum().backward()
        """
    )
    assert "- at this line: the one of the iteration before, freed by line 7" in hover(told, "out, hidden", "hidden)")
    assert "- at this line: intact" in hover(told, "out, hidden", "hidden =")


def test_parameters_that_are_switched_off() -> None:
    told = explain(
        """\
        import torch
        from torch import nn

        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        for p in net[1].parameters():
            p.requires_grad = False
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        """
    )
    text = hover(told, "net = nn", "net")
    assert "- `requires_grad` is switched off for 2 of them" in text
    assert "- an optimizer has them" in text
    told_off = hover(told, "p.requires_grad", ".requires_grad")
    assert (
        "switches `requires_grad` off for 2 parameters: `net.1.weight`, `net.1.bias`: they get no gradient" in told_off
    )


def test_a_graph_that_saved_nothing_is_walked_and_not_freed() -> None:
    program = "import torch\n\nw = torch.ones(3, requires_grad=True)\nloss = w.sum()\nloss.backward()\n"
    assert "which line 5 walks: it saved nothing that could be freed" in hover(
        explain(program), "loss = w.sum()", "loss"
    )


SUMMED = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
losses = []
for _ in {tasks}:
    fast = net.weight.clone().detach().requires_grad_()
    losses.append((torch.randn(2, 3) @ fast.T).pow(2).mean())
total = sum(losses)
total.backward()
"""


@pytest.mark.parametrize(("tasks", "least"), [("range(2)", ""), ("range(3)", ""), ("range(40)", "at least ")])
def test_a_graph_of_more_iterations_than_were_run_is_not_counted_exactly(tasks: str, least: str) -> None:
    text = hover(explain(SUMMED.format(tasks=tasks)), "total = ", "total")
    number = {"range(2)": 2}.get(tasks, 3)
    assert f": {least}" in text.partition("\n")[0] and f"leads to {least}{number} leaves" in text, text
