"""TAPE603, compiled-backward-twice."""
