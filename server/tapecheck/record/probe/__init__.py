"""The child side of a recorded run: watches torch in the user's own process and writes a tape.

Standard library and torch only, Python 3.9 and later, importable alone: nothing here imports tapecheck. Run
it by path in any interpreter that has torch:

    python path/to/probe --tape OUT.jsonl SCRIPT [ARGS...]

The probe never changes what the program computes. It holds no tensor and no graph node, uses no random
numbers, prints nothing, wraps no op and installs no saved-tensor hook (those switch PyTorch's in-place check off).
"""

from __future__ import annotations

__version__ = "0.1.0"
PRODUCER = "tapecheck recorder " + __version__
