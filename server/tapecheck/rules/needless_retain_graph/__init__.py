"""TAPE301, needless-retain-graph."""
