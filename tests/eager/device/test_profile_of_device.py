"""`jitcap.profile` of simulated devices: kernels and copies, by the cost model, said so."""

import json

import pytest

import eager
import jitcap
from jitcap import jit

pytest.importorskip("triton.language")
pytestmark = pytest.mark.once


def test_kernels_and_copies_by_the_model(tmp_path, simulated):
    step = jit(lambda x: (x.exp() * 2).sum(0))
    x = eager.ones(64, 32)
    step(x.to("cuda"))
    with jitcap.profile() as p:
        there = x.to("cuda")
        for _ in range(2):
            step(there)
        step(there).cpu()
    rows = {row.name: row for row in p.modelled_rows()}
    kernel = next(row for row in rows.values() if row.kind == "kernel")
    assert kernel.calls == 3
    assert kernel.us * 1e-6 == pytest.approx(
        3 * simulated.model.kernel(kernel.nbytes // 3, 0), rel=0.2
    )
    assert rows["a copy to the device"].nbytes >= x.numel() * 4
    assert rows["a copy to the host"].calls == 1
    table = p.table()
    assert "by their model and not measured" in table
    assert "transfer" not in {row.kind for row in p.rows()}
    p.chrome_trace(tmp_path / "trace.json")
    names = [
        e["args"].get("name")
        for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ]
    assert "simulated devices, by their model" in names
