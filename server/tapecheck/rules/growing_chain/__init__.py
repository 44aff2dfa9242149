"""TAPE202, growing-chain."""
