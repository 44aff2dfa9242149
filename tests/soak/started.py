"""Tapecheck's command line where processes start by the method that the first argument names."""

from __future__ import annotations

import multiprocessing
import sys

from tapecheck.cli import main

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv.pop(1))
    sys.exit(main())
