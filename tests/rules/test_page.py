"""How a rule's page is read."""

from __future__ import annotations

import pytest

from tapecheck.rules.page import INVALID, VALID, Example, parsed

PAGE = f"""\
What it is.

## What to do

Nothing.

{INVALID}

### Twice

```python
loss.backward()
loss.backward()  # TAPE900
```

PyTorch raises on line 2: `Trying to`

### In a loop

```python
while True:
    loss.backward()  # TAPE900
```

{VALID}

### Once

```python
loss.backward()  # TAPE901
```
"""


def test_a_page_is_its_text_and_its_programs() -> None:
    page = parsed(PAGE, "TAPE900")
    assert page.text == "What it is.\n\n## What to do\n\nNothing."
    assert page.invalid == (
        Example("Twice", "loss.backward()\nloss.backward()\n", 2, "Trying to"),
        Example("In a loop", "while True:\n    loss.backward()\n", 2),
    )
    assert page.valid == (Example("Once", "loss.backward()  # TAPE901\n"),)


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        (INVALID, "## Programs"),
        (VALID, "## Others"),
        ("loss.backward()  # TAPE901", "loss.backward()  # TAPE900"),
        ("    loss.backward()  # TAPE900", "    loss.backward()"),
        ("loss.backward()\nloss", "loss.backward()  # TAPE900\nloss"),
        ("on line 2", "on line 1"),
        ("PyTorch raises", "It raises"),
        ("```python\nloss.backward()  # TAPE901\n```", "loss.backward()"),
        ("### Once\n", ""),
    ],
)
def test_what_is_not_written_as_it_must_be_is_refused(written: str, instead: str) -> None:
    assert PAGE.count(written) == 1
    with pytest.raises(ValueError, match="TAPE900"):
        parsed(PAGE.replace(written, instead), "TAPE900")
