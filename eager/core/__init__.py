"""Tensors, op records, dispatch and the tape: what every op is made with."""
