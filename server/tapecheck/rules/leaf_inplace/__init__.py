"""TAPE104, leaf-inplace."""
