"""Outlet: every sample goes out as the page for Prometheus, and into the textfile. XID counters are kept over restarts."""
import contextlib
import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from gpufairy.core.errors import FairyError
from gpufairy.core.node_sample import NodeSample
from gpufairy.node.exporter import Page
from gpufairy.node.render import TEXTFILE_PARTS, gpu_labels, render
from gpufairy.node.render_collectors import Collectors
from gpufairy.node.render_counters import Counters
from gpufairy.node.textfile import Textfile
from gpufairy.node.written_aside import WrittenAside

log = logging.getLogger("gpufairy.exporter")

COUNTS_FILE = "xids.json"
LARGEST_COUNTS = 1 << 20
CLOSE_S = 2.0  # for files at the end: a write takes milliseconds


class Outlet:
    """Files are written aside: a disk that does not answer stops neither the page nor whoever puts samples in."""

    def __init__(self, page: Page, textfile: Textfile | None = None, data: Path | None = None) -> None:
        """`data`: where counters are kept; None: nowhere, so they begin at 0 with every start."""
        self.page, self._textfile = page, textfile
        self._file = None if data is None else data / COUNTS_FILE
        self._xids, self._collectors = read_counts(self._file), Collectors()
        self._texts, self._counts = WrittenAside("textfile"), WrittenAside("counts")
        self._words = ""

    def put_once(self, sample: NodeSample) -> None:
        """For one that ends with this: all is written when it returns, and a textfile that cannot be written is an error."""
        text, counts = self._take(sample, None)
        if counts is not None:
            self._keep_counts(counts)
        if self._textfile is not None:
            self._textfile.write(text(), sample.at)

    def put(self, sample: NodeSample, took_s: float | None = None) -> None:
        text, counts = self._take(sample, took_s)
        if counts is not None:
            self._counts.put(lambda: self._keep_counts(counts))
        if (textfile := self._textfile) is not None:
            self._texts.put(lambda: self._write(textfile, text(), sample))

    def close(self) -> None:
        """Waits shortly: what a disk has not taken by then is lost."""
        until_s = time.monotonic() + CLOSE_S
        if self._textfile is not None:
            self._texts.put(self._textfile.remove)
        for written in (self._texts, self._counts):
            written.settle(max(0.0, until_s - time.monotonic()))

    def _take(self, sample: NodeSample, took_s: float | None) -> tuple[Callable[[], bytes], str | None]:
        """The text for the textfile, to be made by who writes it, and the counts if they have changed."""
        changed = self._xids.add(sample.xids, gpu_labels(sample))
        self._collectors.note("gpu", sample.gpus_known, sample.at, took_s)
        self._collectors.note("host", sample.host is not None, sample.at)
        self._collectors.note("containers", sample.containers_known, sample.at)
        if sample.pods_known is None:
            self._collectors.forget("pods")
        else:
            self._collectors.note("pods", sample.pods_known, sample.at)
        collected, xids = self._collectors.all(), self._xids.copy()
        self.page.put_later(lambda: render(sample, xids=xids, collected=collected))
        counts = json.dumps(xids.to_plain()) if changed else None
        return lambda: render(sample, xids=xids, collected=collected, parts=TEXTFILE_PARTS), counts

    def _write(self, textfile: Textfile, text: bytes, sample: NodeSample) -> None:
        """What went wrong is said once, not each second."""
        try:
            textfile.write(text, sample.at)
            words = ""
        except FairyError as error:
            words = f"{error} {error.next_step}"
        if words and words != self._words:
            log.warning("%s", words)
        self._words = words

    def _keep_counts(self, counts: str) -> None:
        if self._file is None:
            return
        part = self._file.with_suffix(".part")
        with contextlib.suppress(OSError):  # a full disk costs counts, not the collector
            part.write_text(counts)
            os.replace(part, self._file)


def read_counts(file: Path | None) -> Counters:
    if file is None:
        return Counters()
    try:
        return Counters.from_plain(json.loads(file.read_bytes()[:LARGEST_COUNTS]))
    except (OSError, ValueError, RecursionError):
        return Counters()
