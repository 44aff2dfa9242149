"""TAPE203, create-graph-cycle."""
