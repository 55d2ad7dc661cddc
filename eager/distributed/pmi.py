"""Beside the library: a program that tells processes which no launcher of MPI started of each
other. lines of MPI's libraries -> answers.

MPICH and its kin ask a process manager (PMI 1.1: a line a question) for the number of ranks and for
what the others put there. Standard library alone: it is run as `python -I pmi.py`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

READY, GO = "ready", "go"


class Rank:
    """A process that has come: its line, and what it has said of itself."""

    def __init__(self, line: socket.socket) -> None:
        self.line, self.begun = line, b""
        self.number, self.host, self.process = -1, "", 0
        self.waits = self.over = False

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self.line.sendall(text.encode() + b"\n")


class Manager:
    """The knowledge that `size` ranks have of each other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.ranks: dict[int, Rank] = {}
        self.values: dict[str, str] = {}
        self.begun = time.time_ns()  # in a name by which MPI calls memory that is shared

    def heard(self, rank: Rank, said: str) -> None:
        """Answer a line."""
        if rank.number < 0:
            self.welcome(rank, said)
            return
        told = dict(word.split("=", 1) for word in said.split() if "=" in word)
        command = told.get("cmd", "")
        if command == "put":
            self.values[told["key"]] = told["value"]
            rank.say("cmd=put_result rc=0 msg=success")
        elif command == "get":
            value = self.values.get(told["key"])
            found = f"rc=0 msg=success value={value}"
            missing = "rc=-1 msg=key_not_found value=unknown"
            rank.say(f"cmd=get_result {missing if value is None else found}")
        elif command == "barrier_in":
            rank.waits = True
            if all(each.waits for each in self.ranks.values()):
                for each in self.ranks.values():
                    each.waits = False
                    each.say("cmd=barrier_out rc=0")
        elif command == "finalize":
            rank.over = True
            rank.say("cmd=finalize_ack rc=0")
        elif command == "abort":
            self.end()
        else:
            rank.say(self.fixed(command))

    def fixed(self, command: str) -> str:
        """The answer to a question whose answer is always one."""
        return {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
            "get_appnum": "cmd=appnum rc=0 appnum=0",
            "get_my_kvsname": f"cmd=my_kvsname rc=0 kvsname=jitcap_{os.getpid()}_{self.begun}",
            "get_universe_size": f"cmd=universe_size rc=0 size={self.size}",
        }.get(command, f"cmd={command}_result rc=-1 msg=not_there")

    def welcome(self, rank: Rank, said: str) -> None:
        """Let a rank in, which says its number, the ranks there are to be, its machine and its
        process. When all have come they go on."""
        number, size, rank.host, process = said.split()
        if int(size) != self.size or int(number) in self.ranks or int(number) >= self.size:
            rank.say(f"rank {number} of {size} came, where {self.size} are to be, each once")
            return
        rank.number, rank.process = int(number), int(process)
        self.ranks[rank.number] = rank
        if len(self.ranks) == self.size:
            hosts = [self.ranks[i].host for i in range(self.size)]
            places = {host: i for i, host in enumerate(dict.fromkeys(hosts))}
            blocks = [(places[host], len([*same])) for host, same in itertools.groupby(hosts)]
            rows = ",".join(f"({place},1,{count})" for place, count in blocks)
            self.values["PMI_process_mapping"] = f"(vector,{rows})"
            for each in self.ranks.values():
                each.say(GO)

    def left(self, rank: Rank) -> None:
        """A rank has ended: badly, if it said nothing of it."""
        if self.ranks.get(rank.number) is rank:
            del self.ranks[rank.number]
            if not rank.over:
                self.end()

    def end(self) -> None:
        """End those that are left of this machine: they would wait for the one that failed. Memory
        that MPI shares is left behind by them."""
        for rank in self.ranks.values():
            if rank.host == socket.gethostname() and not rank.over:
                with contextlib.suppress(OSError):
                    maps = Path(f"/proc/{rank.process}/maps").read_text()
                    for file in {*re.findall(r"\S+/mpich_shm_\S+", maps)}:
                        Path(file).unlink(missing_ok=True)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.process, signal.SIGTERM)


def serve(server: socket.socket, size: int, seconds: float) -> None:
    """Answer until the ranks have ended, or have not all come in time."""
    manager, until = Manager(size), time.monotonic() + seconds
    lines = selectors.DefaultSelector()
    lines.register(server, selectors.EVENT_READ)
    came = 0
    while came < size or manager.ranks:
        if came < size and time.monotonic() > until:
            return
        for key, _ in lines.select(1.0):
            if key.fileobj is server:
                line, _ = server.accept()
                lines.register(line, selectors.EVENT_READ, Rank(line))
                continue
            rank: Any = key.data
            with contextlib.suppress(ConnectionError):
                rank.begun += (some := rank.line.recv(1 << 16))
                *whole, rank.begun = rank.begun.split(b"\n")
                for each in whole:
                    manager.heard(rank, each.decode())
                came = max(came, len(manager.ranks))
                if some:
                    continue
            lines.unregister(rank.line)
            rank.line.close()
            manager.left(rank)


def main(host: str, port: str, size: str, seconds: str) -> int:
    """Serve at an address; the first line printed is READY, or why not."""
    try:
        server = socket.create_server((host, int(port)))
    except OSError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    with server:
        serve(server, int(size), float(seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
