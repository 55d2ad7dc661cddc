"""The report of a machine with a GPU, on the simulated one: what a part keeps, what failed, what is drawn."""

import json

import pytest

from benchmarks import gpu

pytest.importorskip("triton.language")


def lines(path):
    found = {}
    for line in path.read_text().splitlines():
        item = json.loads(line)
        found[item.pop("item")] = item
    return {"seconds": 1.0, "trouble": "", "items": found}


def test_a_part_keeps_what_it_found_and_what_failed(tmp_path):
    part = gpu.Part(tmp_path / "lines", small=True)
    part.seconds = 0.0
    gpu.PARTS["device"][0](part)
    gpu.PARTS["tiny"][0](part)
    part.item("broken", lambda: {"x": 1 / 0})
    parts = {"tiny": lines(tmp_path / "lines"), "gpt": gpu.run_part("gpt", 0.01, small=True)}
    items = parts["tiny"]["items"]
    assert items["properties"]["properties"]["is_simulated"]
    assert items["eager"]["seconds"] > 0
    assert "jit" in items["@jit"]
    text = gpu.paragraph(parts)
    assert "1 failed; 1 parts were stopped" in text
    assert "no time here is a measurement" in text
    assert "* tiny, broken: ZeroDivisionError: division by zero (at test_gpu_benchmark.py:" in text
    assert "* gpt: stopped after 0 s" in text
    assert gpu.table(parts).splitlines()[2].split()[0] == "tiny"
    pytest.importorskip("matplotlib")
    gpu.picture(parts, tmp_path / "gpu.png")
    assert (tmp_path / "gpu.png").stat().st_size > 1000


def test_the_small_parts_are_those_of_the_whole():
    assert set(gpu.SMALL) == set(gpu.workloads.BY_NAME)
    assert sum(limit for _, limit in gpu.PARTS.values()) < 20 * 60
