"""From a captured graph to something to call: Graph -> Executable.

passes      jitcap/passes/                 Graph -> Graph
(cut        jitcap/graph/cut_by_size.py    Graph -> Graphs, where data decide sizes)
(cut        jitcap/graph/cut_by_device.py  Graph -> the host's and the devices')
lower       jitcap/compile/lower.py        Graph -> Program
codegen     codegen/                       Program -> loops -> kernels -> source -> Artifact
"""

from __future__ import annotations

from codegen import Target
from codegen.runtime.pending import Pending
from eager.base.config import config
from jitcap.base.diagnostics import Trail
from jitcap.compile.backends import choose_backend
from jitcap.compile.executable import Executable, op_by_op
from jitcap.compile.generate import Layout, Writes, device_parts, generator, or_op_by_op
from jitcap.compile.generate import recall as recall_whole
from jitcap.compile.optimise import optimise
from jitcap.compile.size_pieces import in_pieces
from jitcap.graph.cut_by_device import places_of
from jitcap.graph.graph import Graph


def compile_graph(
    graph: Graph,
    writes: Writes = (),
    *,
    backend: str | None = None,
    strides: Layout = None,
    trail: Trail | None = None,
    prefix: str = "",
) -> Executable:
    """Every stage for one graph. Raises what `optimise` and `begin_code` raise."""
    trail = trail or Trail(graph.name)
    optimised = optimise(graph, trail, backend)
    return begin_code(optimised, writes, strides, trail, backend, prefix).result()


def begin_code(
    graph: Graph,
    writes: Writes,
    strides: Layout,
    trail: Trail,
    backend: str | None = None,
    prefix: str = "",
) -> Pending[Executable]:
    """Lowering and code generation of one graph.

    `writes` pairs (input index, output index): that input's memory takes that output's value. What
    codegen refuses runs op by op, and says so once. Raises ValueError for an unknown backend. The
    C++ compiler may be at work when this returns; waiting for it asks nothing of the graph.
    `prefix`: of the names of kernels, so that those of one function have different ones.
    """
    devices = places_of(graph)
    name = choose_backend(devices, backend)
    if name == "eager":
        return Pending.of(Executable(op_by_op(graph, writes), name))
    begin = in_pieces if graph.has_data_sizes else generator(devices)
    target = Target(name, config.isa, prefix=prefix)
    return or_op_by_op(begin, graph, writes, strides, target, trail)


def recall(key: str, trail: Trail) -> Executable | None:
    """The executable that is stored under `key`, if it is still there."""
    return recall_whole(key, trail) or device_parts().recall_parts(key, trail, None)
