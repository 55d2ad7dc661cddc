"""Beside the pipeline: a program as a file. function, example arguments -> Exported -> file.

make.py      the call as `@jit` captures it, taken apart: graph, writes, draws, what is held
program.py   what that is, as data
exported.py  how it is called
file.py      a NumPy archive: the program as JSON, and the tensors; reading it runs nothing
"""

from jitcap.exporting.exported import Exported as Exported
from jitcap.exporting.exported import load as load
from jitcap.exporting.make import export as export
