"""Loading and calling compiled entries: arguments, errors, hosts, threads, fork, memory."""

import gc
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import eager
from codegen.runtime.artifact import Host, Signature, Spec
from codegen.targets.cpp.runtime import build, cpu, support
from codegen.targets.cpp.runtime.arena import Arena, arena
from eager.base.config import config
from eager.base.dtype import by_name
from eager.base.process import memory, threads
from eager.sizes.symint import Fixing

F32 = np.dtype(np.float32)
SOURCE = """
#include <signal.h>
#include "jitcap_product.h"
#include "jitcap_math.h"
JC_MODULE
using namespace jc;

JC_ENTRY int scale(void **b, const double *s, void *arena) {  // x, f, n -> x * f, in parallel
  const f32 *x = (f32 *)b[0];
  f32 *o = (f32 *)b[1];
  f32 f = (f32)s[0];
  i64 n = as_i64(s[1]);
  parallel(n, 16, team_for(8 * n), [=](i64 lo, i64 hi) {
    i64 i = lo;
    for (; i + JC_W32 <= hi; i += JC_W32) store(o + i, load<JC_W32>(x + i) * f);
    if (i < hi) store_n(o + i, load_n<JC_W32>(x + i, hi - i) * f, hi - i);
  });
  return 0;
}
JC_ENTRY int pick(void **b, const double *s, void *arena) {  // x[10], index[n] -> x[index]
  const f32 *x = (f32 *)b[0];
  const i64 *index = (i64 *)b[1];
  f32 *o = (f32 *)b[2];
  for (i64 i = 0; i < 4; i++) o[i] = x[checked(index[i], 10, arena, 1)];
  return error_of(arena)->code != 0;
}
JC_ENTRY int hosted(void **b, const double *s, void *arena) {  // x[4] -> host(x) + 1, through the arena
  f32 *t = (f32 *)arena, *o = (f32 *)b[1];
  void *ptrs[] = {b[0], t};
  if (*(f32 *)b[0] < 0) raise(SIGINT);
  if (!jc_hosted(b[2], 0, ptrs)) return 1;
  for (int i = 0; i < 4; i++) o[i] = t[i] + 1;
  return 0;
}
template <class T> int product(void **b, const double *s) {
  i64 n = as_i64(s[0]), m = as_i64(s[1]), k = as_i64(s[2]);
  bool ta = as_i64(s[3]), tb = as_i64(s[4]);
  JcView<T> x = {(T *)b[0], ta ? 1 : k, ta ? m : 1}, y = {(T *)b[1], tb ? 1 : n, tb ? k : 1};
  jc::product<T>(m, n, k, x, y, (T *)b[2], n);
  return 0;
}
JC_ENTRY int product_f32(void **b, const double *s, void *) { return product<f32>(b, s); }
JC_ENTRY int product_f64(void **b, const double *s, void *) { return product<f64>(b, s); }
JC_ENTRY int pieces(void **b, const double *s, void *) {  // each element once, by a member of the team
  i64 n = as_i64(s[0]), grain = as_i64(s[1]), team = as_i64(s[2]);
  i64 *o = (i64 *)b[0];
  i64 wrong = 0;
  for (i64 round = 0; round < 300; round++)
    parallel(n, grain, team, [=, &wrong](i64 lo, i64 hi) {
      if (lo % grain || member() >= team) __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
      parallel(hi - lo, 1, team, [=](i64 from, i64 to) {
        for (i64 i = lo + from; i < lo + to; i++) o[i]++;
      });
    });
  return wrong;
}
JC_ENTRY int words(void **b, const double *s, void *) {  // seed, ordinal, start -> 4 x 64 words, vector and scalar
  u32 *o = (u32 *)b[0];
  for (i64 i = 0; i < 64; i += JC_W32) {
    vec<u32, JC_W32> w[4];
    philox_at<JC_W32>(w, as_i64(s[0]), as_i64(s[1]), as_i64(s[2]) + i);
    for (int k = 0; k < 4; k++) store(o + 64 * k + i, w[k]);
  }
  for (i64 i = 0; i < 64; i++) {
    u32 w[4];
    philox_at<1>(w, as_i64(s[0]), as_i64(s[1]), as_i64(s[2]) + i);
    for (int k = 0; k < 4; k++) if (w[k] != o[64 * k + i]) return 1;
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def module():
    try:
        return cpu.load(cpu.build_shared({"test.cpp": SOURCE}).result())
    except build.NoCompiler as error:
        pytest.skip(str(error))


def scale(module, n):
    return module.runner("scale", Signature("tfi", (Spec((n,), F32),)))


def test_without_support_code_graphs_run_serially(module, monkeypatch):
    monkeypatch.setattr(support, "_unavailable", set())
    for field in ("run", "member", "team"):
        monkeypatch.setattr(module.api, field, None)
    with pytest.warns(UserWarning, match="support code bad.cpp cannot be used"):
        support._provide({"run": "run"}, {"bad.cpp": "no such code"})
    support._provide({"run": "run"}, {"bad.cpp": "no such code"})  # said once
    x = np.arange(1 << 20, dtype=np.float32)
    np.testing.assert_array_equal(scale(module, len(x))([x, 2.0, len(x)])[0], x * 2)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000, 1 << 20])
def test_arrays_and_scalars(module, n):
    x = np.arange(n, dtype=np.float32)
    (out,) = scale(module, n)([x, 1.5, n])
    np.testing.assert_array_equal(out, x * np.float32(1.5))


def test_numpy_numbers_and_bools_are_scalars(module):
    x = np.ones(3, np.float32)
    (out,) = scale(module, 3)([x, np.float32(2.5), np.int64(3)])
    assert out.tolist() == [2.5] * 3
    with pytest.raises(TypeError):
        scale(module, 3)([x, "two", 3])
    with pytest.raises(OverflowError):
        scale(module, 3)([x, 1.0, 1 << 70])


class Labelled(np.ndarray):
    """A subclass, as users' libraries make them."""


