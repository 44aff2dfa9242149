"""TAPE405, untrained-parameter."""
