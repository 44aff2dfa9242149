"""TAPE302, needless-graph."""
