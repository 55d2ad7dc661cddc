"""The count at the end of a run: what passed in the interpreter, what compiled for sm_90."""

from collections import Counter

import pytest

from eager.device import places


def pytest_terminal_summary(terminalreporter):
    counts = Counter()
    for report in terminalreporter.stats.get("passed", []):
        if report.when == "call":
            for name, value in report.user_properties:
                counts[name] += value
    if counts:
        terminalreporter.write_line(
            f"triton: {counts['ops']} ops and {counts['fused']} fused kernels pass in the interpreter, "
            f"{counts['compiled']} kernels compile for sm_90"
        )


@pytest.fixture(autouse=True)
def closed():
    """Other folders' tests find no simulated GPU open."""
    yield
    places.close()
