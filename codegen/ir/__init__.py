"""The compiler's data: expressions, index arithmetic, sizes, and the levels of the loop IR."""
