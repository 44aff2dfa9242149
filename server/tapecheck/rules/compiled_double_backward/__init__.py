"""TAPE604, compiled-double-backward."""
