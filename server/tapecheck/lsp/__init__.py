"""The language server: `session` does the work and knows nothing of the protocol, `server` speaks it."""
