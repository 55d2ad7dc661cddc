"""Capture: values that only the run knows, beside tensors. a value -> what stands for it.

Sequences and keys of numbers, scalars of NumPy, text, values of which a branch leaves two kinds.
"""
