"""What is run to make Tapecheck, and is no part of it."""
