"""What Python text runs on: flat arrays, and the names that kernels use."""
