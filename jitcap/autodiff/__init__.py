"""Derivatives ahead of time: joint graphs, and the function that runs their halves."""
