"""How a mechanism is run, thousands of times on D and on D'.

`outputs` runs any of them and keeps what comes out; `trained` is our SGD, `minimised` objective
perturbation, both many runs at once; `functions` are functions and estimators of users; `fits`
makes a mechanism of an estimator of ours.
"""
