"""The first half of the pipeline: op calls -> loops -> fused kernels, the same for each target."""
