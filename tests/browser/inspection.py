"""What is wrong with a page: functions that give sentences, none if nothing is."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from chrome import Chrome

SCRIPT = Path(__file__).with_name("inspection.js").read_text(encoding="utf-8")


def asked(chrome: Chrome, *names: str) -> list[str]:
    """Faults that these functions of inspection.js find."""
    calls = ", ".join(f"...found.{name}()" for name in names)
    return list(chrome.ask(f"(() => {{ const found = {SCRIPT.strip()}; return [{calls}]; }})()"))


def paper(chrome: Chrome) -> float:
    """Luminance of the page behind the text: 0 is black, 1 white."""
    return float(chrome.ask(f"({SCRIPT.strip()}).paper()"))


def loading(chrome: Chrome) -> list[str]:
    """What the console said, and what the page wanted from elsewhere."""
    asked_for = [f"asks for {each}" for each in chrome.requests() if not _own(each)]
    return asked_for + [f"console: {each}" for each in chrome.complaints()]


def _own(address: str) -> bool:
    return address.startswith(("file://", "data:", "about:"))


def width(chrome: Chrome) -> list[str]:
    """Whether the page is as wide as the screen and no wider."""
    content, seen = chrome.widths()
    faults = asked(chrome, "overflow")
    if seen != chrome.view.width:
        faults.append(f"laid out for {seen} px, not {chrome.view.width}")
    if content > seen:
        faults.append(f"scrolls sideways: {content} px of content on {seen}")
    return faults


def names(chrome: Chrome) -> list[str]:
    """Figures that a screen reader would pass over: no role, or no name."""
    faults = []
    for figure in chrome.driver.find_elements("css selector", "svg:not([aria-hidden='true'])"):
        told = (figure.get_attribute("id") or figure.text)[:40]
        if figure.get_attribute("role") != "img":
            faults.append(f"no role on figure {told}")
        elif not figure.accessible_name.strip():
            faults.append(f"no name of figure {told}")
    return faults


def links(chrome: Chrome) -> list[str]:
    """In-page links that lead nowhere, each followed by the keyboard."""
    targets = list(chrome.ask(f"({SCRIPT.strip()}).links()"))
    if not targets:
        return ["no links inside the page"]
    return [
        fault for place, target in enumerate(targets) for fault in _follow(chrome, place, target)
    ]


def _follow(chrome: Chrome, place: int, target: str) -> list[str]:
    if not chrome.ask(f"!!document.getElementById({json.dumps(target)})"):
        return [f"nothing is called #{target}"]
    chrome.ask("scrollTo(0, document.documentElement.scrollHeight / 2)")
    chrome.ask("document.activeElement.blur()")
    chrome.ask(f"document.querySelectorAll(\"a[href^='#']\")[{place}].focus()")
    if not chrome.ask("document.activeElement.matches('a')"):
        return [f"the link to #{target} takes no focus"]
    chrome.press_enter()
    for _ in range(40):
        if chrome.ask(_arrived(target)):
            return []
        time.sleep(0.05)
    return [f"the link to #{target} does not lead there"]


def _arrived(target: str) -> str:
    """Whether the target's beginning is seen, and the address says so."""
    name = json.dumps(target)
    return (
        f"(() => {{ const top = document.getElementById({name}).getBoundingClientRect().top;"
        f" return decodeURIComponent(location.hash.slice(1)) === {name}"
        " && top >= -1 && top < innerHeight; })()"
    )


def pages(pdf: bytes) -> int:
    """How many sheets a PDF has: Chromium writes an object in plain text for each."""
    return len(re.findall(rb"/Type\s*/Page(?![a-zA-Z])", pdf))


def torn(pdf: bytes) -> int:
    """How many tables end on another sheet than they begin on, by the PDF's own tags."""
    found = re.findall(rb"(\d+) 0 obj\s(.*?)\sendobj", pdf, re.DOTALL)
    objects = {int(name): content for name, content in found}

    def sheets(content: bytes) -> set[bytes]:
        kept = set(re.findall(rb"/Pg (\d+) 0 R", content))
        within = re.search(rb"/K (?:\[(.*)\]|(\d+ 0 R))", content, re.DOTALL)
        if within:
            listed = re.sub(rb"<<.*?>>", b"", within[1] or within[2], flags=re.DOTALL)
            for child in re.findall(rb"(\d+) 0 R", listed):
                kept |= sheets(objects[int(child)])
        return kept

    tables = [sheets(each) for each in objects.values() if b"/S /Table\n" in each]
    assert tables, "the PDF has no tags"
    return sum(len(each) > 1 for each in tables)
