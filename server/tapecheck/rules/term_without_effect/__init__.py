"""TAPE407, term-without-effect."""
