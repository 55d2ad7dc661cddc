"""A simulated GPU for each test of this folder."""

from importlib.metadata import EntryPoint, entry_points

import pytest

from eager.base import plugins
from eager.core import on_device
from eager.device import places

KERNELS = EntryPoint("jitcap", "codegen.op_kernels", "eager.kernels")


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    """`"cuda"` is a fresh simulated GPU, which the test gets."""
    if not entry_points(group=KERNELS.group):  # a checkout beside an older installed version
        monkeypatch.setattr(plugins, "entry_points", lambda group: [KERNELS])
        plugins.provider.cache_clear()
    monkeypatch.setenv("JITCAP_DEVICE", "sim")
    monkeypatch.setattr(on_device, "_said", set())
    on_device.host_runs.clear()
    places.close()
    yield places.pool(0).device
    places.close()
