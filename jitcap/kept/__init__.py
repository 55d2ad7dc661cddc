"""Beside the entry: whole versions kept on disk, so that another process starts without capturing.

fingerprint.py   an object of the program -> digest of what it is made of
pickling.py      the constants of generated code <-> bytes, live objects by where they are found
versions.py      remember a version; recall those that fit a call
"""