def test_only_arrays_stand_for_arrays(module):
    x = np.ones(3, np.float32)
    assert scale(module, 3)([x.view(Labelled), 2.0, 3])[0].tolist() == [2.0] * 3
    with pytest.raises(TypeError, match=r"input 0 of scale must be a NumPy array, got .*float"):
        scale(module, 3)([1.0, 2.0, 3])
    with pytest.raises(IndexError):
        scale(module, 3)([x])


def test_unknown_entry(module):
    with pytest.raises(AttributeError, match="no_such"):
        module.runner("no_such", Signature("", ()))


def test_output_shapes_from_inputs(module):
    n = Fixing().symbol("n", 3)
    signature = Signature("tfi", (Spec((n,), F32),), symbols=(("n", 2),))
    run = module.runner("scale", signature)
    for n in (3, 300_000):
        assert run([np.ones(n, np.float32), 2.0, n])[0].shape == (n,)


def test_index_error_names_value_size_and_line(module):
    signature = Signature("tt", (Spec((4,), F32),), sites=("a.py:1", "b.py:7"))
    run = module.runner("pick", signature)
    x = np.arange(10, dtype=np.float32)
    assert run([x, np.array([0, 9, -1, -10])])[0].tolist() == [0, 9, 9, 0]
    with pytest.raises(IndexError, match=r"index 10 is out of range .* size 10 \(at b.py:7\)"):
        run([x, np.array([0, 1, 10, 11])])
    with pytest.raises(IndexError, match="index -11"):
        run([x, np.array([0, 1, -11, 0])])
    assert run([x, np.array([1, 1, 1, 1])])[0].tolist() == [1] * 4  # the record is cleared


def hosted(module, call):
    spec = Spec((4,), F32)
    return module.runner(
        "hosted", Signature("t", (spec,), arena_bytes=64, hosts=(Host(call, (spec,), (spec,)),))
    )


def test_host_kernel(module):
    x = np.arange(4, dtype=np.float32)
    assert hosted(module, np.square)([x])[0].tolist() == [1, 2, 5, 10]


def test_host_exception_arrives(module):
    def fail(x):
        raise ZeroDivisionError("from the host")

    with pytest.raises(ZeroDivisionError, match="from the host"):
        hosted(module, fail)([np.ones(4, np.float32)])


def test_ctrl_c_before_a_host_kernel_is_not_lost(module):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            hosted(module, np.square)([np.full(4, -1, np.float32)])
    finally:
        signal.signal(signal.SIGINT, before)
    test_host_kernel(module)


