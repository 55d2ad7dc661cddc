"""A CUDA driver in Python, for tests: the functions of `cuda.bindings.driver` that the device calls.

Memory are arrays of bytes at their own addresses; streams run as late as they may; handles, contexts (one for each GPU), alignment and parameter
blocks are checked; an error is answered where a test asks for one. Kernels are registered by their code.
"""

import collections
import ctypes
import itertools
import struct
import threading

import numpy as np

from eager.device.protocol import Binary

NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    201: "CUDA_ERROR_INVALID_CONTEXT",
    400: "CUDA_ERROR_INVALID_HANDLE",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    704: "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
    900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
}
ATTRIBUTES = {10: 32, 16: 132, 38: 50 << 20, 39: 2048, 97: 232448}
CONTEXT = 0xC0
# Functions that need no context in this thread.
ANYWHERE = {
    "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
    "cuDeviceTotalMem", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
    "cuDeviceCanAccessPeer",
}  # fmt: skip
# Functions that answer nothing beside the code.
PLAIN = {
    "cuInit", "cuCtxSetCurrent", "cuCtxSynchronize", "cuMemFree", "cuMemFreeAsync", "cuEventQuery",
    "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemsetD8Async", "cuEventRecord",
    "cuStreamSynchronize", "cuStreamQuery", "cuStreamWaitEvent", "cuStreamBeginCapture",
    "cuEventDestroy", "cuEventSynchronize", "cuFuncSetAttribute", "cuLaunchKernel", "cuGraphLaunch",
    "cuGraphDestroy", "cuGraphExecDestroy", "cuMemcpyPeerAsync", "cuCtxEnablePeerAccess",
}  # fmt: skip


class Refused(Exception):
    """A code to answer."""


class Illegal(Exception):
    """A kernel reached memory that there is not."""


