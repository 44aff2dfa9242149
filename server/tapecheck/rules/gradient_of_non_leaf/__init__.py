"""TAPE105, gradient-of-non-leaf."""
