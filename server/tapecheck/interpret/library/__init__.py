"""What libraries do: torch, the standard library, frameworks."""
