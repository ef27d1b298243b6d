"""A headless browser, driven through chromedriver's HTTP interface; needs only the standard library."""
import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key under which WebDriver hands out elements


class Browser:
    def __init__(self, width=1280, height=900, dark=False, binary=None):
        self.profile = tempfile.mkdtemp(prefix="fastkernels-browser-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                break
        self.base = f"http://127.0.0.1:{found.group(1)}"
        args = ["--headless=new", f"--window-size={width},{height}", f"--user-data-dir={self.profile}", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--force-device-scale-factor=1"]
        if os.geteuid() == 0:
            args.append("--no-sandbox")  # Chromium refuses to sandbox for root
        if dark:
            args.append("--force-dark-mode")
        options = {"args": args}
        chosen = binary or shutil.which("chromium") or shutil.which("chromium-browser")
        if chosen:
            options["binary"] = chosen
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self.session = "/session/" + session["sessionId"]

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def close(self):
        try:
            self._call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, url):
        self._call("POST", self.session + "/url", {"url": url})

    def run(self, script, *args):
        return self._call("POST", self.session + "/execute/sync", {"script": script, "args": list(args)})

    def wait(self, script, *args, seconds=120):
        """Until the script returns something true; what it returned."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script, *args)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"still false after {seconds} s: {script}")
            time.sleep(0.03)

    def find(self, css):
        return self._call("POST", self.session + "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self._call("POST", f"{self.session}/element/{self.find(css)}/click", {})

    def type(self, css, text):
        self._call("POST", f"{self.session}/element/{self.find(css)}/value", {"text": text})

    def keys(self, text):
        """To the focused element."""
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._call("POST", self.session + "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def hover(self, css):
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self.find(css)}}
        self._call("POST", self.session + "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def accept_alert(self, text=None):
        if text is not None:
            self._call("POST", self.session + "/alert/text", {"text": text})
        self._call("POST", self.session + "/alert/accept", {})

    def count(self, css):
        return self.run("return document.querySelectorAll(arguments[0]).length", css)

    def texts(self, css):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", css)

    def resize(self, width, height):
        self._call("POST", self.session + "/window/rect", {"width": width, "height": height})

    def screenshot(self, path):
        """The whole page, not just what fits the window."""
        answer = self._call("POST", self.session + "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": {
            "format": "png", "captureBeyondViewport": True}})
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))

    def console(self):
        """Messages since the last call that a user would see in red or yellow."""
        return [entry["message"] for entry in self._call("POST", self.session + "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def requested(self):
        """Addresses requested since the last call."""
        found = []
        for entry in self._call("POST", self.session + "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found
