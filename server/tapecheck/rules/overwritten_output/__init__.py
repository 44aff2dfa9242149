"""TAPE610, overwritten-output."""
