"""TAPE609, stale-shards."""
