"""How the driver's functions are called, by ctypes and by cuda.bindings: against a library in C."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eager.device import libcuda
from eager.device.protocol import DeviceUnavailable

PROGRAM = """
import sys
import numpy as np
from eager.device import cuda, libcuda
from eager.device.protocol import Binary, DeviceFailure, Region

class Add:
    name, own, multiples = "add", 3, 0
    code = b"\\177ELF\\0add"
    def binary(self, capability, aligned, behind):
        return Binary("add", self.code, "QidQQ", 128, 100 << 10)
    def tables(self, addresses):
        return [np.array(addresses)]

driver = cuda.find()
assert (type(driver) is libcuda.CtypesDriver) == (sys.argv[1] == "ctypes"), driver
unit = cuda.CudaDevice(driver)
assert (unit.properties.name, unit.properties.total_memory) == ("C fake 0", 1 << 33)
assert (unit.properties.major, unit.properties.warp_size) == (9, 10)
values, out = np.arange(4, dtype=np.float32), np.empty(4, np.float32)
region = Region(unit.allocate(16), 16, writes=True)
unit.upload(region, values, unit.main)
unit.launch(Add(), (3, 2, 1), [region, 4, 0.5], unit.main)
other = Region(unit.allocate(16), 16, writes=True)
unit.clear(other, unit.main)
unit.copy(other, region, unit.main)
add = Add()
recording = unit.record(lambda: unit.launch(add, (1, 6, 1), [other, 2, 1.0], unit.main), unit.main)
recording.replay(unit.main)
recording.replay(unit.main)
unit.download(out, other, unit.main)
assert out.tolist() == [2.5, 3.5, 2.5, 3.5], out
side, start, end = unit.stream(), unit.event(timing=True), unit.event(timing=True)
unit.main.record(start)
side.wait(start)
side.record(end)
end.synchronize()
assert end.query() and side.query() and start.elapsed_time(end) == 1.5
pinned = unit.pinned(16).view(np.float32)
pinned[:] = 3
unit.upload(region, pinned, unit.main, pinned=True)
unit.download(out, region, unit.main)
assert out.tolist() == [3] * 4
both = [unit._context] * 2
unit.call("cuMemcpyPeerAsync", other.address, both[0], region.address, both[1], 16, unit.main.handle)
unit.download(out, other, unit.main)
assert out.tolist() == [3] * 4 and not unit.reaches(unit)
assert driver.cuDeviceCanAccessPeer(unit._unit, 1)[1] == 1
try:
    unit.call("cuCtxEnablePeerAccess", unit._context, 0)
except DeviceFailure as error:
    assert "refused it" in str(error), error
Add.code = b"\\177ELF\\0sub"
try:
    unit.launch(Add(), (1, 1, 1), [region, 4, 0.5], unit.main)
except DeviceFailure as error:
    assert "(CUDA_ERROR_INVALID_IMAGE)" in str(error), error
else:
    raise AssertionError
del recording, start, end
unit.free(region.address)
unit.allocate(16)
unit.synchronize()
print("done")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder with libcuda.so.1."""
    if sys.platform != "linux":
        pytest.skip("the library is built for Linux")
    folder = tmp_path_factory.mktemp("libcuda")
    source = Path(__file__).with_name("fake_libcuda.c")
    command = [
        "g++",
        "-x",
        "c",
        "-w",
        "-shared",
        "-fPIC",
        str(source),
        "-o",
        f"{folder}/libcuda.so.1",
    ]
    subprocess.run(command, check=True)
    return folder


@pytest.mark.once
@pytest.mark.parametrize("way", ["ctypes", "bindings"])
def test_the_functions_are_called_as_the_library_has_them(library, way):
    if way == "bindings":
        pytest.importorskip("cuda.bindings")
    hide = "import sys; sys.modules['cuda.bindings'] = None\n" if way == "ctypes" else ""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    command = [sys.executable, "-c", hide + PROGRAM, way]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "done\n", done.stderr


def test_a_driver_that_lacks_a_function_is_too_old(monkeypatch):
    class Old:
        def __getitem__(self, name):
            raise AttributeError(f"libcuda.so.1: undefined symbol: {name}")

    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setattr(libcuda.ctypes, "CDLL", lambda name: Old())
    with pytest.raises(DeviceUnavailable, match=r"too old .*undefined symbol: cuInit.* Update it"):
        libcuda.load()


def test_each_function_is_named_with_its_parameters():
    for name, text in libcuda.FUNCTIONS.items():
        symbol, *parameters = text.split()
        assert symbol.removesuffix("_v2").removesuffix("WithFlags") == name
        assert sum(p[0] == ">" for p in parameters) <= 1
