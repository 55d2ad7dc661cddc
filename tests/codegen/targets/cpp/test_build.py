"""Running the C++ compiler: what is found, what is kept, how it fails."""

import ctypes
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import eager
from codegen.targets.cpp import program
from codegen.targets.cpp.runtime import build, cpu, support
from jitcap import config, jit
from jitcap.capture import result

ONE = 'extern "C" __attribute__((visibility("default"))) int one() { return 1; }'


@pytest.fixture(autouse=True)
def need_compiler():
    try:
        build.compiler()
    except build.NoCompiler as error:
        pytest.skip(str(error))


def fake_compiler(tmp_path, body):
    path = tmp_path / "fake-c++"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_several_sources_become_one_object(tmp_path):
    two = 'extern "C" int one(); extern "C" __attribute__((visibility("default")))'
    two += " int two() { return 2 * one(); }"
    build.compile_shared({"one.cpp": ONE, "two.cpp": two}, tmp_path / "x.so").result()
    assert ctypes.CDLL(str(tmp_path / "x.so")).two() == 2


def test_kernels_are_shared_out_among_the_processors(monkeypatch):
    """A kernel that stands in another source than the entry is declared there, and called."""
    compiled = []
    shared = build.compile_shared

    def spy(sources, out, **rest):
        compiled.append([*sources])
        return shared(sources, out, **rest)

    monkeypatch.setattr(build, "compile_shared", spy)
    monkeypatch.setattr(program, "UNIT_BYTES", 500)
    monkeypatch.setenv("JITCAP_THREADS", "3")
    parameters = [eager.nn.Parameter(eager.ones(7, n)) for n in (3, 5)]
    optimizer = eager.optim.AdamW(parameters)
    x = eager.arange(35.0).reshape(7, 5) / 35

    def step():
        optimizer.zero_grad()
        loss = (x * parameters[1]).softmax(1).exp().mean() + parameters[0].sum(0).tanh().sum()
        loss.backward()
        optimizer.step()
        return loss

    got = [jit(step)(), *parameters]
    got = [t.tolist() for t in got]
    assert ["graph.cpp", "kernels0.cpp", "kernels1.cpp"] in compiled
    with eager.no_grad():
        for p in parameters:
            p.fill_(1)
    optimizer = eager.optim.AdamW(parameters)
    for ours, theirs in zip(got, [step(), *parameters], strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-5)


def test_a_library_is_compiled_once(monkeypatch):
    commands = []
    job = build._Job
    monkeypatch.setattr(build, "_Job", lambda c, *a: (commands.append(c), job(c, *a))[1])
    two = f"// {time.time_ns()}\n" + ONE.replace("one()", "two()").replace("1", "2")
    paths = [
        cpu.build_shared({"one.cpp": ONE + f"\n// {time.time_ns()}"}, (), {"two.cpp": two}).result()
        for _ in range(2)
    ]
    for library in (ctypes.CDLL(str(path)) for path in paths):
        assert (library.one(), library.two()) == (1, 2)
    for source, times in (("one.cpp", 2), ("two.cpp", 1)):
        assert sum(source in command for command in commands) == times


def test_error_shows_the_message_and_keeps_the_source(tmp_path):
    with pytest.raises(build.CompileError, match="no_such_name") as caught:
        build.compile_shared(
            {"bad.cpp": "int f() { return no_such_name; }"}, tmp_path / "x.so"
        ).result()
    kept = str(caught.value).split("kept in ")[1].split()[0]
    assert "no_such_name" in (Path(kept) / "bad.cpp").read_text()


def test_no_compiler_is_a_condition_of_its_own(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(build.NoCompiler, match=r"c\+\+, g\+\+, clang\+\+"):
        build.compiler()
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(build.NoCompiler, match="no-such-compiler"):
        build.compiler()


def test_CXX_is_used_and_in_the_key(monkeypatch, tmp_path):
    before = build.fingerprint()
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, "echo refused by the fake >&2; exit 3"))
    assert build.fingerprint() != before
    with pytest.raises(build.CompileError, match="(?s)status 3.*refused by the fake"):
        build.compile_shared({"one.cpp": ONE}, tmp_path / "x.so").result()
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, "exit 0"))
    with pytest.raises(build.CompileError, match=r"made no x\.so"):
        build.compile_shared({"one.cpp": ONE}, tmp_path / "x.so").result()


def test_deadline_ends_the_whole_process_group(monkeypatch, tmp_path):
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, f"sleep 100 & echo $! > {pid_file}; wait"))
    start = time.monotonic()
    with pytest.raises(build.CompileError, match="deadline"):
        build.compile_shared({"one.cpp": ONE}, tmp_path / "x.so", deadline=0.5).result()
    assert time.monotonic() - start < 10
    time.sleep(0.1)
    pid = int(pid_file.read_text())
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return
    assert state == "Z"  # killed; nobody has collected it yet


def step_of(number):
    """A jitted step that no cache has."""
    return jit(lambda x: (x * number).exp() + number, backend="cpp")


