"""Guards, the conditions of a compiled version: tests of values, tensors, classes and sizes."""
