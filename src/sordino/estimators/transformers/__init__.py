"""Transformers whose fit is private, and one certificate for a pipeline of them and a model."""
