"""TAPE402, gradient-cut."""
