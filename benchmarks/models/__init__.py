"""Models of the workloads, each written once against the PyTorch API.

Every module has `build(torch)`, where `torch` is the namespace to build in: `torch` or `eager`.
"""
