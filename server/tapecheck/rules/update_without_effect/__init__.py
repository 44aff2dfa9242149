"""TAPE408, update-without-effect."""
