"""A driver in Python for each test of this folder, and a GPU over it."""

from importlib.metadata import EntryPoint, entry_points

import numpy as np
import pytest
from fake_driver import FakeDriver, FakeKernel

from eager.base import plugins
from eager.device import cuda, places

KERNELS = EntryPoint("jitcap", "codegen.op_kernels", "eager.kernels")


@pytest.fixture
def driver():
    return FakeDriver()


@pytest.fixture
def unit(driver):
    """A CudaDevice."""
    return cuda.CudaDevice(driver)


@pytest.fixture
def placed(driver, monkeypatch):
    """`"cuda"` is a GPU over the driver."""
    if not entry_points(group=KERNELS.group):  # a checkout beside an older installed version
        monkeypatch.setattr(plugins, "entry_points", lambda group: [KERNELS])
        plugins.provider.cache_clear()
    monkeypatch.delenv("JITCAP_DEVICE", raising=False)
    monkeypatch.setattr(places, "_driver", lambda: driver)
    places.close()
    yield places.pool(0).device
    places.close()


@pytest.fixture
def add(driver):
    """target += number, on float32."""

    def work(driver, grid, values):
        address, count, number = values
        driver.bytes_at(address, 4 * count).view(np.float32)[:] += number

    return FakeKernel(driver, "add", "Qid", work)
