"""What must hold for a compiled version to run: tests of values, tensors, classes and sizes."""
