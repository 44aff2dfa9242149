"""What code that is not visible is told: text and numbers lead to nothing, whatever they were made of."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """
import json
import torch
import unseen
from torch import nn

net = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
names = json.load(open("names.json"))
text = open("words.txt").read()
words = [{element} for word in text.split()]
for x in torch.load("data.pt"):
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    unseen.{said}
"""
ELEMENTS = {
    "a text": "chr(names[word])", "a text of its own": "word.lower()", "what a table has": "names[word]",
    "a number": "len(word)",
}  # fmt: skip
SAID = (
    "say(' '.join(map(str, words)))", "say(str(words))", "say(f'{words}')", "say('%s' % words)", "say(repr(words))",
    "say('{}'.format(words))", "say(len(words))", "say(words == [])", "say(str(words[0]))", "say(hash(str(words)))",
    "distance(''.join(str(one) for one in words), text)", "say(str(max(map(str, words))))",
)  # fmt: skip
LEADING = ("use(words)", "use(words[0])", "use(max(words))", "use([*words])")
"""What an element that nobody has seen may be is anything."""


def told(element: str, said: str) -> list[tuple[str, bool]]:
    text = PROGRAM.format(element=ELEMENTS[element], said=said)
    return [(finding.code, finding.certain) for finding in check(from_text(text, "program.py")).findings]


@pytest.mark.parametrize(("element", "said"), [*itertools.product(ELEMENTS, SAID)])
def test_a_text_or_number_leads_to_no_gradient(element: str, said: str) -> None:
    assert [code for code, _ in told(element, said)] == ["TAPE403"]


@pytest.mark.parametrize("said", LEADING)
def test_what_a_table_has_may_be_a_parameter(said: str) -> None:
    text = PROGRAM.format(element=ELEMENTS["what a table has"], said=said)
    hidden = text.replace('json.load(open("names.json"))', "unseen.table(net)")
    assert not check(from_text(hidden, "program.py")).findings