def test_a_compiler_that_fails_leaves_nothing_and_the_step_runs_op_by_op(monkeypatch, tmp_path):
    """What was made ready while it ran is not kept either: the next process compiles."""
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, "echo refused by the fake >&2; exit 3"))
    x = eager.ones(3)
    step = step_of(0.25)
    with config(strict=False, check=False), pytest.warns(UserWarning, match="refused by the fake"):
        assert step(x).tolist() == ((x * 0.25).exp() + 0.25).tolist()
    assert "refused by the fake" in str(step.stats)
    assert not list((tmp_path / "cache").rglob("graph.so"))
    monkeypatch.setenv("CXX", "c++")
    again = step_of(0.25)
    np.testing.assert_allclose(again(x), (x * 0.25).exp() + 0.25, rtol=1e-6)
    assert again.stats.fallbacks == 0


def test_an_interrupt_ends_the_compilers_and_deletes_what_they_left(monkeypatch, tmp_path):
    """Also while other work is done beside them."""
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, f"echo $$ > {pid_file}; exec sleep 100"))
    monkeypatch.setattr(support, "prefetch", lambda products: None)
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    def interrupted(captured):
        while not (pid_file.exists() and pid_file.read_text()):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(result.Captured, "code", interrupted)
    with config(check=False), pytest.raises(KeyboardInterrupt):
        step_of(0.75)(eager.ones(3))
    assert not list(folder.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_flags_and_text_are_in_the_key(monkeypatch):
    assert build.fingerprint() != build.fingerprint(["-O1"])
    calls = []
    real = build.compile_shared
    monkeypatch.setattr(
        build, "compile_shared", lambda *a, **k: (calls.append(a), real(*a, **k))[1]
    )
    text = f"// {time.time_ns()}\n{ONE}"
    first = cpu.build_shared({"one.cpp": text}).result()
    again = cpu.build_shared({"one.cpp": text}).result()
    other = cpu.build_shared({"one.cpp": text + "\n"}).result()
    assert first == again != other
    assert sum("one.cpp" in call[0] for call in calls) == 2  # support objects may compile, too


def test_isa_names_the_features():
    assert build.isa() == build.isa()
    assert os.uname().machine in build.isa()


def test_instruction_sets_by_name():
    assert cpu.isa_flags("native") == ()
    assert build.fingerprint(cpu.isa_flags("avx2")) != build.fingerprint()
    with pytest.raises(ValueError, match="unknown instruction set 'mmx'.*baseline"):
        cpu.isa_flags("mmx")


def test_support_is_begun_while_products_are_captured(monkeypatch):
    """Only what a graph of the C++ backend will load: nothing for sums, other types and backends."""
    begun = []
    monkeypatch.setattr(cpu, "prefetch", lambda products: begun.append(products))
    a = eager.ones(16, 16)
    jit(lambda x: x.sum() * 0.5)(a)
    jit(lambda x: x @ x * 0.5)(a.double())
    jit(lambda x: x @ x * 0.25, backend="eager")(a)
    assert not begun
    jit(lambda x: (x @ x) @ x * 0.5)(a)
    assert begun == [["f32"]]


def test_a_program_that_ends_early_leaves_no_compiler_and_no_files(tmp_path):
    program = "import os; from codegen.targets.cpp.runtime import support; support.prefetch(True); "
    wait = "import time\nwhile 'jitcap-build' not in str(os.listdir(os.environ['TMPDIR'])): time.sleep(0.01)"
    env = {"JITCAP_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    env["CXX"] = fake_compiler(tmp_path, "exec sleep 100")
    (tmp_path / "tmp").mkdir()
    start = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program + wait], env={**os.environ, **env},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not list((tmp_path / "tmp").iterdir())
    assert time.monotonic() - start < 50


def test_a_program_that_ends_waits_for_a_thread_that_removes_files(monkeypatch, tmp_path):
    folder, removing = tmp_path / "tmp", threading.Event()
    folder.mkdir()
    real = shutil.rmtree

    def slowly(path, **options):
        removing.set()
        time.sleep(0.2)
        real(path, **options)

    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, "exec sleep 100"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(support, "_ended", threading.Event())
    monkeypatch.setattr(support, "prefetch", lambda products: None)
    pending = cpu.build_shared({"one.cpp": ONE})
    monkeypatch.setattr(shutil, "rmtree", slowly)
    thread = threading.Thread(target=pending.close)
    thread.start()
    removing.wait()
    support._at_exit()
    assert not list(folder.iterdir())
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_what_its_parent_compiles():
    with support._support_lock, support._api_lock, support._begin_lock:
        pid = os.fork()
        if pid == 0:
            locks = support._support_lock, support._api_lock, support._begin_lock
            os._exit(sum(not lock.acquire(timeout=5) for lock in locks))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.once
def test_a_program_may_need_every_header():
    """As one of a convolution and complex numbers, whose headers had one name for two things."""
    names = ["jitcap_kernel.h", *(header.name for header in build.headers())]
    source = "".join(f'#include "{name}"\n' for name in names)
    command = [*build.compiler(), *build.FLAGS, "-x", "c++", "-fsyntax-only", "-I", build.HEADERS]
    done = subprocess.run([*command, "-"], input=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
