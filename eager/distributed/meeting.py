"""Under `eager.distributed`: processes that no launcher of MPI started find each other. a rank,
their number and an address -> variables by which MPI starts as if one had.

So it is with programs that start their ranks by `multiprocessing`, and with PyTorch's launcher. The
first rank starts a process that all of them ask (`pmi`), and which ends with them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from eager.distributed import pmi
from eager.distributed.engine import DistBackendError, DistTimeoutError

Address = tuple[str, int]
_PAUSE: Final = 0.05  # seconds until a rank asks again for the first
_line: Final[list[int]] = []  # to the process that knows all ranks
_HOST: Final = "MASTER_ADDR"  # PyTorch's launchers and programs set them
_PORT: Final = "MASTER_PORT"
_OF_LAUNCHERS: Final = ("PMI_RANK", "PMI_FD", "PMI_PORT", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def is_launched() -> bool:
    """True if a launcher of MPI has started this process, or MPI knows its ranks already."""
    return "mpi4py.MPI" in sys.modules or any(name in os.environ for name in _OF_LAUNCHERS)


def address(init_method: str | None) -> Address | None:
    """Address where ranks meet: "tcp://host:port", or MASTER_ADDR and MASTER_PORT; None where
    neither says one."""
    if init_method is not None and init_method.startswith("tcp://"):
        told = urlsplit(init_method)
        return (told.hostname or "localhost", told.port) if told.port else None
    host, port = os.environ.get(_HOST), os.environ.get(_PORT, "")
    return (host, int(port)) if host and port.isdigit() else None


@contextlib.contextmanager
def met(rank: int, size: int, where: Address, timeout: timedelta) -> Iterator[None]:
    """Inside, MPI starts as the given rank of `size`. DistTimeoutError where the others do not
    come; DistBackendError where the address is taken, or the ranks' numbers do not fit."""
    if rank == 0:
        _start(size, where, timeout)
    until = time.monotonic() + timeout.total_seconds()
    line = _connected(where, until)
    hello = f"{rank} {size} {socket.gethostname()} {os.getpid()}\n"
    said = b""
    try:
        line.sendall(hello.encode())
        while not said.endswith(b"\n") and (some := line.recv(1)):  # what follows is MPI's
            said += some
    except TimeoutError:
        said = b""
    if not said:
        raise _absent("another rank has", where)
    if said.decode().strip() != pmi.GO:
        raise DistBackendError(f"init_process_group: {said.decode().strip()}")
    line.settimeout(None)
    _line[:] = [line.detach()]  # open until the end
    variables = {"PMI_FD": _line[0], "PMI_RANK": rank, "PMI_SIZE": size}
    os.environ.update({name: str(value) for name, value in variables.items()})
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def leave() -> None:
    """Say that this rank ends well, which MPI says when the interpreter ends: a forked process does
    not come so far."""
    for line in _line:
        os.write(line, b"cmd=finalize\n")


def _start(size: int, where: Address, timeout: timedelta) -> None:
    asks = [*map(str, (*where, size, timeout.total_seconds()))]
    command = [sys.executable, "-I", pmi.__file__, *asks]
    answers = subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert answers.stdout is not None
    with answers.stdout:
        said = answers.stdout.readline().strip()
    if said != pmi.READY:
        raise DistBackendError(f"init_process_group: {where[0]}:{where[1]} cannot be used: {said}")


def _connected(where: Address, until: float) -> socket.socket:
    """A line to where the ranks meet; the first may start later."""
    while True:
        try:
            line = socket.create_connection(where, timeout=1 + _PAUSE)
        except OSError:
            if time.monotonic() > until:
                raise _absent("rank 0 has", where) from None
            time.sleep(_PAUSE)
        else:
            line.settimeout(max(until - time.monotonic(), 0.001))
            return line


def _absent(who: str, where: Address) -> DistTimeoutError:
    return DistTimeoutError(
        f"init_process_group: {who} not come to {where[0]}:{where[1]}. Are all ranks started, and "
        "do MASTER_ADDR and MASTER_PORT say the same on each?"
    )
