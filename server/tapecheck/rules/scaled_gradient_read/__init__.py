"""TAPE501, scaled-gradient-read."""
