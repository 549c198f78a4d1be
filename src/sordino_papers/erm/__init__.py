"""Chen, Lee & Kifer's study of private linear models: accuracy, objective and time a fit.

One study with two users: `sordino reproduce chen` (settings in chen.toml) and `benchmarks/erm.py`.
"""
