"""Capture: calls that are alike are recorded once. call -> nodes, copied.

calls        of the program's modules: what one consulted and recorded
call_copies  a later one of them, from that
templates    of the library's functions, which consult nothing
"""
