"""TAPE611, donated-buffers."""
