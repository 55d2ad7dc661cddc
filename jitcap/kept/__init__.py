"""Beside the pipeline: what was made, kept on disk, so that another process starts from there.

    graphs.py        a graph -> its compiled artifact
    versions.py      a call -> the version that fits it: code, guards, executable
    pickling.py      the constants of a version's code <-> bytes
    fingerprint.py   an object of the program -> digest of what it is made of

The entries lie in the cache of `codegen.runtime.cache`.
"""
