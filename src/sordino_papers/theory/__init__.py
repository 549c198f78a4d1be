"""The notes on DP-SGD and Annamalai's final iterate: formulas and worst cases, no data."""
