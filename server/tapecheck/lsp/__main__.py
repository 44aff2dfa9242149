"""`python -m tapecheck.lsp`: the language server on standard input and output."""

from __future__ import annotations

import sys

from tapecheck.lsp.server import serve

if __name__ == "__main__":
    sys.exit(serve())
