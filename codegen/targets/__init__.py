"""The backends, a folder each, over one walk of expressions. Fused or tiled kernels -> Artifact."""
