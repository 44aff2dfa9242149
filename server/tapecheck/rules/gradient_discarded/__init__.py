"""TAPE404, gradient-discarded."""
