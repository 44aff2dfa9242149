"""TAPE606, reentrant-checkpoint-grad."""
