"""TAPE607, averaged-with-graph."""
