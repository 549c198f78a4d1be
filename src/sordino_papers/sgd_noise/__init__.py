"""Hyland & Tople, v1 and v2: SGD's own noise, measured on grids, spent, drawn and attacked."""
