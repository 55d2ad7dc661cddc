"""Between fusion and the targets: order, places and batches of kernels and steps."""
