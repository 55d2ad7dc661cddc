"""Capture: branches and loops on values that only the run knows, and loops that are rolled.

branch          an `if`: both ways, joined to one choice
while_loops     a `while`: one round, recorded as a loop
for_loops       a `for` whose steps are alike: one step, a scan
concrete_loops  a loop over plain numbers: it runs
"""
