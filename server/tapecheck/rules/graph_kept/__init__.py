"""TAPE201, graph-kept-across-iterations."""
