"""The manual as a site: built with every link and anchor checked, in two languages, with nothing fetched from elsewhere."""
import os
import re
import subprocess
import sys

import pytest
from pages import DOCS, ROOT

pytestmark = pytest.mark.slow
NO_LIST = re.compile(r"<p>(?:(?!</p>).)*\n(?:-|[0-9]+\.) ", re.DOTALL)  # Markdown needs an empty line before a list, and four spaces for what goes on in it
FETCHED = re.compile(r"""<(?:script|img|iframe)[^>]+src=["']?https?:|<link[^>]+href=["']?https?:[^>]+rel=["']?(?:stylesheet|preconnect)|url\(["']?https?:""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_there_and_korean_ones_are_below_ko(site):
    for path in DOCS.glob("*.md"):
        name = path.name.removesuffix(".md")
        place = f"ko/{name.removesuffix('.ko')}" if name.endswith(".ko") else name
        assert (site / place.replace("index", "").strip("/") / "index.html").exists(), path


def test_nothing_of_it_is_fetched_from_elsewhere(site):
    for page in (*site.rglob("*.html"), *site.rglob("*.css")):
        assert FETCHED.findall(page.read_text()) == [], page


def test_what_is_written_as_a_list_is_shown_as_one(site):
    assert [page.relative_to(site).as_posix() for page in site.rglob("*.html") if NO_LIST.search(page.read_text())] == []


def test_a_korean_page_is_korean_and_leads_to_its_english_twin(site):
    page = (site / "ko" / "manual" / "index.html").read_text()
    assert '<html lang="ko"' in page
    assert 'href="../../manual/" hreflang="en"' in page
    assert "검색" in page
