"""Several processes, and one that makes what all need."""

import subprocess
import sys
import threading
import time

import pytest

from codegen.runtime import turns
from codegen.runtime.turns import Turn

HOLDER = """
import sys, time
from codegen.runtime.turns import Turn
print(Turn(sys.argv[1]).take(), flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))


def test_a_turn_ends_with_its_process(monkeypatch):
    command = [sys.executable, "-c", HOLDER, "ab"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        turn = Turn("ab")
        assert other.stdout.readline() == "True\n" and not turn.take()
        monkeypatch.setattr(turns, "PATIENCE", 0.05)
        turn.wait()  # longer than a compile takes: nobody is held up for good
        assert not turns._held and not turn.take()
        monkeypatch.setattr(turns, "PATIENCE", 60.0)
        threading.Timer(0.1, other.kill).start()
        turn.wait()
    assert turns._held and not Turn("ab").take()
    turn.release()
    again = Turn("ab")
    assert again.take()
    again.release()


def test_others_take_turns_while_one_asks_who_has_some(monkeypatch):
    others = {(-n, "others") for n in range(1, 2000)}
    monkeypatch.setattr(turns, "_held", {*others})
    turn, over = Turn("ab"), threading.Event()

    def work():
        while not over.is_set():
            turns._held.add((0, "work"))
            turns._held.discard((0, "work"))

    thread = threading.Thread(target=work)
    switched = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(200):
            turn.wait()
            turn.release()
    finally:
        sys.setswitchinterval(switched)
        over.set()
        thread.join()


def test_who_has_a_turn_waits_for_nobody():
    mine, theirs, third = Turn("aa"), Turn("bb"), Turn("bb")
    taken = []
    thread = threading.Thread(target=lambda: taken.append(theirs.take()))
    thread.start()
    thread.join()
    assert mine.take() and taken == [True] and not third.take()
    start = time.monotonic()
    third.wait()
    assert time.monotonic() - start < turns.PATIENCE / 2 and len(turns._held) == 2
    theirs.release()
    mine.release()
    third.wait()
    assert len(turns._held) == 1
    third.release()
    assert not turns._held
