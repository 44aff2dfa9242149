"""TAPE103, backward-without-graph."""
