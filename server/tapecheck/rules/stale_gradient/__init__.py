"""TAPE403, stale-gradient."""
