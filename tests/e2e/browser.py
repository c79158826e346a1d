"""A headless Chromium for a suite, and the checks of each page: it is accessible and loads nothing from other hosts."""

import base64
import json
import pathlib
import subprocess
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service as Driver
from selenium.webdriver.common.by import By

AXE = pathlib.Path(__file__).resolve().parent / "axe"
DESKTOP, PHONE = (1280, 900), (390, 844)
PATIENCE_S = 120  # generous: a shared machine must not fail a test


class Browser:
    """A context manager; `base` is the address before the paths."""

    def __init__(self, base):
        self.base = base
        subprocess.run([AXE / "install"], check=True, stdout=subprocess.DEVNULL)
        self._axe = (AXE / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        # Chromium's own sandbox needs namespaces, which containers and root lack; it sees only pages of this test.
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--hide-scrollbars"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self._driver = webdriver.Chrome(service=Driver("/usr/bin/chromedriver"), options=options)
        self._driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": False})
        self._driver.set_script_timeout(PATIENCE_S)
        self.look()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._driver.quit()

    def look(self, size=DESKTOP, colours="light"):
        """Sets the window size and the light or dark scheme."""
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"features": [{"name": "prefers-color-scheme", "value": colours}]})

    def before_each_page(self, script):
        """Runs in each page before the page's own scripts."""
        self._driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})

    def go(self, path):
        """Loads a page."""
        self._driver.get(self.base + path)

    def open(self, path):
        """Loads a page and waits until its main content is shown."""
        self.go(path)
        self.settle()

    def settle(self):
        self.wait("document.getElementById('main').dataset.state === 'ready' && !document.querySelector('.wait')",
                  "the page is there")

    def script(self, text, *arguments):
        return self._driver.execute_script(text, *arguments)

    def wait(self, expression, what):
        """Waits until the expression is true, and returns its value."""
        give_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up:
            answer = self.script(f"return {expression}")
            if answer:
                return answer
            time.sleep(0.03)
        raise AssertionError(f"{what}: not within {PATIENCE_S} s; the page says:\n{self.text()[:2000]}")

    def text(self, selector="body"):
        return self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def wait_text(self, selector, text):
        self.wait(f"(document.querySelector({json.dumps(selector)})?.innerText ?? '').includes({json.dumps(text)})",
                  f"{text!r} in {selector}")

    def find(self, selector):
        return self._driver.find_element(By.CSS_SELECTOR, selector)

    def path(self):
        return self.script("return location.pathname + location.search")

    def press(self, selector):
        self.wait(f"document.querySelector({json.dumps(selector)})", selector)
        self.script("document.querySelector(arguments[0]).click()", selector)

    def violations(self, *rules):
        """Findings of axe on the current page, by all of its rules or these."""
        found = self._driver.execute_async_script(
            self._axe + ";const done = arguments[1]; axe.run(document, {resultTypes: ['violations'],"
            "...(arguments[0].length ? {runOnly: {type: 'rule', values: arguments[0]}} : {})}).then(done)", rules)
        return [f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:160]}" for each in found["violations"]]

    def overflow(self):
        """Pixels by which the page is wider than the window."""
        return self.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def complaints(self):
        """Console errors since the last call, and requests that left this service."""
        errors = [entry["message"] for entry in self._driver.get_log("browser") if entry["level"] == "SEVERE"]
        for entry in self._driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if not url.startswith((self.base, "data:", "chrome:", "about:")):
                    errors.append(f"a request to {url}")
        return errors

    def webp(self, left, top, width, height):
        """A picture of a part of the page, including parts outside of the window."""
        taken = self._driver.execute_cdp_cmd("Page.captureScreenshot", {
            "format": "webp", "quality": 70, "captureBeyondViewport": True,
            "clip": {"x": left, "y": top, "width": width, "height": height, "scale": 1}})
        return base64.b64decode(taken["data"])
