"""The site in two languages, as MkDocs calls it: `NAME.ko.md` is the Korean of `NAME.md`, in a navigation of its own, at /ko/.

Links stay what they are on the page, so that they work in the repository too. Decisions alone have no Korean: they are linked to in English.
"""
from copy import copy
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

SECTIONS = {
    "Home": "처음", "First five minutes": "처음 5분", "Installing": "설치", "Using it": "쓰기", "Running it": "운영하기", "Reference": "참고", "How it works": "어떻게 움직이나",
    "One server": "서버 한 대", "Watching hosts": "호스트 지켜보기", "GPUs cut by MIG": "MIG", "Kubernetes": "쿠버네티스", "Pools": "풀",
    "Moving house": "이사하기", "How far it goes": "어디까지 감당하는가", "Security": "보안", "What happens when…": "이런 일이 생기면…", "Commands": "명령", "Settings": "설정", "API and SDK": "API와 SDK", "API, every call": "API 목록",
    "Metrics": "메트릭", "Events": "이벤트", "Alerts": "경고", "Upkeep": "돌보기",
    "For contributors": "고치려는 분께", "Placement": "배치", "How fast it is": "얼마나 빠른가", "Testing": "시험하기", "Releasing": "릴리스",
}  # fmt: skip
SUFFIX = ".ko.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    folder = Path(config.docs_dir)
    english = [one for item in config.nav or [] for one in listed(item, folder)]
    config.nav = [{"English": english}, {"한국어": in_korean(english, folder)}]
    return config


def listed(item: Any, folder: Path) -> list[Any]:
    """A folder stands for all of its pages."""
    if isinstance(item, dict):
        ((title, below),) = item.items()
        if isinstance(below, str) and below.endswith("/"):
            pages = sorted(str(path.relative_to(folder)) for path in (folder / below).glob("*.md"))
            return [{title: sorted(pages, key=lambda page: not page.endswith("README.md"))}]
        return [{title: [one for inner in below for one in listed(inner, folder)]}] if isinstance(below, list) else [item]
    return [item]


def in_korean(items: list[Any], folder: Path) -> list[Any]:
    made: list[Any] = []
    for item in items:
        if isinstance(item, str):
            made += [twin(item)] if (folder / twin(item)).exists() else []
            continue
        ((title, below),) = item.items()
        inner = in_korean(below if isinstance(below, list) else [below], folder)
        if inner:
            made.append({SECTIONS[title]: inner if isinstance(below, list) else inner[0]})
    return made


def twin(page: str) -> str:
    return page.removesuffix(".md") + SUFFIX


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for file in files.documentation_pages():
        if is_korean(file):
            file.dest_uri = "ko/" + file.dest_uri.replace(".ko/index.html", "/index.html").replace("index/index.html", "index.html")
    return files


def on_page_context(context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation) -> dict[str, Any]:
    korean = is_korean(page.file)
    shown = copy(nav)
    shown.items = nav.items[1 if korean else 0].children or []
    shown.homepage = next((one for one in nav.pages if one.file.src_uri == ("index.ko.md" if korean else "index.md")), None)
    config.theme["language"] = "ko" if korean else "en"
    config.extra["alternate"] = [{"name": name, "lang": lang, "link": link} for lang, name, link in languages(page, nav)]
    page.previous_page, page.next_page = (one if one and is_korean(one.file) == korean else None for one in (page.previous_page, page.next_page))
    return {**context, "nav": shown}


def languages(page: Page, nav: Navigation) -> list[tuple[str, str, str]]:
    """The same page in each, or where there is none that language's first."""
    english = page.file.src_uri.replace(SUFFIX, ".md")
    urls = {one.file.src_uri: one.file.url for one in nav.pages}
    return [("en", "English", urls.get(english, urls["index.md"])), ("ko", "한국어", urls.get(twin(english), urls["index.ko.md"]))]


def is_korean(file: File) -> bool:
    return file.src_uri.endswith(SUFFIX)
