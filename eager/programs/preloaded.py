"""At the edge: the first import of a process that a program starts, by a command of its own or by a
fork server: PyTorch's names are there from then on."""

from __future__ import annotations

from eager.programs import stand_in

stand_in.install()
