"""TAPE102, stale-saved-tensor."""
