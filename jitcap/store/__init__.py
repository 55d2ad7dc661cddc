"""Beside the pipeline: what was made, kept on disk, so that another process starts from there.

    versions.py      a call -> the version that fits it: code, guards, executable
    entry_ir.py      rows from disk -> whether its guards hold for a call, its source
    row_order.py     rows of an entry -> rows in the order in which another process can read them
    safe_eval.py     what its guards do while a version is looked for
    codec.py         constants, guards and graphs <-> JSON
    allowlist.py     functions, classes and modules by name
    fingerprint.py   an object of the program -> digest of what it is made of

The entries lie in the cache of `codegen.runtime.cache`, as compiled graphs do
(`jitcap/compile/graph_cache.py`).
"""
