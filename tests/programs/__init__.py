"""Whole user programs, written against PyTorch's API: each must give torch's results in eager and under @jit."""
