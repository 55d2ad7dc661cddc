"""Beside the pipeline: what was made, kept on disk, so that another process starts from there.

    graphs.py        a graph -> its compiled artifact
    versions.py      a call -> the version that fits it: code, guards, executable
    translate.py     a version's generated code -> rows of data
    terms.py         rows -> whether its guards hold for a call, its source
    harmless.py      what its guards do while a version is looked for
    records.py       constants, guards and graphs <-> JSON
    names.py         functions, classes and modules by name
    fingerprint.py   an object of the program -> digest of what it is made of

The entries lie in the cache of `codegen.runtime.cache`.
"""
