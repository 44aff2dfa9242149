"""TAPE101, backward-twice."""
