"""TAPE106, array-of-graph."""
