"""The ways through a program: which are run, with what answers to its undecided conditions."""
