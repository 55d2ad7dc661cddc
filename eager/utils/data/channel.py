"""Between processes: a socket with shared memory beside it. objects -> objects at the other end.

Objects are pickled; their large parts (arrays, tensors, long texts) do not go through the socket,
but are written to a file in memory that has no name, which the other end reads: there is nothing to
clean up, whoever ends in which way. An end writes to the same few files again and again, as soon as
the other one has read them: new pages of memory cost three times what the copy costs.
"""

from __future__ import annotations

import os
import pickle
import select
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from eager.base.process.nameless_file import nameless_file

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LARGE: Final = 4096  # bytes


def _unpickled(data: Any, parts: Sequence[Any] = ()) -> Any:
    return pickle.loads(data, buffers=parts)  # noqa: S301 - a process of this program pickled it


class Failure:
    """An exception of another process: itself where it can be sent, and its traceback as text."""

    def __init__(self, error: BaseException, where: str) -> None:
        lines = "".join(traceback.format_exception(error))
        self.note = f"Caught {type(error).__name__} in {where}. Its traceback there:\n{lines}"
        self.pickled = b""
        try:
            pickled = pickle.dumps(error)
            if type(_unpickled(pickled)) is type(error):
                self.pickled = pickled
        except Exception:  # noqa: BLE001 - what the program's classes raise
            return

    def reraise(self) -> None:
        """Raise it here: of the same type, and with the traceback as a note. RuntimeError if it
        could not be sent."""
        if not self.pickled:
            raise RuntimeError(self.note)
        error: BaseException = _unpickled(self.pickled)
        error.add_note(self.note)
        raise error


class Channel:
    """One end. Not for several threads at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ours: list[int] = []  # files that this end writes, by number
        self._free: list[int] = []  # their numbers
        self._told = 0  # how many of them the other end has
        self._theirs: list[int] = []
        self._read: list[int] = []  # numbers of theirs, which the next message gives back

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, label: Any, value: Any) -> None:
        """Send a value and what it is for, a small object. Raises what pickling raises, and OSError
        where there is no memory, before anything is sent."""
        parts: list[memoryview] = []

        def in_line(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes >= LARGE:
                parts.append(raw)
            return raw.nbytes < LARGE

        pickled = pickle.dumps(value, 5, buffer_callback=in_line)
        body: bytes | None = pickled
        if len(pickled) >= LARGE and not isinstance(value, Failure):  # which may be of no memory
            parts.append(memoryview(pickled))
            body = None
        number = self._write(parts) if parts else None
        read, self._read = self._read, []
        self._connection.send((label, read, number, [part.nbytes for part in parts], body))
        if number == self._told:
            from multiprocessing.reduction import send_handle  # slow to import, as below

            self._told += 1
            send_handle(self._connection, self._ours[number], None)

    def receive(self) -> tuple[Any, Any]:
        """Wait for a message: what it is for, and its value, or the Failure to make it here. Raises
        EOFError or ConnectionError when the other end is closed."""
        label, read, number, sizes, body = self._connection.recv()
        self._free += read
        parts: list[Any] = []
        if number is not None:
            if number == len(self._theirs):
                from multiprocessing.reduction import recv_handle

                self._theirs.append(recv_handle(self._connection))
            parts = _read(self._theirs[number], sizes)
            self._read.append(number)
        try:
            return label, _unpickled(parts.pop() if body is None else body, parts)
        except Exception as error:  # noqa: BLE001 - what the program's classes raise
            return label, Failure(error, "the process that received it")

    def takes(self) -> bool:
        """True if `send` would not wait for the other end to read. (Messages are small.)"""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLOUT)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._connection.close()
        for file in self._ours + self._theirs:
            os.close(file)
        self._ours, self._theirs = [], []

    def _write(self, parts: Sequence[memoryview]) -> int:
        """Put the parts one after the other into a file that is free; its number."""
        if not self._free:
            self._free.append(len(self._ours))
            self._ours.append(nameless_file())
        file, at = self._ours[self._free[-1]], 0
        try:
            for part in parts:
                left = part
                while left.nbytes:
                    count = os.pwrite(file, left, at)
                    left, at = left[count:], at + count
        except OSError as error:
            os.truncate(file, 0)
            size = sum(part.nbytes for part in parts)
            raise OSError(
                error.errno,
                f"no shared memory for {size} bytes ({error.strerror}): smaller batches, fewer "
                "workers or a smaller prefetch_factor need less",
            ) from error
        return self._free.pop()


def _read(file: int, sizes: Sequence[int]) -> list[Any]:
    """Arrays that lie one after the other in a file, each in memory of its own."""
    parts: list[Any] = [np.empty(size, np.uint8) for size in sizes]
    at = 0
    for part in parts:
        left = memoryview(part)
        while left.nbytes:
            count = os.preadv(file, [left], at)
            if not count:
                raise EOFError("shared memory is shorter than it was said to be")
            left, at = left[count:], at + count
    return parts
