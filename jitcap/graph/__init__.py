"""The graph: nodes, parts, symbols, the tracer that makes it; what cuts, prints and checks it."""
