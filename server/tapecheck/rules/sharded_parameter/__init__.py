"""TAPE608, sharded-parameter."""
