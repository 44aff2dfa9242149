"""`python -m tapecheck.lsp`: the language server on standard input and output."""

from __future__ import annotations

import sys

# `-m` puts the working directory first, where a file named like one of our imports would be executed.
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from tapecheck.lsp.server import serve

if __name__ == "__main__":
    sys.exit(serve())
