"""Branches and loops that stay whole: `cond`, `scan`, `while_loop`."""
