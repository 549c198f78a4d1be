"""Privacy loss distributions: the law of one step, its convolution, the curve of many steps."""
