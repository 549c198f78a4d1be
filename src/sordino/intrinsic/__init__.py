"""SGD's own noise, measured: what the seed hides of a record. Estimates, never guarantees.

`measure.measure` trains a grid of seeds and neighbouring datasets into a study, `measured.load`
reads it, `summary.summary` computes every statistic of it.
"""
