"""Sizes of tensors: ints and symbols, their algebra and ranges, and abstract values."""
