"""A library of edits: strategies that several rules propose, and what those of one rule are made with."""
