"""TAPE406, checkpoint-without-gradient."""
