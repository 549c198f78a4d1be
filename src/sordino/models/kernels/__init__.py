"""Compiled loops: the passes of the networks and the derivatives of the linear losses."""
