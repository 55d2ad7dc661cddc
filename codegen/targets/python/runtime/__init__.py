"""The runtime of Python text: flat arrays, and the names that kernels use."""
