"""A dashboard with the history of web_history, opened in a real browser: what its tests need."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from webdriver import Browser

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import memory_folder  # noqa: F401

PROGRAM, MAKER, SHOTS = map(os.path.abspath, sys.argv[1:4])
SHOWN = "return document.querySelector('main').dataset.shown"


class DashboardCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for program in ("chromium", "chromedriver"):
            if not shutil.which(program):
                raise AssertionError(f"{program} is missing; run tools/install_deps.sh test")
        os.makedirs(SHOTS, exist_ok=True)
        cls.folder = tempfile.TemporaryDirectory()
        cls.database = os.path.join(cls.folder.name, "history.db")
        subprocess.run([MAKER, cls.database], check=True)
        cls.server = subprocess.Popen([PROGRAM, "dashboard", "--db", cls.database, "--quiet", "--port", "0"], stdout=subprocess.PIPE, text=True)
        cls.url = cls.server.stdout.readline().strip()
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.kill()
        cls.server.wait()
        cls.server.stdout.close()
        cls.folder.cleanup()

    def setUp(self):
        self.own = [self.url, "data:", "about:", "file:///", "chrome:", "devtools:"]
        self.browser.console()
        self.browser.requested()

    def tearDown(self):
        """Whatever a test did: no message in the console, no request that leaves this machine."""
        self.assertEqual(self.browser.console(), [])
        self.assertEqual([u for u in self.browser.requested() if not u.startswith(tuple(self.own))], [])

    def go(self, hash_, base=None):
        self.browser.open("about:blank")
        self.browser.open((base or self.url) + "#" + hash_)
        self.browser.wait(SHOWN)

    def again(self, action):
        """Triggers a redraw of the page, and waits for it."""
        before = self.browser.run(SHOWN)
        action()
        self.browser.wait(SHOWN + " !== arguments[0]", before)

    def shot(self, name):
        self.browser.screenshot(os.path.join(SHOTS, name + ".png"))

    def api(self, path):
        with urllib.request.urlopen(self.url.rstrip("/") + path) as answer:
            return json.load(answer)

    def runs(self, tier="kernel"):
        return [r for r in self.api("/api/runs")["runs"] if r["tier"] == tier]

    def marks(self, chart, mark):
        return self.browser.count(f'[data-chart="{chart}"] [data-mark="{mark}"]')
