"""Beside everything: where the time of a step goes. a `with` block -> `Profile`, with its table.

    sources     jitcap/profiling/sources.py    clocks around calls and compiles
    rows        jitcap/profiling/rows.py       spans -> rows that sum to the wall time
    peaks       jitcap/profiling/peaks.py      what the machine can do, measured once
    report      jitcap/profiling/report.py     the object
    table, trace, page                         what it prints and writes
    told        jitcap/profiling/kernel_lines.py    a line for each kernel, by JITCAP_DEBUG=2

Imported when `jitcap.profile` is first named.
"""

from jitcap.profiling.kernel_lines import told as told
from jitcap.profiling.report import Profile as Profile
from jitcap.profiling.report import profile as profile
