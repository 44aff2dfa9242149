"""TAPE401, missing-create-graph."""
