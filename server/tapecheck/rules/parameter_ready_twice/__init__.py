"""TAPE605, parameter-ready-twice."""
