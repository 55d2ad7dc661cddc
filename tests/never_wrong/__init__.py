"""Short programs that an outsider writes to break @jit: each run plainly and compiled, part by part."""
