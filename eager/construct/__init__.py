"""Tensors from data of others: Python's, NumPy's, memory, DLPack."""
