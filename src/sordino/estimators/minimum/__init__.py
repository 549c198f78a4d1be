"""Regularised empirical risks and their minimisers: of linear models, certified; of a softmax."""
