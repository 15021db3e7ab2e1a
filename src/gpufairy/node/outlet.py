"""Outlet: every sample goes out as the page for Prometheus, and into the textfile. XID counters are kept over restarts."""
import contextlib
import json
import logging
import os
from pathlib import Path

from gpufairy.core.errors import FairyError
from gpufairy.core.node_sample import NodeSample
from gpufairy.node.exporter import Page
from gpufairy.node.render import TEXTFILE_PARTS, gpu_labels, render
from gpufairy.node.render_collectors import Collectors
from gpufairy.node.render_counters import Counters
from gpufairy.node.textfile import Textfile

log = logging.getLogger("gpufairy.exporter")

COUNTS_FILE = "xids.json"
LARGEST_COUNTS = 1 << 20


class Outlet:
    def __init__(self, page: Page, textfile: Textfile | None = None, data: Path | None = None) -> None:
        """`data`: where counters are kept; None: nowhere, so they begin at 0 with every start."""
        self.page, self._textfile = page, textfile
        self._file = None if data is None else data / COUNTS_FILE
        self._xids, self._collectors = read_counts(self._file), Collectors()
        self._words = ""

    def put_once(self, sample: NodeSample) -> None:
        """For one that ends with this: a textfile that cannot be written is an error then."""
        textfile, self._textfile = self._textfile, None
        self.put(sample)
        if textfile is not None:
            textfile.write(render(sample, xids=self._xids, collected=self._collectors.all(), parts=TEXTFILE_PARTS), sample.at)

    def put(self, sample: NodeSample, took_s: float | None = None) -> None:
        if self._xids.add(sample.xids, gpu_labels(sample)):
            self._keep_counts()
        self._collectors.note("gpu", sample.gpus_known, sample.at, took_s)
        self._collectors.note("host", sample.host is not None, sample.at)
        self._collectors.note("containers", sample.containers_known, sample.at)
        collected = self._collectors.all()
        xids = self._xids.copy()
        self.page.put_later(lambda: render(sample, xids=xids, collected=collected))
        if self._textfile is not None:
            self._write(self._textfile, render(sample, xids=self._xids, collected=collected, parts=TEXTFILE_PARTS), sample)

    def close(self) -> None:
        if self._textfile is not None:
            self._textfile.remove()

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

    def _keep_counts(self) -> None:
        if self._file is None:
            return
        part = self._file.with_suffix(".part")
        with contextlib.suppress(OSError):  # a full disk costs counts, not the collector
            part.write_text(json.dumps(self._xids.to_plain()))
            os.replace(part, self._file)


def read_counts(file: Path | None) -> Counters:
    if file is None:
        return Counters()
    try:
        return Counters.from_plain(json.loads(file.read_bytes()[:LARGEST_COUNTS]))
    except (OSError, ValueError, RecursionError):
        return Counters()
