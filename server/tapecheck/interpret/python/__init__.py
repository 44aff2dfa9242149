"""What Python itself does: statements, expressions, calls, containers, and what is known of the unknown."""
