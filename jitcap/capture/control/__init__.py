"""Capture: branches and loops on values that only the run knows, and loops that are rolled.

branch    an `if`: both ways, joined to one choice         paths, changes, histories, fit, ties
repeat    a `while`: one round, recorded as a loop
roll      a `for` whose steps are alike: one step, a scan  steps, appended, behind, state
plain     a loop over plain numbers: it runs
"""
