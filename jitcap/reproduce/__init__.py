"""Beside the compiler, when it is wrong: a faulty graph -> one small file that shows the fault.

inputs.py   values of a graph's inputs as text: a rule that makes such values, or the values
fault.py    what the file calls: the graph is compiled and run in a child process, beside op by op
trials.py   such files tried one after the other, each in a process of its own, for a while
shrink.py   smaller graphs: fewer nodes, the body of one, smaller sizes
reduce.py   the smallest graph that shows the fault
source.py   a call as a program, for faults of capture, which are in no graph
call.py     what such a file calls
text.py     the text of a file
search.py   the suspects one after the other
write.py    the file, and where it lies
"""

from jitcap.reproduce.call import Call as Call
from jitcap.reproduce.fault import Fault as Fault
from jitcap.reproduce.inputs import random as random
from jitcap.reproduce.inputs import read as read
from jitcap.reproduce.inputs import stored as stored
from jitcap.reproduce.source import new as new
from jitcap.reproduce.source import tensor as tensor
from jitcap.reproduce.write import write as write

__all__ = ["Call", "Fault", "new", "random", "read", "stored", "tensor", "write"]