class FakeDriver:
    """`fail[name] = [code, ...]`: what the next calls of a function answer, 0 to let one pass.
    `log`: the functions called. `last`: the values of the last launch."""

    def __init__(self, capability=(9, 0), version=13000, count=1, total=1 << 34):
        self.capability, self.version, self.count, self.total = capability, version, count, total
        self.fail = {}
        self.linked = True  # whether GPUs reach each other
        self.peers = set()  # (from, to) contexts, between which access is enabled
        self.homes = {}  # stream, event, function or block -> its context
        self.log = []
        self.last = None
        self.sticky = 0
        self.time = 0.0
        self.blocks = {}  # address -> bytes
        self.pages = {}
        # stream -> commands that have not run; those of other libraries are there
        self.queues = {1: collections.deque(), 2: collections.deque()}
        self.captures = {}  # stream -> commands of the graph being made
        self.events = {}  # event -> the mark that it was last recorded as
        self.modules, self.functions, self.graphs = {}, {}, {}
        self.kernels = {}  # code -> (letters of the parameters, what it does)
        self._handles = itertools.count(0x1000, 16)
        self._current = threading.local()

    def __getattr__(self, name):
        """A function of the driver: `cuInit` is `Init`, with checks around it."""
        if not name.startswith("cu"):
            raise AttributeError(name)
        work, values = getattr(self, name[2:]), 0 if name in PLAIN else 1

        def call(*given):
            self.log.append(name)
            if name == "cuGetErrorName":
                return work(*given)
            planned = self.fail.get(name)
            code = planned.pop(0) if planned else self.sticky
            if name not in ANYWHERE and self.context() not in range(CONTEXT, CONTEXT + self.count):
                code = 201
            result = None
            if not code:
                try:
                    result = work(*given)
                except Refused as refusal:
                    (code,) = refusal.args
                except Illegal:
                    code = self.sticky = 700
            return (code, result) if values else (code,)

        self.__dict__[name] = call
        return call

    def context(self):
        return getattr(self._current, "context", None)

    def handle(self, table, value):
        made = next(self._handles)
        table[made] = value
        self.homes[made] = self.context()
        return made

    def together(self, *handles):
        """They must be of this thread's context; another library's streams are of any."""
        if any(self.homes.get(int(h), self.context()) != self.context() for h in handles):
            raise Refused(400)

    def of(self, table, handle):
        if int(handle) not in table:
            raise Refused(400)
        return table[int(handle)]

    # ---- devices
    def Init(self, flags):
        assert flags == 0

    def DriverGetVersion(self):
        return self.version

    def DeviceGetCount(self):
        return self.count

    def DeviceGet(self, index):
        if index >= self.count:
            raise Refused(101)
        return index

    def DeviceGetName(self, length, device):
        return b"Fake GPU\0" + b" " * (length - 9)  # as cuda.bindings pads it

    def DeviceTotalMem(self, device):
        return self.total

    def DeviceGetAttribute(self, attribute, device):
        return {75: self.capability[0], 76: self.capability[1], **ATTRIBUTES}[int(attribute)]

    def DevicePrimaryCtxRetain(self, device):
        return CONTEXT + device

    def DeviceCanAccessPeer(self, device, peer):
        return int(self.linked and device != peer)

    def CtxEnablePeerAccess(self, peer, flags):
        assert flags == 0
        if (self.context(), peer) in self.peers:
            raise Refused(704)
        self.peers.add((self.context(), peer))

    def CtxSetCurrent(self, context):
        self._current.context = context

    def CtxSynchronize(self):
        if any(self.homes[stream] == self.context() for stream in self.captures):
            raise Refused(900)
        self.drain_all()

    def drain_all(self):
        for stream in self.queues:
            if self.homes.get(stream, self.context()) == self.context():
                self.drain(stream)

    def GetErrorName(self, code):
        return 0, NAMES.get(int(code), f"CUDA_ERROR_{int(code)}").encode()

    # ---- memory
    def MemAlloc(self, nbytes):
        if sum(b.size for b in self.blocks.values()) + nbytes > self.total:
            raise Refused(2)
        memory = np.full(nbytes + 512, 0xFF, np.uint8)
        address = -(-memory.ctypes.data // 512) * 512
        start = address - memory.ctypes.data
        self.blocks[address] = memory[start : start + nbytes]
        self.homes[address] = self.context()
        return address

    def MemFree(self, address):
        self.drain_all()
        if self.blocks.pop(int(address), None) is None:
            raise Refused(1)

    def MemAllocAsync(self, nbytes, stream):
        self.of(self.queues, stream)
        return self.MemAlloc(nbytes)

    def MemFreeAsync(self, address, stream):
        self.queue(stream, lambda: self.blocks.pop(int(address)))

    def MemHostAlloc(self, nbytes, flags):
        memory = np.empty(nbytes + 4096, np.uint8)
        address = -(-memory.ctypes.data // 4096) * 4096
        self.pages[address] = memory
        return address

    def bytes_at(self, address, nbytes):
        """Memory of the device."""
        for start, block in self.blocks.items():
            if start <= address and address + nbytes <= start + block.size:
                return block[address - start : address - start + nbytes]
        raise Illegal(f"{nbytes} bytes at {address:#x}")

    def rest_at(self, address):
        """Memory of the device from an address to the end of its block."""
        for start, block in self.blocks.items():
            if start <= address < start + block.size:
                return block[address - start :]
        raise Illegal(f"{address:#x}")

    def MemcpyHtoDAsync(self, to, source, nbytes, stream):
        pinned = any(a <= source < a + m.size for a, m in self.pages.items())
        held = None if pinned else ctypes.string_at(source, nbytes)

        def run():
            data = ctypes.string_at(source, nbytes) if held is None else held
            self.bytes_at(to, nbytes)[:] = np.frombuffer(data, np.uint8)

        self.queue(stream, run)

    def MemcpyDtoHAsync(self, to, source, nbytes, stream):
        def run():
            ctypes.memmove(to, self.bytes_at(source, nbytes).tobytes(), nbytes)

        self.queue(stream, run)

    def MemcpyDtoDAsync(self, to, source, nbytes, stream):
        def run():
            self.bytes_at(to, nbytes)[:] = self.bytes_at(source, nbytes).copy()

        self.queue(stream, run)

    def MemcpyPeerAsync(self, to, there, source, here, nbytes, stream):
        for address, context in ((to, there), (source, here)):
            starts = [s for s, b in self.blocks.items() if s <= address < s + b.size]
            if [self.homes[s] for s in starts] != [context]:
                raise Refused(1)
        self.MemcpyDtoDAsync(to, source, nbytes, stream)

    def MemsetD8Async(self, address, value, nbytes, stream):
        def run():
            self.bytes_at(address, nbytes)[:] = value

        self.queue(stream, run)

    # ---- streams and events
    def queue(self, stream, run):
        self.of(self.queues, stream)
        self.together(stream)
        self.captures.get(int(stream), self.queues[int(stream)]).append(run)

    def drain(self, stream, until=None):
        queue = self.queues[int(stream)]
        while queue and not (until is not None and until["done"]):
            run = queue.popleft()
            self.time += 0.25
            run()

    def not_captured(self, stream):
        self.of(self.queues, stream)
        if int(stream) in self.captures:
            raise Refused(900)

    def StreamCreate(self, flags):
        assert flags == 1  # not ordered with the legacy default stream
        return self.handle(self.queues, collections.deque())

    def StreamSynchronize(self, stream):
        self.not_captured(stream)
        self.drain(stream)

    def StreamQuery(self, stream):
        self.not_captured(stream)
        if self.queues[int(stream)]:
            raise Refused(600)

    def StreamWaitEvent(self, stream, event, flags):
        mark = self.of(self.events, event)
        assert mark is not None

        def run():
            self.drain(mark["stream"], mark)

        self.queue(stream, run)

    def EventCreate(self, flags):
        return self.handle(self.events, None)

    def EventDestroy(self, event):
        self.of(self.events, event)
        del self.events[int(event)]

    def EventRecord(self, event, stream):
        self.of(self.events, event)
        self.together(event)
        mark = {"done": False, "stream": stream, "time": 0.0}

        def run():
            mark.update(done=True, time=self.time)

        self.queue(stream, run)
        self.events[int(event)] = mark

    def EventQuery(self, event):
        mark = self.of(self.events, event)
        if mark is not None and not mark["done"]:
            raise Refused(600)

    def EventSynchronize(self, event):
        mark = self.of(self.events, event)
        if mark is not None:
            self.drain(mark["stream"], mark)

    def EventElapsedTime(self, start, end):
        return self.of(self.events, end)["time"] - self.of(self.events, start)["time"]

    # ---- kernels
    def ModuleLoadData(self, code):
        if code not in self.kernels:
            raise Refused(200)
        return self.handle(self.modules, code)

    def ModuleGetFunction(self, module, name):
        assert isinstance(name, bytes)
        return self.handle(self.functions, {"code": self.of(self.modules, module), "shared": 0})

    def FuncSetAttribute(self, function, attribute, value):
        assert int(attribute) == 8
        self.of(self.functions, function)["shared"] = value

    def LaunchKernel(self, f, gx, gy, gz, bx, by, bz, shared, stream, pointers, extra):
        function = self.of(self.functions, f)
        self.together(f)
        assert not extra
        if shared > max(48 << 10, function["shared"]) or not 0 < bx * by * bz <= 1024:
            raise Refused(701)
        letters, work = self.kernels[function["code"]]
        values = [self.parameter(pointers + 8 * i, letter) for i, letter in enumerate(letters)]
        self.last = values
        self.queue(stream, lambda: work(self, (gx, gy, gz), values))

    def parameter(self, place, letter):
        """A parameter, by the place of its address."""
        address = ctypes.c_uint64.from_address(place).value
        size = struct.calcsize(letter)
        assert address % size == 0, "a parameter that is not aligned"
        return struct.unpack(letter, ctypes.string_at(address, size))[0]

    # ---- graphs
    def StreamBeginCapture(self, stream, mode):
        assert int(mode) == 2
        self.not_captured(stream)
        self.captures[int(stream)] = []

    def StreamEndCapture(self, stream):
        if int(stream) not in self.captures:
            raise Refused(1)
        return self.handle(self.graphs, self.captures.pop(int(stream)))

    def GraphInstantiate(self, graph, flags):
        return self.handle(self.graphs, self.of(self.graphs, graph))

    def GraphLaunch(self, graph, stream):
        self.not_captured(stream)
        for run in self.of(self.graphs, graph):
            self.queue(stream, run)

    def GraphDestroy(self, graph):
        self.of(self.graphs, graph)
        del self.graphs[int(graph)]

    def GraphExecDestroy(self, graph):
        self.GraphDestroy(graph)


class FakeKernel:
    """A kernel whose machine code is its name; `work(driver, grid, values)` is what it does."""

    multiples = 0

    def __init__(self, driver, name, letters, work, own=None, **binary):
        self.name, self.letters, self.own = name, letters, len(letters) if own is None else own
        self.given = {"threads": 128, "shared": 0, **binary}
        self.asked = []
        driver.kernels[name.encode()] = letters, work

    def binary(self, capability, aligned, behind=16):
        self.asked.append((capability, list(aligned), behind))
        return Binary(self.name, self.name.encode(), self.letters, **self.given)

    def tables(self, addresses):
        return [np.array(addresses, np.int64), np.array([3], np.int32)] if addresses else []
