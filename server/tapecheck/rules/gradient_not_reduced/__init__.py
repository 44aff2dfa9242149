"""TAPE601, gradient-not-reduced."""
