"""The CUDA device over a driver in Python: memory, order, parameters, recordings, and every error."""

import os
import struct
import threading

import numpy as np
import pytest
from fake_driver import FakeDriver, FakeKernel

import eager
from eager.device import cuda, libcuda, places, transfer
from eager.device.pinned import is_pinned
from eager.device.pool import Pool
from eager.device.protocol import (
    DeviceFailure,
    DeviceUnavailable,
    OutOfMemoryError,
    Region,
)

ONE = (1, 1, 1)


def block(unit, values, stream=None):
    values = np.asarray(values, np.float32)
    region = Region(unit.allocate(values.nbytes), values.nbytes, writes=True)
    unit.upload(region, values, stream or unit.main)
    return region


def read(unit, region, stream=None):
    out = np.empty(region.nbytes // 4, np.float32)
    unit.download(out, region, stream or unit.main)
    return out.tolist()


def test_what_the_device_says_of_itself(unit):
    found = unit.properties
    assert (found.name, found.major, found.minor) == ("Fake GPU", 9, 0)
    assert (found.total_memory, found.multi_processor_count) == (1 << 34, 132)
    assert (found.shared_memory_per_block, found.L2_cache_size) == (232448, 50 << 20)
    assert not found.is_simulated


def test_copies_launches_and_their_order(unit, driver, add):
    region = block(unit, [1, 2, 3, 4])
    unit.launch(add, ONE, [region, 4, 2.5], unit.main)
    assert not unit.main.query()
    other = Region(unit.allocate(16), 16, writes=True)
    unit.copy(other, region, unit.main)
    unit.clear(Region(region.address, 8, writes=True), unit.main)
    assert read(unit, other) == [3.5, 4.5, 5.5, 6.5]
    assert read(unit, region) == [0, 0, 5.5, 6.5]
    counted = unit.counters()
    assert (counted["launches"], counted["copies_on_device"], counted["synchronizations"]) == (
        1,
        1,
        2,
    )
    assert (counted["bytes_to_device"], counted["bytes_to_host"]) == (16, 32)


def test_parameters_are_naturally_aligned_and_the_rest_are_zeros():
    packer, offsets = cuda.layout("Qid?qfQQ")
    assert offsets == (0, 8, 16, 24, 32, 40, 48, 56)
    data = packer.pack(2**40, -3, 0.1, True, 2**50, 0.5, 0, 0)
    assert struct.unpack_from("<i", data, 8) == (-3,)
    assert struct.unpack_from("<d", data, 16) == (0.1,)
    assert len(data) == 64
    assert cuda.layout("bhiq")[1] == (0, 2, 4, 8)


def test_the_driver_gets_what_the_launch_was_given(unit, driver, add):
    seen = []
    kernel = FakeKernel(driver, "mixed", "?bhiqfdQQQ", lambda d, g, v: seen.append((g, v)), own=8)
    region = block(unit, [0] * 4)
    unit.launch(kernel, (3, 2, 1), [True, -7, -300, 5, -(2**40), 0.5, 0.1, region], unit.main)
    unit.synchronize()
    assert seen == [((3, 2, 1), [True, -7, -300, 5, -(2**40), 0.5, 0.1, region.address, 0, 0])]


def test_a_kernel_is_compiled_for_the_device_and_for_what_lies_on_16_bytes(unit, add):
    region = block(unit, range(8))
    odd = Region(region.address + 4, 8, writes=True)
    for target in (region, odd, region, odd):
        unit.launch(add, ONE, [target, 2, 1.0], unit.main)
    assert add.asked == [((9, 0), [True, True, True], 16), ((9, 0), [False, True, True], 16)]
    assert read(unit, region)[:4] == [2, 5, 4, 3]
    for capability in ((8, 0), (8, 6), (8, 9), (10, 0), (12, 0)):
        other = cuda.CudaDevice(FakeDriver(capability))
        other.driver.kernels = unit.driver.kernels
        other.launch(add, ONE, [block(other, [1]), 1, 1.0], other.main)
        assert add.asked[-1][0] == capability


def test_equal_code_is_loaded_once(unit, driver, add):
    again = FakeKernel(driver, "add", "Qid", driver.kernels[b"add"][1])
    region = block(unit, [1])
    for kernel in (add, again, add):
        unit.launch(kernel, ONE, [region, 1, 1.0], unit.main)
    assert driver.log.count("cuModuleLoadData") == 1
    assert read(unit, region) == [4]


def test_tables_lie_on_the_device_before_the_arguments(unit, driver):
    def work(driver, grid, values):
        table, sizes, number = values
        where = driver.bytes_at(table, 16).view(np.int64)
        (size,) = driver.bytes_at(sizes, 4).view(np.int32)
        for address in where:
            driver.bytes_at(int(address), 4 * int(size)).view(np.float32)[:] *= number

    kernel = FakeKernel(driver, "scale", "QQd", work, own=1)
    members = [block(unit, [1, 2, 3, *range(5)])._replace(nbytes=12), block(unit, [4, 5, 6])]
    unit.launch(kernel, ONE, [2.0, *members], unit.main)
    taken = len(driver.blocks)
    assert [read(unit, m) for m in members] == [[2, 4, 6], [8, 10, 12]]
    assert len(driver.blocks) == taken - 1  # the tables went behind the launch
    recording = unit.record(lambda: unit.launch(kernel, ONE, [0.5, *members], unit.main), unit.main)
    recording.replay(unit.main)
    recording.replay(unit.main)
    assert [read(unit, m) for m in members] == [[0.5, 1, 1.5], [2, 2.5, 3]]
    taken = len(driver.blocks)
    del recording
    unit.allocate(1)
    assert len(driver.blocks) == taken  # one more, and the recording's tables less
    for offset in (8, 4, 12, 16):  # members may lie anywhere
        odd = [Region(members[0].address + offset, 12, True), members[1]]
        unit.launch(kernel, ONE, [1.0, *odd], unit.main)
    assert [asked[-1] for asked in kernel.asked] == [16, 8, 4, 4]
    assert not driver.graphs


def test_code_for_sizes_that_are_multiples_of_16(unit, driver):
    """Two kernels, whatever the sizes are: only where it matters, and not for other numbers."""
    seen = []
    kernel = FakeKernel(driver, "rows", "QiiQQ", lambda d, g, v: seen.append(v[1:3]), own=3)
    kernel.multiples = 0b10
    region = block(unit, [1])
    sizes = [(32, 17), (17, 32), (48, 3), (5, 5), (64, 64)]
    for pair in sizes:
        unit.launch(kernel, ONE, [region, *pair], unit.main)
    unit.synchronize()
    assert seen == [list(pair) for pair in sizes]
    assert kernel.asked == [
        ((9, 0), [True, True, True], 16), ((9, 0), [True, False, True], 16)
    ]  # fmt: skip


def test_a_kernel_that_asks_for_more_than_the_device_has(unit, driver):
    large = FakeKernel(driver, "large", "Q", lambda *_: None, shared=100 << 10)
    unit.launch(large, ONE, [block(unit, [1])], unit.main)  # asked for before
    larger = FakeKernel(driver, "larger", "Q", lambda *_: None, shared=1 << 20)
    with pytest.raises(DeviceFailure, match="larger needs 1048576 bytes of shared memory"):
        unit.launch(larger, ONE, [block(unit, [1])], unit.main)


def test_events_order_streams_and_tell_time(unit, driver, add):
    side = unit.stream()
    start, end = unit.event(timing=True), unit.event(timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(end)
    unit.main.record(start)
    region = block(unit, [1, 2])
    unit.launch(add, ONE, [region, 2, 1.0], unit.main)
    unit.main.record(end)
    side.wait(end)
    side.wait(unit.event())  # one that was not recorded has come
    assert not end.query()
    with pytest.raises(RuntimeError, match="completed"):
        start.elapsed_time(end)
    assert read(unit, region, side) == [2, 3]  # through the event, all of the other stream
    assert end.query() and start.elapsed_time(end) > 0
    end.synchronize()
    for _ in range(9):
        unit.event()
    assert len(driver.events) <= 6  # those that died are given back
    with pytest.raises(RuntimeError, match="enable_timing"):
        start.elapsed_time(unit.event())


def test_small_copies_do_not_wait_and_their_memory_is_used_again(unit, driver):
    values = np.arange(4, dtype=np.float32)
    region = block(unit, values)
    for i in range(3):
        values[:] = i
        unit.upload(region, values, unit.main)
        values[:] = -1  # it was taken before the call came back
    assert "cuStreamSynchronize" not in driver.log
    assert read(unit, region) == [2, 2, 2, 2]
    taken = len(driver.pages)
    for _ in range(5):
        unit.upload(region, values, unit.main)
        unit.synchronize()
    assert len(driver.pages) == taken
    assert len(driver.events) <= 5
    large = np.zeros(cuda.STAGED // 4 + 1, np.float32)
    before = driver.log.count("cuStreamSynchronize")
    block(unit, large)
    assert driver.log.count("cuStreamSynchronize") == before + 1


def test_pinned_memory_is_kept_until_its_copy_is_done(unit, driver):
    pinned = unit.pinned(16).view(np.float32)
    assert is_pinned(pinned[1:]) and not is_pinned(pinned.copy())
    pinned[:] = 7
    region = Region(unit.allocate(16), 16, writes=True)
    unit.upload(region, pinned, unit.main, pinned=True)
    place = pinned.ctypes.data
    del pinned
    assert unit.pinned(16).ctypes.data != place  # not given to another while it is read
    assert read(unit, region) == [7] * 4
    again = [unit.pinned(16) for _ in range(3)]
    assert place in [a.ctypes.data for a in again]


def test_recordings_run_again_on_what_memory_holds(unit, driver, add):
    region, source = block(unit, [1, 2]), block(unit, [5, 6])

    def work():
        unit.copy(region, source, unit.main)
        unit.launch(add, ONE, [region, 2, 1.0], unit.main)

    recording = unit.record(work, unit.main)
    assert read(unit, region) == [1, 2]
    recording.replay(unit.main)
    assert read(unit, region) == [6, 7]
    unit.upload(source, np.array([10, 20], np.float32), unit.main)
    driver.log.clear()
    recording.replay(unit.main)
    assert driver.log == ["cuGraphLaunch"]  # one call of the host
    assert read(unit, region) == [11, 21]
    counted = unit.counters()
    assert (counted["recordings"], counted["replays"], counted["launches"]) == (1, 2, 0)


@pytest.mark.parametrize("what", ["upload", "wait", "synchronize", "replay", "all"])
def test_what_a_recording_may_not_hold(unit, add, what):
    region = block(unit, [1, 2])
    done = unit.record(lambda: None, unit.main)
    works = {
        "upload": lambda: unit.upload(region, np.zeros(2, np.float32), unit.main),
        "wait": lambda: unit.main.wait(unit.event()),
        "synchronize": unit.main.synchronize,
        "replay": lambda: done.replay(unit.main),
        "all": unit.synchronize,
    }
    with pytest.raises(DeviceFailure, match="while its commands are recorded"):
        unit.record(works[what], unit.main)
    unit.launch(add, ONE, [region, 2, 1.0], unit.main)  # the stream is in order again
    assert read(unit, region) == [2, 3]


def test_another_thread_goes_on_while_a_stream_is_recorded(unit, add):
    region, other = block(unit, [1, 2]), block(unit, [5, 6])
    recorded, done = threading.Event(), threading.Event()
    found = []

    def work():
        unit.launch(add, ONE, [region, 2, 1.0], unit.main)
        recorded.set()
        assert done.wait(20)

    def beside():
        recorded.wait(20)
        try:
            unit.main.synchronize()
            found.append(unit.main.query())
        except DeviceFailure as error:
            found.append(error)
        finally:
            done.set()
        unit.upload(other, np.array([7, 8], np.float32), unit.main)
        unit.launch(add, ONE, [other, 2, 1.0], unit.main)
        unit.synchronize()
        found.append(read(unit, other))

    thread = threading.Thread(target=beside)
    thread.start()
    recording = unit.record(work, unit.main)
    thread.join(20)
    assert found == [True, [8, 9]]
    assert read(unit, region) == [1, 2]
    recording.replay(unit.main)
    assert read(unit, region) == [2, 3]


def test_the_pool_gives_memory_again_and_tells_who_holds_it(driver):
    driver.total = 1 << 20
    pool = Pool(cuda.CudaDevice(driver))
    buffer = pool.empty(1000, pool.device.main)
    assert buffer.address % 256 == 0
    address = buffer.address
    del buffer
    assert pool.empty(900, pool.device.main).address == address
    with pytest.raises(
        OutOfMemoryError, match=r"no memory on cuda:0 for 2.00 MiB: .*smaller batches"
    ):
        pool.empty(2 << 20, pool.device.main)
    assert not driver.blocks  # what was cached was given back


def test_each_thread_gets_the_context(unit, add):
    region = block(unit, [1])
    found = []
    thread = threading.Thread(target=lambda: found.append(read(unit, region)))
    thread.start()
    thread.join()
    assert found == [[1]]


# ------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("given", "fail", "text"),
    [
        ({}, {"cuInit": [100]}, "the driver finds no GPU"),
        ({}, {"cuInit": [803]}, "differ: reboot"),
        ({}, {"cuInit": [34]}, "stub"),
        ({}, {"cuInit": [3]}, "forked"),
        ({"count": 0}, {}, "the driver finds none"),
        ({"version": 11080}, {}, r"is for CUDA 11\.8, and 12\.0 or newer is needed\. Update it"),
        ({}, {"cuInit": [46]}, "another process has it for itself"),
    ],
)
def test_why_no_gpu_can_be_used(monkeypatch, given, fail, text):
    driver = FakeDriver(**given)
    driver.fail = fail
    monkeypatch.setattr(libcuda, "load", lambda: driver)
    with pytest.raises(DeviceUnavailable, match=text) as caught:
        cuda.find()
    assert "\n" not in str(caught.value)


def test_a_gpu_that_is_too_old_or_busy(driver):
    with pytest.raises(DeviceUnavailable, match=r"capability 7\.5, and kernels need 8\.0"):
        cuda.CudaDevice(FakeDriver((7, 5)))
    driver.fail["cuDevicePrimaryCtxRetain"] = [46]
    with pytest.raises(DeviceUnavailable, match="cuda:0: the GPU is busy"):
        cuda.CudaDevice(driver)


def test_without_a_driver_it_says_so(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(libcuda.ctypes, "CDLL", missing)
    with pytest.raises(DeviceUnavailable, match="no NVIDIA driver is installed"):
        libcuda.load()


def test_a_fault_of_a_kernel_is_found_at_a_wait_and_stays(unit, driver, add):
    region = block(unit, [1, 2])
    unit.launch(add, ONE, [Region(region.address, 8, writes=True), 1 << 20, 1.0], unit.main)
    with pytest.raises(DeviceFailure, match=r"illegal memory access.*CUDA_ERROR_ILLEGAL_ADDRESS.*"
                       r"found \(at .*test_device\.py:\d+\) and queued before; JITCAP_DEVICE=sim"):  # fmt: skip
        unit.synchronize()
    for work in (
        lambda: unit.allocate(4),
        lambda: unit.launch(add, ONE, [region, 1, 0.0], unit.main),
    ):
        with pytest.raises(DeviceFailure, match="takes no more work since"):
            work()


@pytest.mark.parametrize(
    ("name", "code", "kind", "text"),
    [
        ("cuMemAlloc", 2, OutOfMemoryError, "it has no memory left"),
        ("cuModuleLoadData", 222, DeviceFailure, "older than the compiler"),
        ("cuModuleLoadData", 209, DeviceFailure, "compiled for another GPU"),
        ("cuLaunchKernel", 701, DeviceFailure, "registers or shared memory"),
        ("cuLaunchKernel", 719, DeviceFailure, "a kernel failed while it ran"),
        ("cuLaunchKernel", 716, DeviceFailure, "not aligned"),
        ("cuStreamSynchronize", 999, DeviceFailure, "the GPU is lost"),
        ("cuStreamSynchronize", 214, DeviceFailure, "uncorrectable error"),
        ("cuGraphInstantiate", 2, OutOfMemoryError, "no memory left"),
        ("cuStreamEndCapture", 901, DeviceFailure, "CUDA_ERROR_901"),
    ],
)
def test_each_error_is_one_line(unit, driver, add, name, code, kind, text):
    driver.fail[name] = [code]
    with pytest.raises(kind, match=text) as caught:
        region = block(unit, [1])
        unit.record(lambda: unit.launch(add, ONE, [region, 1, 0.0], unit.main), unit.main)
        unit.main.synchronize()
    assert "\n" not in str(caught.value)
    assert (unit.failure is not None) == (code in libcuda.STICKY)


def test_a_refused_launch_changes_nothing(unit, driver, add):
    region = block(unit, [1])
    driver.fail["cuLaunchKernel"] = [1]
    with pytest.raises(DeviceFailure, match=r"refused it \(CUDA_ERROR_INVALID_VALUE\)"):
        unit.launch(add, ONE, [region, 1, 1.0], unit.main)
    unit.launch(add, ONE, [region, 1, 1.0], unit.main)
    assert read(unit, region) == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_the_child_is_told(unit):
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        try:
            unit.allocate(4)
        except DeviceFailure as error:
            os.write(writable, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"opened before this process was forked: use the start method 'spawn'" in os.read(
        readable, 1000
    )
    unit.allocate(4)


# ------------------------------------------------------------------------------- tensors
def test_a_gpu_that_is_there_is_cuda(placed, driver):
    assert eager.cuda.is_available()
    assert eager.cuda.device_count() == 1
    assert eager.cuda.get_device_name() == "Fake GPU"
    assert eager.cuda.get_device_capability() == (9, 0)
    x = eager.tensor([1.0, 2.0]).pin_memory()
    assert x.is_pinned()
    y = x.to("cuda", non_blocking=True)
    assert y.cpu().tolist() == [1, 2]
    assert "modelled_seconds" not in eager.cuda.counters()
    assert "Fake GPU" in eager.cuda.memory_summary()


def test_a_copy_keeps_what_is_dense(placed):
    x = eager.arange(6.0).reshape(2, 3).t()
    assert transfer.download(transfer.upload(x.numpy(), places.resolved("cuda"))).tolist() == (
        x.tolist()
    )
