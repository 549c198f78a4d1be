"""Datasets by name: a recipe each, the raw files they are made of, and `load`."""
