"""The simulated GPU: order and races, recordings, faults, counters and the modelled clock."""

import contextlib
import os

import numpy as np
import pytest

from eager.device import device, places, transfer
from eager.device.pinned import is_pinned
from eager.device.pool import Buffer
from eager.device.protocol import DeviceFailure, OutOfMemoryError, RaceError, Region

CUDA = device("cuda:0")


class Add:
    """target += number, on float32."""

    name = "add_number"
    together = contextlib.nullcontext

    def simulate(self, grid, arguments):
        target, number = arguments
        target.view(np.float32)[:] += number


def block(unit, values, stream=None):
    values = np.asarray(values, np.float32)
    address = unit.allocate(values.nbytes)
    region = Region(address, values.nbytes, writes=True)
    unit.upload(region, values, stream or unit.main)
    return region


def read(unit, region, stream=None):
    out = np.empty(region.nbytes // 4, np.float32)
    unit.download(out, Region(region.address, region.nbytes), stream or unit.main)
    return out.tolist()


def add(unit, region, number, stream=None):
    unit.launch(Add(), (1, 1, 1), [region, number], stream or unit.main)


def test_commands_of_a_stream_run_in_order_and_only_when_waited_for(simulated):
    region = block(simulated, [1, 2])
    add(simulated, region, 3)
    assert not simulated.main.query()
    assert read(simulated, region) == [4, 5]
    assert simulated.main.query()
    counted = simulated.counters()
    assert (counted["launches"], counted["synchronizations"]) == (1, 1)
    assert (counted["bytes_to_device"], counted["bytes_to_host"]) == (8, 8)


def test_new_memory_holds_nan(simulated):
    assert np.isnan(read(simulated, Region(simulated.allocate(8), 8))).all()


def test_a_missing_wait_is_a_race_and_names_both_commands(simulated):
    side = simulated.stream()
    region = block(simulated, [1, 2])
    with pytest.raises(RaceError, match=r"add_number \(at .*test_sim\.py:\d+\) on stream 1 writes 8 "
                       r"bytes that a copy to the device \(at .*test_sim\.py:\d+\) on stream 0 writes"):  # fmt: skip
        add(simulated, region, 1, side)
    event = simulated.event()
    simulated.main.record(event)
    side.wait(event)
    add(simulated, region, 1, side)  # ordered now
    with pytest.raises(RaceError, match="reads 8 bytes"):
        read(simulated, region)
    side.synchronize()  # the host waits, and what it queues later comes later
    assert read(simulated, region) == [2, 3]


def test_reads_do_not_race_and_neither_do_other_bytes(simulated):
    side = simulated.stream()
    region = block(simulated, [1, 2, 3, 4])
    simulated.synchronize()
    assert read(simulated, region) == read(simulated, region, side)
    add(simulated, Region(region.address, 8, writes=True), 1)
    add(simulated, Region(region.address + 8, 8, writes=True), 10, side)
    simulated.synchronize()
    assert read(simulated, region) == [2, 3, 13, 14]


def test_order_goes_through_a_chain_of_streams(simulated):
    first, second, third = (simulated.stream() for _ in range(3))
    region = block(simulated, [0], first)
    for before, after in ((first, second), (second, third)):
        event = simulated.event()
        before.record(event)
        after.wait(event)
    add(simulated, region, 1, third)
    assert read(simulated, region, third) == [1]
    assert first.query()


def test_the_host_writing_under_a_copy_is_a_race(simulated):
    array = transfer.pinned_copy(np.zeros(4, np.float32))
    assert is_pinned(array[1:])
    assert not is_pinned(array.copy())
    there = transfer.upload(array, CUDA, non_blocking=True)
    array += 1
    with pytest.raises(RaceError, match=r"the host wrote to pinned memory.*test_sim\.py"):
        transfer.download(there)
    places.close()
    there = transfer.upload(array, CUDA)  # which is done when it returns
    array += 1
    assert transfer.download(there).tolist() == [1, 1, 1, 1]


def test_what_was_recorded_is_replayed_on_what_is_there_then(simulated):
    region = block(simulated, [1, 2])
    twice = simulated.record(lambda: [add(simulated, region, 1) for _ in range(2)], simulated.main)
    assert read(simulated, region) == [1, 2]
    for _ in range(3):
        twice.replay(simulated.main)
    assert read(simulated, region) == [7, 8]
    counted = simulated.counters()
    assert (counted["recordings"], counted["replays"], counted["launches"]) == (1, 3, 0)
    with pytest.raises(DeviceFailure, match="while its commands are recorded"):
        simulated.record(simulated.main.synchronize, simulated.main)
    with pytest.raises(DeviceFailure, match="a copy to the host"):
        simulated.record(lambda: read(simulated, region), simulated.main)
    with pytest.raises(DeviceFailure, match="a copy to the device"):
        simulated.record(lambda: block(simulated, [1, 2]), simulated.main)
    side = simulated.stream()
    add(simulated, region, 1, side)
    with pytest.raises(RaceError):
        twice.replay(simulated.main)


def test_a_fault_while_a_kernel_runs_is_raised_at_the_wait_and_stays(simulated):
    region = block(simulated, [1])
    simulated.faults.execution = 1
    add(simulated, region, 1)
    add(simulated, region, 1)
    with pytest.raises(DeviceFailure, match=r"add_number \(at .*test_sim\.py:\d+\) failed"):
        simulated.synchronize()
    with pytest.raises(DeviceFailure, match="takes no more work since: kernel add_number"):
        add(simulated, region, 1)


def test_a_refused_launch_changes_nothing(simulated):
    region = block(simulated, [1])
    simulated.faults.launch = 0
    with pytest.raises(DeviceFailure, match="was not launched"):
        add(simulated, region, 1)
    add(simulated, region, 1)
    assert read(simulated, region) == [2]


def test_memory_outside_every_block_is_refused(simulated):
    region = block(simulated, [1, 2])
    for bad in (Region(region.address + 4, 8), Region(region.address - 4, 4), Region(16, 4)):
        with pytest.raises(DeviceFailure, match="illegal memory access"):
            add(simulated, bad, 1)


def test_a_copy_onto_a_part_of_itself_is_refused(simulated):
    """As a GPU's driver defines none."""
    region = block(simulated, [1, 2, 3])
    start = Region(region.address, 8)
    with pytest.raises(DeviceFailure, match="overlap"):
        simulated.copy(Region(region.address + 4, 8, writes=True), start, simulated.main)


def test_out_of_memory_gives_back_what_is_cached_first_and_says_who_holds_it(simulated):
    pool = places.pool(0)
    simulated.faults.memory = 8192
    small = pool.empty(1000, simulated.main)
    pool.empty(5000, simulated.main)  # cached when this line is done
    assert isinstance(pool.empty(7000, simulated.main), Buffer)
    with pytest.raises(
        OutOfMemoryError, match=r"no memory on cuda:0 for 1\.00 MiB: tensors hold 1\.00 KiB"
    ):
        pool.empty(1 << 20, simulated.main)
    simulated.faults.allocation = 0
    del small
    assert isinstance(pool.empty(7000, simulated.main), Buffer)  # the second try has it


def test_memory_that_another_stream_uses_waits_for_it(simulated):
    pool, side = places.pool(0), simulated.stream()
    buffer = pool.empty(512, simulated.main)
    region, place = Region(buffer.address, 512, writes=True), buffer.address
    add(simulated, region, 1, side)
    buffer.used_on(side)
    del buffer
    assert pool.empty(512, simulated.main).address != place
    side.synchronize()
    again = pool.empty(512, simulated.main)
    add(simulated, Region(again.address, 512, writes=True), 1)


def test_the_clock_is_a_model_of_bytes_launches_and_overlap(simulated):
    side, size = simulated.stream(), 48_000_000
    one, other = (Region(simulated.allocate(size), size, writes=True) for _ in range(2))
    start, end = simulated.event(timing=True), simulated.event(timing=True)
    simulated.main.record(start)
    add(simulated, one, 1)
    add(simulated, other, 1, side)
    simulated.main.record(end)
    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)
    simulated.synchronize()
    each = 1e3 * 2 * size / simulated.model.memory  # read and written: 20 us
    assert each <= start.elapsed_time(end) <= each + 0.01
    assert simulated.counters()["modelled_seconds"] < 2e-3 * each  # side by side
    with pytest.raises(RuntimeError, match="enable_timing"):
        simulated.event().elapsed_time(end)


def test_a_forked_process_is_told_that_it_cannot_use_it(simulated):
    region = block(simulated, [1])
    simulated.process = os.getpid() - 1  # as after a fork
    with pytest.raises(DeviceFailure, match="forked.*spawn"):
        read(simulated, region)
