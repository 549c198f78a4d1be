"""A headless Chromium that opens pages from disk, at a size and in a colour scheme."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

BROWSER, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
KEPT = "SORDINO_SCREENSHOTS"
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # What a page asks for is still seen, and goes nowhere.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


@dataclass(frozen=True)
class View:
    """A screen or a sheet: CSS pixels, and how many of the device's make one."""

    name: str
    width: int
    height: int
    scale: float = 1
    mobile: bool = False
    media: str = "screen"


PHONE = View("phone", 390, 844, scale=2, mobile=True)
LAPTOP = View("laptop", 1366, 900)
# Zoom halves the window as the page sees it.
ZOOMED = View("laptop-200%", 683, 450, scale=2)
A4 = View("a4", 794, 1123, media="print")
VIEWS = (PHONE, LAPTOP, ZOOMED, A4)


class Chrome:
    """One browser; every `open` is a new page."""

    def __init__(self, profile: Path) -> None:
        for program in (BROWSER, DRIVER):
            if not program.exists():
                raise FileNotFoundError(
                    f"{program} is missing. Install it: apt-get install chromium chromium-driver."
                )
        options = webdriver.ChromeOptions()
        options.binary_location = str(BROWSER)
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        self.view = LAPTOP

    def close(self) -> None:
        """End the browser."""
        self.driver.quit()

    def open(
        self, page: Path, view: View = LAPTOP, *, scripts: bool = True, dark: bool = False
    ) -> None:
        """Load `page` from disk; logs begin here."""
        self.view = view
        self._do("Emulation.setScriptExecutionDisabled", value=not scripts)
        size = {"width": view.width, "height": view.height}
        self._do(
            "Emulation.setDeviceMetricsOverride",
            **size,
            deviceScaleFactor=view.scale,
            mobile=view.mobile,
        )
        features = {
            "prefers-color-scheme": "dark" if dark else "light",
            "prefers-reduced-motion": "reduce",
        }
        listed = [{"name": name, "value": value} for name, value in features.items()]
        self._do("Emulation.setEmulatedMedia", media=view.media, features=listed)
        self.driver.get("about:blank")  # else an address that differs in its # is not loaded
        for log in ("performance", "browser"):
            self.driver.get_log(log)
        self.driver.get(page.resolve().as_uri())

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page, also where the page's own scripts are off."""
        answer = self._do(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """What the console said, errors and warnings."""
        entries = self.driver.get_log("browser")
        return [each["message"] for each in entries if each["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Addresses the page asked for since it was opened."""
        messages = (
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        )
        return [
            each["params"]["request"]["url"]
            for each in messages
            if each["method"] == "Network.requestWillBeSent"
        ]

    def widths(self) -> tuple[float, float]:
        """Of the content and of what is seen of it."""
        metrics = self._do("Page.getLayoutMetrics")
        return metrics["cssContentSize"]["width"], metrics["cssLayoutViewport"]["clientWidth"]

    def press_enter(self) -> None:
        """On whatever has the focus."""
        ActionChains(self.driver).send_keys(Keys.ENTER).perform()

    def press_tab(self) -> None:
        """Go to the next place that takes keys."""
        ActionChains(self.driver).send_keys(Keys.TAB).perform()

    def pdf(self) -> bytes:
        """The page, printed on A4."""
        paper = {"paperWidth": 210 / 25.4, "paperHeight": 297 / 25.4}
        printed = self._do("Page.printToPDF", **paper, preferCSSPageSize=True, printBackground=True)
        return base64.b64decode(printed["data"])

    def keep_picture(self, name: str) -> None:
        """Keep a picture of the whole page."""
        size = self._do("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": self.view.width, "height": size["height"], "scale": 1}
        if os.environ.get(KEPT):
            shot = self._do("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
            self.keep(f"{name}.png", base64.b64decode(shot["data"]))

    def keep(self, name: str, content: bytes) -> None:
        """Keep a file for somebody to look at, where SORDINO_SCREENSHOTS names a directory."""
        if directory := os.environ.get(KEPT):
            Path(directory).mkdir(parents=True, exist_ok=True)
            (Path(directory) / name).write_bytes(content)

    def _do(self, command: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, arguments)