def test_host_that_calls_compiled_code_gets_its_own_arena(module):
    inner = hosted(module, np.square)
    outer = hosted(module, lambda x: inner([x])[0])
    assert outer([np.full(4, 3, np.float32)])[0].tolist() == [11] * 4


def product_case(dtype, ta, tb, m, n, k):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(k, m) if ta else (m, k)).astype(dtype)
    b = rng.normal(size=(n, k) if tb else (k, n)).astype(dtype)
    return a, b, (a.T if ta else a) @ (b.T if tb else b)


SIZES = [
    (1, 1, 1), (5, 7, 3), (33, 300, 17), (200, 150, 90), (3, 4, 0), (47, 95, 300), (64, 33, 130),
    (9, 70, 401), (70, 9, 401), (300, 20, 790), (20, 2100, 33), (2100, 50, 17), (96, 96, 512),
]  # fmt: skip


@pytest.mark.parametrize("kernel", ["brick", "openblas", "loop"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrix_product(module, monkeypatch, kernel, dtype):
    if kernel != "brick":
        monkeypatch.setattr(module.api, "product_f32", None)
        monkeypatch.setattr(module.api, "product_f64", None)
    if kernel == "loop":
        monkeypatch.setattr(module.api, "sgemm", None)
        monkeypatch.setattr(module.api, "dgemm", None)
    name = "product_" + {"float32": "f32", "float64": "f64"}[dtype]
    for m, n, k in SIZES:
        run = module.runner(name, Signature("ttiiiii", (Spec((m, n), np.dtype(dtype)),)))
        for ta in (0, 1):
            for tb in (0, 1):
                a, b, exact = product_case(dtype, ta, tb, m, n, k)
                (out,) = run([a, b, n, m, k, ta, tb])
                tolerance = 1e-4 if dtype == "float32" else 1e-12
                np.testing.assert_allclose(out, exact, tolerance, tolerance, err_msg=f"{m, n, k}")


def philox(seed, ordinal, index):
    mask = 0xFFFFFFFF
    w = [index & mask, index >> 32, ordinal & mask, ordinal >> 32]
    k = [seed & mask, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * w[0], 0xCD9E8D57 * w[2]
        w = [(q >> 32) ^ w[1] ^ k[0], q & mask, (p >> 32) ^ w[3] ^ k[1], p & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return w


@pytest.mark.parametrize("seed", [0, 1, (1 << 62) + 12345])
@pytest.mark.parametrize("start", [0, (1 << 32) - 20])
def test_philox_words(module, seed, start):
    run = module.runner("words", Signature("iii", (Spec((4, 64), np.dtype(np.uint32)),)))
    (out,) = run([seed, 7 + (3 << 32), start])
    for i in (0, 1, 19, 20, 63):
        assert out[:, i].tolist() == philox(seed, 7 + (3 << 32), start + i)


def test_many_threads(module):
    run = scale(module, 50_000)
    x = np.arange(50_000, dtype=np.float32)
    failures = []

    def work(factor):
        for _ in range(50):
            if not np.array_equal(run([x, factor, len(x)])[0], x * np.float32(factor)):
                failures.append(factor)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_a_team_keeps_or_flushes_denormal_numbers_as_its_caller_does(module):
    """Though its members started under another mode, and other threads go on as they did."""
    n = 1 << 20
    run, x = scale(module, n), np.full(n, 1e-39, np.float32)
    try:
        for mode in (False, True, False):
            assert eager.set_flush_denormal(mode)
            beside = []
            other = threading.Thread(target=lambda kept=beside: kept.append(5e-324 * 1.0))
            with config(threads=4):
                kept = [np.count_nonzero(run([x, 0.5, n])[0].view(np.int32)) for _ in range(8)]
            assert kept == [0 if mode else n] * 8
            assert (eager.tensor(x[:3]) * 0.5).tolist() == [0.0 if mode else np.float32(5e-40)] * 3
            other.start()
            other.join()
            assert (beside[0] == 0.0) == mode
    finally:
        eager.set_flush_denormal(False)


@pytest.mark.parametrize(("n", "grain"), [(1, 1), (7, 16), (1000, 1), (1000, 16), (4097, 64)])
@pytest.mark.parametrize("team", [1, 2, 5])
def test_every_element_is_done_once(module, n, grain, team):
    run = module.runner("pieces", Signature("tiii", ()))
    counts = [np.zeros(n, np.int64) for _ in range(4)]
    threads = [threading.Thread(target=run, args=([c, n, grain, team],)) for c in counts]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(np.all(c == 300) for c in counts)


def _in_child(module, n, queue):
    x = np.ones(n, np.float32)
    (out,) = scale(module, n)([x, 3.0, n])
    queue.put((float(out.sum()), support.api().threads))


def test_forked_child_computes(module):
    n = 1 << 20
    scale(module, n)([np.ones(n, np.float32), 1.0, n])  # the parent has a running team
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of fork with threads
        child = context.Process(target=_in_child, args=(module, n, queue))
        child.start()
    assert queue.get(timeout=30) == (3.0 * n, support.api().threads)
    child.join(30)
    assert child.exitcode == 0


def test_number_of_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    monkeypatch.delenv("JITCAP_THREADS", raising=False)
    assert eager.get_num_threads() == 3 <= threads.room()
    monkeypatch.setenv("JITCAP_THREADS", "2")
    assert eager.get_num_threads() == 2
    monkeypatch.delenv("JITCAP_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert 1 <= eager.get_num_threads() == threads.processors() <= os.cpu_count()
    before = support.api().threads
    with config(threads=1), config(check=True):
        assert support.api().threads == 1
        eager.set_num_threads(3)
        assert support.api().threads == eager.get_num_threads() == threads.room() == 3
    assert support.api().threads == eager.get_num_threads()
    for bad in (0, -1):
        with pytest.raises(RuntimeError, match="positive"):
            eager.set_num_threads(bad)
    with pytest.raises(TypeError, match="integer"):
        eager.set_num_threads(1.5)
    with pytest.raises(ValueError, match="threads"), config(threads=-1):
        pass


def test_arena_is_aligned_grows_and_is_per_thread():
    own = Arena()
    assert own.struct.base % 64 == 0
    own.reserve(10 << 20)
    assert own.struct.bytes >= 10 << 20
    base = own.struct.base
    own.reserve(1 << 20)
    assert own.struct.base == base
    found = []
    thread = threading.Thread(target=lambda: found.append(arena()))
    thread.start()
    thread.join()
    assert arena() is arena() is not found[0]


def test_a_growing_arena_reaches_entries_called_before(module):
    run = hosted(module, np.square)
    x = np.ones(4, np.float32)
    run([x])
    arena().reserve(arena().struct.bytes + (4 << 20))
    assert run([x])[0].tolist() == [2] * 4


def test_pool_reuses_a_block_when_the_last_view_dies():
    pool = memory.Pool(limit_bytes=64 << 20)
    lease = pool.lease(1 << 20)
    address = lease.block.address
    array = np.ndarray((1 << 18,), np.float32, lease)
    view = array[5:]
    del lease, array
    assert pool.held() == 0
    del view
    gc.collect()
    assert pool.held() == 1 << 20
    assert pool.lease(1 << 20).block.address == address


def test_blocks_of_a_few_mib_are_cut_from_one_slab():
    pool = memory.Pool()
    sizes = [1 << 20, 3 << 20, 1 << 18, 8 << 20]
    leases = [pool.lease(size) for size in sizes]
    places = sorted((lease.block.address, size) for lease, size in zip(leases, sizes, strict=True))
    assert len({id(lease.block.slab) for lease in leases}) == 1
    for (address, size), (following, _) in zip(places, places[1:], strict=False):
        assert address + size <= following
    assert type(pool.lease(9 << 20).block) is memory.Block
    pool.clear()
    assert pool.lease(1 << 20).block.slab is not leases[0].block.slab


def test_pool_is_bounded():
    pool = memory.Pool(limit_bytes=3 << 20)
    leases = [pool.lease(1 << 20) for _ in range(5)]
    leases.clear()
    assert pool.held() == 3 << 20
    pool.clear()
    assert pool.held() == 0


@pytest.mark.parametrize("shape", [(), (0, 5), (3, 4), (300, 1000), (1 << 22,)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_empty(shape, dtype):
    array = memory.empty(shape, np.dtype(dtype))
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    assert array.flags.writeable
    array[...] = 1
    assert np.all(array == 1)


def testsize_classes_waste_little():
    for size in (1, 4096, 4097, 300_000, (1 << 20) + 1, 123_456_789):
        assert size <= memory.size_class(size) <= max(size + 4096, size * 1.126)


def test_more_memory_than_there_is():
    with pytest.raises(MemoryError, match="no memory for a tensor"):
        memory.empty((1 << 46,), F32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrix_products_do_not_depend_on_the_number_of_threads(module, monkeypatch, dtype):
    name = "product_" + {"float32": "f32", "float64": "f64"}[dtype]
    for m, n, k in [*SIZES, (130, 520, 500), (520, 130, 500), (64, 256, 64), (128, 128, 120)]:
        run = module.runner(name, Signature("ttiiiii", (Spec((m, n), np.dtype(dtype)),)))
        for ta in (0, 1):
            for tb in (0, 1):
                a, b, _ = product_case(dtype, ta, tb, m, n, k)
                seen = set()
                for team in (1, 2, 3, 5, 16):
                    monkeypatch.setattr(module.api, "threads", team)
                    seen.add(run([a, b, n, m, k, ta, tb])[0].tobytes())
                assert len(seen) == 1, (m, n, k, ta, tb)


BRICKS = """
#include "jitcap_brick.h"
JC_MODULE
using namespace jc;
template <class S> int product_of(void **b, const double *s) {
  i64 n = as_i64(s[0]), m = as_i64(s[1]), k = as_i64(s[2]);
  bool ta = as_i64(s[3]), tb = as_i64(s[4]);
  JcView<S> x = {(S *)b[0], ta ? 1 : k, ta ? m : 1}, y = {(S *)b[1], tb ? 1 : n, tb ? k : 1};
  if (!brick_product<S>(m, n, k, x, y, (f32 *)b[2], n)) return 1;
  auto *panels = (f32 *)aligned_alloc(64, up(n, 32) * k * sizeof(f32));
  pack_panels(k, 0, n, y, panels), y.panels = {panels, k}, y.at = nullptr;
  bool made = brick_product<S>(m, n, k, x, y, (f32 *)b[3], n);
  free(panels);
  return !made;
}
JC_ENTRY int product_bfloat16(void **b, const double *s, void *) { return product_of<bf16>(b, s); }
JC_ENTRY int product_float16(void **b, const double *s, void *) { return product_of<f16>(b, s); }
JC_ENTRY int product_float32(void **b, const double *s, void *) { return product_of<f32>(b, s); }
"""


# "native" is AVX-512 or AVX2 in most processors.
ISAS = ["native", pytest.param("avx512", marks=pytest.mark.nightly), "avx2", "baseline"]


@pytest.mark.parametrize("isa", ISAS)
def test_bricks_of_all_instruction_sets(isa):
    """With operands as they lie, and with panels that were made before."""
    if isa != "native" and "x86" not in platform.machine():
        pytest.skip("a name of x86's")
    path = cpu.build_shared({"bricks.cpp": BRICKS}, support.isa_flags(isa)).result()
    if isa == "avx512" and "avx512bw" not in build.isa():
        return  # it compiles
    module = cpu.load(path)
    for dtype in ("float32", "float16", "bfloat16"):
        kind = by_name(dtype)
        shapes = (5, 7, 3), (47, 95, 301), (9, 70, 401), (70, 9, 400), (33, 40, 850)
        shapes += (40, 50, 1024), (45, 30, 512)  # rows of a that fall on the same cache sets
        for m, n, k in shapes:
            outs = (Spec((m, n), F32),) * 2
            run = module.runner(f"product_{dtype}", Signature("ttiiiii", outs))
            for ta in (0, 1):
                for tb in (0, 1):
                    a, b, _ = product_case(np.float32, ta, tb, m, n, k)
                    a, b = a.astype(kind.np), b.astype(kind.np)
                    x, y = a.astype(np.float64), b.astype(np.float64)
                    exact = (x.T if ta else x) @ (y.T if tb else y)
                    for out in run([a, b, n, m, k, ta, tb]):
                        np.testing.assert_allclose(out, exact, 1e-4, 1e-4, err_msg=f"{m, n, k}")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="MALLOC_PERTURB_ is glibc's")
def test_calls_that_live_until_exit_read_no_freed_memory():
    program = "import eager, jitcap; f = jitcap.jit(lambda x: (x * 2).sum()); print(f(eager.ones(5)).item())"
    env = {**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "255"}  # freed memory changes
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert (ran.returncode, ran.stdout) == (0, "10.0\n"), ran.stderr
