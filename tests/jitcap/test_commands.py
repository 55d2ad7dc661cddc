"""`python -m jitcap`: what its commands print, and the status that they end with."""

import os
import subprocess
import sys
import time

import pytest

from codegen.runtime.cache import Cache
from jitcap.commands import cache, doctor, settings
from jitcap.commands.__main__ import main

PROGRAM = """
import sys
import eager
from jitcap import jit

@jit(backend="python")
def double(x):
    return x * 2

@jit(backend="python")
def half(x):
    eager.compiler.disable(print)("between")
    return x / 2

print(double(eager.ones(2)), half(eager.ones(2)), sys.argv, __name__)
"""


def run(*arguments, **variables):
    env = {**os.environ, "CHECK": "0", **variables}
    command = [sys.executable, "-m", "jitcap", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env)


def test_a_program_that_is_not_there(tmp_path):
    done = run("explain", tmp_path / "nothing.py")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("FileNotFoundError: ")


@pytest.mark.once
def test_the_doctor_finds_this_machine_well(capsys):
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for part in ("Python", "compiler", "processor", "BLAS", "threads", "GPU", "cache", "proof"):
        assert f" {part} " in printed
    assert "equals plain Python" in printed


def test_the_doctor_says_how_to_mend(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    monkeypatch.setenv("JITCAP_THREDS", "2")
    (tmp_path / "cache").mkdir(mode=0o777)
    (tmp_path / "cache").chmod(0o777)  # others can write there
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JITCAP_ISA", "baseline")
    with pytest.warns(UserWarning, match="JITCAP_CACHE_DIR"):
        assert main(["doctor"]) == 1
    rows = capsys.readouterr().out.splitlines()
    said = {line.split()[1]: (line.split()[0], rows[i + 1]) for i, line in enumerate(rows[:-1])}
    assert said["compiler"][0] == "FAIL"
    assert "install g++" in said["compiler"][1]
    assert said["cache"][0] == "FAIL"
    assert "JITCAP_CACHE_DIR" in said["cache"][1]
    assert said["processor"][0] == "slow"
    assert any(" settings " in row and "JITCAP_THREADS" in row for row in rows)
    assert any(row.startswith("FAIL") and " proof " in row for row in rows)
    if any("SkylakeX" in row or "Prescott" in row for row in rows):  # an OpenBLAS that has several
        assert any("unset OPENBLAS_CORETYPE" in row for row in rows)


def test_settings_are_one_table(capsys, monkeypatch):
    monkeypatch.setenv("JITCAP_ENTRIES", "7")
    assert main(["settings"]) == 0
    rows = {row.split()[0]: row.split() for row in capsys.readouterr().out.splitlines()}
    assert rows["JITCAP_ENTRIES"][1:3] == ["64", "7"]
    assert {"jit(fullgraph=)", "jit(check_nans=)", "CXX", "JITCAP_CACHE_DIR"} <= rows.keys()
    assert all(row.what for row in settings.options())


@pytest.mark.once
def test_explain_runs_a_program(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    ran = run("explain", "--html", tmp_path / "pages", script, "--lr", "3")
    assert ran.returncode == 0, ran.stderr
    assert f"['{script}', '--lr', '3'] __main__" in ran.stdout
    assert "double: 1 graphs, 0 splits" in ran.stdout
    assert "1 splits" in ran.stdout
    pages = sorted(path.name for path in (tmp_path / "pages").iterdir())
    assert pages == ["double.html", "half.html"]
    script.write_text(PROGRAM + "def fail():\n    1 / 0\nfail()\n")
    ran = run("explain", f"{script}:double")
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (plain.returncode, plain.stderr)
    assert "double: 1 graphs, 0 splits" in ran.stdout
    assert "half: " not in ran.stdout


@pytest.mark.once
def test_warm_says_what_it_added(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM + "raise SystemExit(3)\n")
    ran = run("cache", "warm", script, JITCAP_CACHE_DIR=str(tmp_path / "cache"))
    assert ran.returncode == 3
    assert "new\n" in ran.stdout
    assert "cache: 0 entries" not in ran.stdout


@pytest.mark.once
def test_what_was_warmed_serves_python_without_a_compiler(tmp_path):
    """A program's place is in errors of its code: it is the same however the program is started."""
    (tmp_path / "program.py").write_text(
        "import eager\nfrom jitcap import jit\n\nstep = jit(lambda x, i: x[i] * 2)\n"
        "step(eager.ones(3, 4), eager.tensor([1, 2]))\nprint(__file__, step.stats.fallbacks)\n"
    )
    env = {**os.environ, "CHECK": "0", "JITCAP_CACHE_DIR": str(tmp_path / "cache")}
    said = []
    for command in ("-m jitcap cache warm program.py", "program.py"):
        ran = subprocess.run(
            [sys.executable, *command.split()],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=env,
        )
        assert not ran.stderr
        said.append(ran.stdout.splitlines()[0])
        env["PATH"] = "/nowhere"
    assert said == [f"{tmp_path}/program.py 0"] * 2


def test_the_cache(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    store = Cache(tmp_path / "cache")
    for i, age in enumerate((50, 10, 1)):  # days
        key = f"{i:064x}"
        store.put(key, {}, {"graph.so": bytes(1000)})
        used = time.time() - age * 86400
        os.utime(tmp_path / "cache" / key[:2] / key / "manifest.json", (used, used))

    def said(*arguments):
        status = main(["cache", *arguments])
        return status, capsys.readouterr().out

    status, listed = said("list")
    assert [row.split()[-2] for row in listed.splitlines()[:3]] == ["code"] * 3
    assert "3 entries" in said("size")[1]
    assert "deleted 1 entries" in said("prune", "--older", "30d")[1]
    assert "left 1 entries" in said("prune", "--to-size", "1500")[1]
    assert said("prune")[0] == 2
    assert "left 0 entries" in said("clear")[1]
    assert [cache.size_of("2G"), cache.size_of("500MB"), cache.seconds_of("12h")] == [
        2 << 30, 500 << 20, 43200,
    ]  # fmt: skip
    with pytest.raises(SystemExit):
        said("prune", "--older", "soon")
    assert "30d" in capsys.readouterr().err


def test_lines_of_the_doctor_have_a_cure():
    for check in doctor.CHECKS[:-1]:
        for line in check():
            assert line.state == doctor.WELL or line.cure
