"""Pages in headless Chromium: skipped, with the reason, where it or its driver is missing."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="the Python package selenium is missing")

WIDE, PHONE, HEIGHT = 1100, 390, 900
_DRAWN_WITHIN_S = 60.0  # a busy machine is slow and no failure
_TOLD = ("requestWillBeSent", "loadingFailed")
_PROGRAMS = ("chromium", "chromedriver")


class Browser:
    """One window of Chromium, and what its pages did: console and network."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, width: int = WIDE, is_dark: bool = False) -> None:
        """Show a page, without a network, and wait until its timelines are drawn or given up."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.command("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.resize(width)
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(page.resolve().as_uri())
        self.wait("return !document.getElementById('timelines') || document.documentElement.dataset.drawn")

    def resize(self, width: int) -> None:
        """Make the window so wide."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=width < 500
        )

    def wait(self, script: str, *arguments: Any) -> Any:
        """What a script returns once that is true."""
        ends = time.monotonic() + _DRAWN_WITHIN_S
        while time.monotonic() < ends:
            found = self.run(script, *arguments)
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"never came true: {script}")

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns in the page."""
        return self.driver.execute_script(script, *arguments)

    def command(self, name: str, **arguments: Any) -> Any:
        """One command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def complaints(self) -> list[str]:
        """Everything that the page wrote to the console, the browser's own errors among it."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses of everything that was asked for since the page was opened, what is inside the page and what
        its policy stopped left out."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        told = {name: [each["params"] for each in events if each["method"] == f"Network.{name}"] for name in _TOLD}
        stopped = {each["requestId"] for each in told["loadingFailed"] if each.get("blockedReason") == "csp"}
        asked = [each["request"]["url"] for each in told["requestWillBeSent"] if each["requestId"] not in stopped]
        return [address for address in asked if not address.startswith("data:")]


def _options(profile: Path) -> Any:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses root otherwise
    quiet = ["--disable-background-networking", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    for word in ("--headless=new", f"--user-data-dir={profile}", *sandbox, *quiet):
        options.add_argument(word)
    return options


@pytest.fixture(scope="package")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A window of Chromium for the whole session."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} missing: apt-get install chromium chromium-driver")
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=_options(tmp_path_factory.mktemp("profile")), service=service)
    driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The window, with nothing left of the test before."""
    yield chromium
    chromium.command("Emulation.setScriptExecutionDisabled", value=False)
