"""The last iterate alone is released: what hidden earlier iterates are worth."""
