"""What the doctor finds of watching: a collector that answers, node-exporter and its folder, Prometheus and whom it scrapes."""
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from gpufairy.core.doctor_facts import MetricsFacts
from gpufairy.node.doctor_ask import page
from gpufairy.node.exporter import PORT
from gpufairy.node.textfile import NAME

FOLDERS = ("/var/lib/node_exporter/textfile_collector", "/var/lib/prometheus/node-exporter", "/var/lib/node_exporter")
NODE_EXPORTER = "http://127.0.0.1:9100/metrics"
PROMETHEUS = "http://127.0.0.1:9090"
SUCCESS = re.compile(r'^fairy_collector_success\{(?:[^}]*,)?collector="([a-z_]+)"[^}]*\} ([01])', re.MULTILINE)
SCRAPE_ERROR = re.compile(r"^node_textfile_scrape_error ([0-9.e+]+)", re.MULTILINE)
OURS = ("fairy", "gpufairy", "gpu-session")


def metrics_facts(servers: Sequence[str], prometheus: str = PROMETHEUS, folders: Sequence[str] = FOLDERS) -> MetricsFacts:
    """`servers`: other pages than the exporter's own that may have what is looked for."""
    found = asked_collectors([f"http://127.0.0.1:{PORT}/metrics", *servers])
    found = textfile_facts(found, folders)
    node = page(NODE_EXPORTER)
    error = None if node is None else SCRAPE_ERROR.search(node[1])
    found = replace(found, node_exporter=node is not None, scrape_error=None if error is None else float(error[1]) > 0)
    return prometheus_facts(found, prometheus)


def asked_collectors(urls: Sequence[str]) -> MetricsFacts:
    """The first that answers well; else the first that answers at all."""
    first: MetricsFacts | None = None
    for url in urls:
        answer = page(url)
        if answer is None:
            continue
        status, text, _ = answer
        seen = MetricsFacts(
            url, status, "" if status == 200 else text.strip()[:200], tuple((m[1], m[2] == "1") for m in SUCCESS.finditer(text))
        )
        if status == 200:
            return seen
        first = first or seen
    return first or MetricsFacts(exporter=urls[0])


def textfile_facts(found: MetricsFacts, folders: Sequence[str]) -> MetricsFacts:
    """The folder that has our file, else the first that is there."""
    there = [folder for folder in folders if Path(folder).is_dir()]
    folder = next((one for one in there if (Path(one) / NAME).exists()), there[0] if there else "")
    if not folder:
        return found
    try:
        age = timedelta(seconds=max(0.0, time.time() - (Path(folder) / NAME).stat().st_mtime))
    except OSError:
        age = None
    return replace(found, folder=folder, folder_writable=os.access(folder, os.W_OK | os.X_OK), file_age=age)


def prometheus_facts(found: MetricsFacts, url: str) -> MetricsFacts:
    answer = page(f"{url.rstrip('/')}/api/v1/targets?state=active")
    if answer is None or answer[0] != 200:
        return replace(found, prometheus=url, prometheus_answers=answer is not None)
    try:
        targets: list[dict[str, Any]] = json.loads(answer[1])["data"]["activeTargets"]
        ours = [one for one in targets if is_ours(one)]
        down = next((f"{one['scrapeUrl']}: {one.get('lastError') or one['health']}" for one in ours if one.get("health") == "down"), "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return replace(found, prometheus=url, prometheus_answers=True)
    return replace(found, prometheus=url, prometheus_answers=True, scraped=bool(ours), scrape_trouble=down[:300])


def is_ours(target: dict[str, Any]) -> bool:
    job = str(target.get("labels", {}).get("job", "")).lower()
    return f":{PORT}/" in str(target.get("scrapeUrl", "")) or any(name in job for name in OURS)
