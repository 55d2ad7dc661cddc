"""Several GPUs over a driver in Python: contexts, copies between them, events across them."""

import numpy as np
import pytest
from fake_driver import CONTEXT, FakeDriver

import eager
from eager import cuda
from eager.device import places
from eager.device.protocol import DeviceFailure, Region


@pytest.fixture
def driver():
    return FakeDriver(count=2)


@pytest.fixture
def two(placed):
    return placed, places.pool(1).device


def block(unit, values):
    values = np.asarray(values, np.float32)
    region = Region(unit.allocate(values.nbytes), values.nbytes, writes=True)
    unit.upload(region, values, unit.main)
    return region


def test_each_gpu_has_its_context(two, driver, add):
    regions = [block(unit, [unit.index] * 2) for unit in two]
    for _ in range(2):
        for unit, region in zip(two, regions, strict=True):
            unit.launch(add, (1, 1, 1), [region, 2, 1.0], unit.main)
    out = np.empty(2, np.float32)
    for unit, region in zip(two, regions, strict=True):
        unit.download(out, region, unit.main)
        assert out.tolist() == [unit.index + 2] * 2
    driver.CtxSetCurrent(CONTEXT)  # another library does, behind our back
    address = two[1].allocate(8)
    assert driver.homes[address] == CONTEXT + 1
    assert cuda.device_count() == 2
    with pytest.raises(DeviceFailure, match="INVALID_HANDLE"):
        two[0].main.record(two[1].event())


@pytest.mark.parametrize("linked", [True, False])
def test_copies_between_gpus_are_the_drivers(two, driver, linked):
    driver.linked = linked
    assert cuda.can_device_access_peer(0, 1) == linked
    driver.peers.update({(CONTEXT + 1, CONTEXT)} if linked else ())  # another library did that
    x = eager.arange(6.0).reshape(2, 3).cuda(0)
    y = x.to("cuda:1")
    x.copy_(eager.zeros(2, 3))  # behind the copy
    assert not two[1].main.query()  # and the host waited for nothing
    assert y.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert y[1].to("cuda:0").tolist() == [3, 4, 5]
    assert x.tolist() == [[0, 0, 0]] * 2
    assert driver.log.count("cuMemcpyPeerAsync") == 2
    assert driver.peers == ({(CONTEXT, CONTEXT + 1), (CONTEXT + 1, CONTEXT)} if linked else set())
    assert two[0].counters()["bytes_to_peers"] == 24
