"""`eager.utils.tensorboard`: what TensorBoard shows, as event files.

event_file.py  records and protocol buffers
images.py      pictures, videos and sounds
graphs.py      the operations of a model
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from eager.base.compat_warnings import ignore, refuse
from eager.core.tensor import Tensor
from eager.utils.tensorboard import graphs, images
from eager.utils.tensorboard.event_file import doubles, field, record, single
from eager.utils.tensorboard.event_file import masked_crc32c as masked_crc32c


# --------------------------------------------------------------------------------- values
def _number(value: Any) -> float:
    return float(value.item() if isinstance(value, Tensor | np.ndarray) else value)


def _text_value(text: str) -> bytes:
    shape = field(2, field(2, field(1, 1)))
    return _plugin("text") + field(8, field(1, 7) + shape + field(8, text))


def _histogram_value(values: Any, bins: Any) -> bytes:
    flat = images.array_of(values).astype(np.float64).reshape(-1)
    if not flat.size:
        raise ValueError("add_histogram: there are no values")
    counts, edges = np.histogram(flat, 64 if bins == "tensorflow" else bins)
    numbers = (flat.min(), flat.max(), flat.size, flat.sum(), (flat * flat).sum())
    head = b"".join(field(i, float(n)) for i, n in enumerate(numbers, 1))
    return field(5, head + doubles(6, edges[1:]) + doubles(7, counts))


def _plugin(name: str, content: bytes = b"") -> bytes:
    return field(9, field(1, field(1, name) + field(2, content)))


def _setting(value: Any) -> bytes:
    """A value of a table of settings: a number, a bool, or a text."""
    if isinstance(value, Tensor | np.generic):
        value = value.item()
    if isinstance(value, bool):
        return field(4, value)
    return field(2, float(value)) if isinstance(value, int | float) else field(3, str(value))


class SummaryWriter:
    """Writes to an event file in `log_dir` (by default `runs/<time>_<host>`). Usable in a `with`
    statement. What is not here raises NotImplementedError, and says what to use."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        refuse("SummaryWriter", "delete the old events", purge_step=purge_step)
        host = socket.gethostname()
        if not log_dir:
            log_dir = Path("runs") / (time.strftime("%b%d_%H-%M-%S") + f"_{host}{comment}")
        self.log_dir = str(log_dir)
        folder = Path(log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{time.time():.0f}.{host}.{os.getpid()}.{time.monotonic_ns() & 0xFFFF}"
        self._file = (folder / f"events.out.tfevents.{stamp}{filename_suffix}").open("ab")
        self._write(field(3, "brain.Event:2"), None, None)

    def _write(self, content: bytes, step: int | None, walltime: float | None) -> None:
        head = field(1, float(time.time() if walltime is None else walltime))
        if step is not None:
            head += field(2, int(step))
        self._file.write(record(head + content))

    def _value(self, tag: str, value: bytes, step: int | None, walltime: float | None) -> None:
        self._write(field(5, field(1, field(1, tag) + value)), step, walltime)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One point of the curve `tag`."""
        ignore("add_scalar", new_style=new_style, double_precision=double_precision)
        self._value(tag, single(2, _number(scalar_value)), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """One point of each curve `main_tag/<key>`."""
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        self._value(tag, _text_value(text_string), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """The distribution of `values`, over 64 equal bins or those that `numpy.histogram` makes of
        `bins`."""
        refuse("add_histogram", "give the number as `bins`", max_bins=max_bins)
        self._value(tag, _histogram_value(values, bins), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture of bytes, or of floats between 0 and 1, whose axes `dataformats` names (an N of
        several pictures, too). Raises ValueError for axes or channels that do not fit."""
        frame = images.image_of(img_tensor, dataformats)
        self._value(tag, images.image_value([frame]), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Pictures side by side: see `add_image`."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of Matplotlib's as a picture, or a list of them; `close` them then."""
        figures = figure if isinstance(figure, list) else [figure]
        drawn = np.stack([images.figure_image(each) for each in figures])
        self.add_images(tag, drawn, global_step, walltime)
        if close:
            from matplotlib import pyplot as plt

            for each in figures:
                plt.close(each)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Videos (N, T, C, H, W) side by side, as a PNG with frames."""
        value = images.image_value(images.video_frames(vid_tensor), fps)
        self._value(tag, value, global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """One channel of samples between -1 and 1."""
        self._value(tag, images.audio_value(snd_tensor, sample_rate), global_step, walltime)

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """The operations of `model(*input_to_model)` (or of one tensor), which is run once: those
        that have a derivative, in the modules that made them."""
        ignore("add_graph", verbose=verbose)
        if input_to_model is None:
            raise ValueError("add_graph: input_to_model= is what the model is called with")
        self._write(field(4, graphs.graph_of(model, input_to_model)), None, None)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Any] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """A row of TensorBoard's table of settings and their results, as a run of its own in the
        folder `run_name`."""
        ignore("add_hparams", hparam_domain_discrete=hparam_domain_discrete)
        metrics = b"".join(field(5, field(1, field(2, tag))) for tag in metric_dict)
        names = b"".join(field(4, field(1, name)) for name in hparam_dict)
        values = b"".join(
            field(1, field(1, name) + field(2, _setting(value)))
            for name, value in hparam_dict.items()
        )
        folder = Path(self.log_dir) / (run_name or f"{time.time()}")
        with SummaryWriter(folder) as run:
            for tag, content in (
                ("experiment", field(2, names + metrics)),
                ("session_start_info", field(3, values)),
                ("session_end_info", field(4, field(1, 1))),
            ):
                run._value(f"_hparams_/{tag}", _plugin("hparams", content), None, None)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_INSTEAD: Final = {
    "add_custom_scalars": "add_scalars() draws curves with a name in common",
    "add_embedding": "save the vectors with eager.save(), or show them by add_figure()",
    "add_histogram_raw": "add_histogram() takes the values themselves",
    "add_image_with_boxes": "draw the boxes into the picture, and use add_image()",
    "add_mesh": "show it by add_figure()",
    "add_onnx_graph": "add_graph() takes a model",
    "add_pr_curve": "show the curve by add_figure()",
    "add_tensor": "add_histogram() shows its values, and eager.save() keeps it",
}


def _not_here(name: str, instead: str) -> Any:
    def refused(self: SummaryWriter, *args: Any, **options: Any) -> None:
        raise NotImplementedError(f"SummaryWriter.{name}() is not there: {instead}")

    refused.__name__, refused.__doc__ = name, f"Not there: {instead}."
    return refused


for _name, _instead in _INSTEAD.items():
    setattr(SummaryWriter, _name, _not_here(_name, _instead))
