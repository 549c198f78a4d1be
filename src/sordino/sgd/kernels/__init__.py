"""The loops of SGD: linear models, full batches, networks."""
