"""TAPE602, unused-parameter."""
