"""At the edge: programs that were written for PyTorch. `import torch` -> this library, and a list
of what it lacks."""
