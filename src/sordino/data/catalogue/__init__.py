"""Datasets by name: what is known of each before it is read, and how it is prepared."""
