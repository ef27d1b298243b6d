"""The dashboard in a real browser: every page with data, every control, and no errors.

browser_test.py FASTKERNELS WEB_HISTORY SCREENSHOTS [TEST...]
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

from dashboard_case import MAKER, PROGRAM, SHOTS, SHOWN, DashboardCase
from ttft_pages import TtftPages
from webdriver import Browser

ENTER, ARROW_LEFT, ARROW_DOWN, TAB = "\ue007", "\ue012", "\ue015", "\ue004"


class Dashboard(TtftPages, DashboardCase):
    # Pages

    def test_overview(self):
        b = self.browser
        self.go("/")
        self.assertEqual(b.texts("main h2")[:2], ["Speed-ups", "18 regressions"], "a picture, then what is wrong")
        strip = "return [...document.querySelectorAll('#strip [data-mark]')].map(e => e.dataset.mark)"
        self.assertGreater(b.run(strip).count("run"), 60, "a cell for every run of every operator")
        self.assertEqual(b.run(strip).count("failed"), 1, "softmax in its newest run")
        self.assertRegex(" ".join(b.texts("#strip .cell-text")), r"1\.\d\dx.* 3 wrong")
        self.assertRegex(b.texts("[data-regression=silu_and_mul] .badge")[0], r"^\d+ % (to \d+ % )?slower$")
        self.assertEqual(b.count("#regressions [data-regression]"), 2)
        self.assertEqual(b.texts("#model-regressions h2"), ["2 model regressions"], "a path that was killed in the newest run of either model")
        self.assertRegex(b.texts("#model-regressions .sentence")[0], r"broke (between|within commit) .*Killed by signal 9")
        sentence = b.texts("[data-regression=silu_and_mul] .sentence")[0]
        self.assertRegex(sentence, r"between [0-9a-f]{9} and [0-9a-f]{9}")
        self.assertEqual(b.count("#table-best tbody tr"), 4)
        self.assertEqual(b.count("#table-best .spark path"), 4)
        self.assertEqual(b.count("#table-models tbody tr"), 8)
        self.assertEqual(b.count("#table-runs tbody tr"), 20)
        self.shot("overview")

    def test_operator(self):
        b = self.browser
        self.go("/operator/rms_norm")
        self.assertEqual(self.marks("rms_norm-speedup", "speed-up"), 24, "a run over other scenarios stands apart")
        self.assertEqual(b.count('[data-chart="rms_norm-speedup"] .whisker'), 24)
        self.assertEqual(b.count("select[aria-label='Scenarios and device'] option"), 2)
        self.assertEqual(self.marks("rms_norm-heat", "cell"), 15)
        for mark in ("candidate", "baseline", "floor"):
            self.assertEqual(self.marks("rms_norm-roofline", mark), 15)
        self.assertEqual(self.marks("rms_norm-roofline", "roof"), 1)
        self.assertGreater(self.marks("rms_norm-roofline", "label"), 2, "points have names")
        self.assertGreaterEqual(self.marks("rms_norm-roofline", "roof-label"), 1)
        ticks = b.run("return [...document.querySelectorAll('[data-chart=\"rms_norm-speedup\"] .axis .tick text')].map(e => e.textContent)")
        self.assertTrue(any(re.match(r"(\d\d-\d\d )?\d\d:\d\d$", t) for t in ticks), ticks)
        self.assertEqual(self.marks("rms_norm-errors", "error"), 15)
        self.assertGreater(b.count(".code .k"), 5, "keywords have a colour")
        self.assertIn("namespace {", "".join(b.texts(".code tr td:last-child")))
        self.shot("operator")

    def test_operator_shows_another_run(self):
        b = self.browser
        self.go("/operator/softmax")
        self.assertEqual(b.count('[data-chart="softmax-heat"] .cell.broken'), 3)
        self.again(lambda: b.run("const s = document.querySelector('select[aria-label=Run]'); s.selectedIndex = 1; s.dispatchEvent(new Event('change'))"))
        self.assertEqual(b.count('[data-chart="softmax-heat"] .cell.broken'), 0)
        self.assertIn("run=", b.run("return location.hash"))

    def test_sources_differ(self):
        b = self.browser
        self.go("/operator/rms_norm")
        self.again(lambda: b.run("const s = document.querySelector('select[aria-label=\"Compare with\"]'); s.selectedIndex = 3; s.dispatchEvent(new Event('change'))"))
        gone, come = b.count(".code tr.gone"), b.count(".code tr.come")
        self.assertEqual((gone, come), (2, 2), "the version in the first line, and the sum")
        self.shot("operator-diff")

    def test_model(self):
        b = self.browser
        self.go("/model/llama-3.2-1b")
        for path, points in (("eager", 8), ("candidate", 8), ("compiled", 8), ("torch_compile", 5)):
            self.assertEqual(self.marks("llama-3.2-1b-ttft_ms", path), points, path)
        self.assertEqual(self.marks("llama-3.2-1b-ttft_ms", "failed"), 3)
        self.assertEqual(self.marks("llama-3.2-1b-compile_ms", "compiled"), 8)
        xs = sorted(set(b.run("return [...document.querySelectorAll('[data-chart=\"llama-3.2-1b-ttft_ms\"] [data-mark=eager]')].map(c => +c.getAttribute('cx'))")))
        gaps = [round(b_ - a, 3) for a, b_ in zip(xs, xs[1:])]
        self.assertEqual(len(set(gaps)), 1, f"columns are evenly spaced: {gaps}")
        self.assertEqual(self.marks("llama-3.2-1b-ttft_ms-sweep-3d", "point"), 24)
        self.assertEqual(self.marks("llama-3.2-1b-ttft_ms-sweep-3d", "budget"), 3, "a wire across the runs for each budget")
        self.assertEqual(self.marks("llama-3.2-1b-ttft_ms-sweep", "run"), 8)
        self.assertEqual(b.count("#table-rows tr.failed"), 3)
        self.shot("model")

    def test_tooltip_names_commit_and_value(self):
        b = self.browser
        self.go("/model/llama-3.2-1b")
        b.hover('[data-chart="llama-3.2-1b-ttft_ms"] svg')
        text = b.wait("const t = document.getElementById('tip'); return !t.hidden && t.textContent")
        self.assertRegex(text, r"[0-9a-f]{9}\+? · \d{4}-\d\d-\d\d")
        self.assertRegex(text, r"eager1\.3\d s")

    def test_keyboard_moves_along_the_chart_and_opens_a_run(self):
        b = self.browser
        self.go("/operator/rms_norm")
        b.run("document.querySelector('[data-chart=\"rms_norm-speedup\"] svg').focus()")
        b.keys(ARROW_LEFT + ARROW_LEFT)
        self.assertIn("speed-up", b.wait("const t = document.getElementById('tip'); return !t.hidden && t.textContent"))
        self.again(lambda: b.keys(ENTER))
        self.assertTrue(b.run("return location.hash").startswith("#/run/"))

    def test_the_sweep_turns(self):
        b = self.browser
        self.go("/model/llama-3.2-1b")
        where = "return [...document.querySelectorAll('[data-chart=\"llama-3.2-1b-ttft_ms-sweep-3d\"] [data-mark=point]')].map(c => c.getAttribute('cx')).join()"
        before = b.run(where)
        b.run("document.querySelector('[data-chart=\"llama-3.2-1b-ttft_ms-sweep-3d\"] svg').focus()")
        b.keys(ARROW_LEFT)
        self.assertNotEqual(b.run(where), before)

    def test_run(self):
        b = self.browser
        run = self.runs()[0]
        self.go(f"/run/{run['id']}")
        self.assertEqual(b.count("#table-results tbody tr"), 60)
        self.assertEqual(b.count("#table-results tr.failed"), 3)
        self.assertIn("g++ 12.2.0", " ".join(b.texts(".facts dd")))
        self.assertEqual(b.count("#artifacts a[download]"), 5)
        chart = "llama_mlp-llama-3.2-1b/tp1/decode-1/layer"
        self.go(f"/run/{run['id']}?at={urllib.parse.quote('llama_mlp|llama-3.2-1b/tp1/decode-1/layer')}")
        self.assertEqual(self.marks(f"{chart}-samples", "baseline"), 60)
        self.assertEqual(self.marks(f"{chart}-samples", "candidate"), 60)
        self.assertEqual(b.count(f'[data-chart="{chart}-samples"] .dot.hollow'), 2, "a pair that was left out")
        self.assertEqual(self.marks(f"{chart}-pairs", "A/A control"), 60)
        self.shot("run")

    def test_a_failed_run_shows_what_is_wrong_once(self):
        b = self.browser
        self.go(f"/run/{self.runs()[0]['id']}")
        self.assertIn("softmax", b.texts("#scenario h2")[0], "what failed is shown first")
        text = b.run("return document.querySelector('main').textContent")
        self.assertEqual(text.count("37.5 times"), 1, "the sentence stands once")
        chart = b.run("return document.querySelector('[data-chart$=mismatch]').dataset.chart")
        self.assertEqual(self.marks(chart, "wrong"), 24 * 2 + 3 * 30)
        self.assertEqual(self.marks(chart, "right"), 24 * 32 - 24 * 2 - 3 * 30)
        self.assertIn("The last columns of each row are wrong.", text)
        self.shot("run-failed")
        self.go(f"/run/{self.runs()[1]['id']}")
        self.assertEqual(b.count("[data-chart$=mismatch]"), 0, "nothing where nothing was kept")

    def test_ink_on_cells_can_be_read(self):
        """WCAG AA, 4.5 to 1, for every text in a cell, in the light and the dark theme."""
        b = self.browser
        contrast = """
            const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                                   return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05; };
            return [...document.querySelectorAll('.cell-text')].map(t => {
              const [ink, ground] = [getComputedStyle(t).fill, getComputedStyle(t.parentNode.querySelector('rect')).fill].map(light);
              return Math.max(ink, ground) / Math.min(ink, ground); })""".replace("\\\\", "\\")
        for theme in ("light", "dark"):
            for page in ("/", "/operator/rms_norm", "/operator/softmax"):
                self.go(page)
                b.run("document.documentElement.dataset.theme = arguments[0]; dispatchEvent(new Event('fk-theme'))", theme)
                found = b.run(contrast)
                self.assertGreater(len(found), 3, page)
                self.assertGreaterEqual(min(found), 4.5, f"{page} {theme}")

    def test_e2e_runs(self):
        b = self.browser
        engine, serve = self.runs("e2e")
        self.go(f"/run/{serve['id']}")
        self.assertEqual(self.marks("e2e-curve", "load"), 3)
        self.assertEqual(self.marks("e2e-itl", "distribution"), 3)
        self.assertEqual(self.marks("e2e-ttft", "percentile"), 9)
        self.assertIn("Output tokens per second", b.texts(".key dt"))
        self.shot("run-e2e-serve")
        self.go(f"/run/{engine['id']}")
        self.assertEqual(self.marks("e2e-itl", "distribution"), 2)
        self.assertEqual(self.marks("e2e-shares", "bar"), 3)
        self.assertEqual(self.marks("e2e-step", "call"), 5)
        self.assertRegex(b.texts("#e2e-gain li")[0], r"rms_norm: 10 % of the time, 1\.300x alone, 1\.300x in the model, so that the model gains 1\.024x")
        self.assertNotIn("No results", b.texts("main h3"))
        self.shot("run-e2e-throughput")

    def test_eval_runs(self):
        b = self.browser
        run = self.runs("eval")[0]
        for page in ("run", "report"):
            self.go(f"/{page}/{run['id']}")
            self.assertIn("Score", b.texts(".key dt"))
            self.assertIn("Items", b.texts("main h2"))
            self.assertIn("Workloads", b.texts("main h2"))
            self.assertIn("INVALID", " ".join(b.texts("td")))
            self.assertIn("balanced: 7 of 64 positions differ by more than 0.03", b.texts("td"))
        self.shot("run-eval")

    def test_artifacts_can_be_read(self):
        b = self.browser
        self.go(f"/run/{self.runs()[0]['id']}")
        b.run("document.querySelector('#artifacts td button').click()")
        b.wait("return document.querySelectorAll('#artifacts .code tr').length === 20")

    def test_compare(self):
        b = self.browser
        runs = self.runs()
        self.go(f"/compare?runs={runs[5]['id']},{runs[0]['id']}")
        self.assertEqual(b.count("#compare-scenarios tbody tr"), 60)
        changed = b.texts("#compare-scenarios th.differs")
        for op in ("silu_and_mul", "softmax"):
            self.assertTrue(any(name.startswith(op) for name in changed), op)
        self.assertFalse(any(name.startswith("llama_mlp") for name in changed), "within noise")
        self.assertIn("INCORRECT_NUMERICAL", b.texts("#compare-scenarios td.differs"))
        self.assertIn("status", b.texts("#compare-settings th.differs"))
        self.assertEqual(b.count("#compare-settings tbody tr"), b.count("#compare-settings th.differs"), "what is the same is folded")
        self.assertFalse(b.run("return document.getElementById('compare-same').open"))
        self.assertIn("host", b.run("return [...document.querySelectorAll('#compare-same dt')].map(e => e.textContent)"))
        stray = "return [...document.querySelector('main').childNodes].filter(n => n.nodeType === 3).map(n => n.textContent)"
        self.assertEqual(b.run(stray), [])
        self.shot("compare")
        self.go(f"/compare?runs={runs[-2]['id']},{runs[0]['id']}")
        self.assertEqual(b.run(stray), [], "no 0 where no source is the same")

    def test_compare_tells_noise_from_change(self):
        """A time differs if the samples of the two runs do not overlap, as in `history diff`; otherwise it is the same."""
        b = self.browser
        ids = [self.runs("ttft")[i]["id"] for i in (4, 0)]
        before, after = ({(r["model"], r["path"], r["search_iters"]): r for r in self.api(f"/api/run/{i}")["ttft"]} for i in ids)
        expected = {}
        for key in before.keys() | after.keys():
            for title, field, samples in (("TTFT", "ttft_ms", "prefill"), ("TPOT", "tpot_ms", "decode")):
                a, z = before.get(key, {}), after.get(key, {})
                if not (a.get(field) or z.get(field)):
                    continue
                meet = False
                if a.get(field) and z.get(field):
                    x, y = a["samples"][samples], z["samples"][samples]
                    meet = min(x) <= max(y) and min(y) <= max(x)
                expected[" · ".join(str(part) for part in (*key, title) if part is not None)] = not meet
        self.go(f"/compare?runs={','.join(ids)}")
        shown = b.run("return [...document.querySelectorAll('#compare-ttft tbody th')].map(t => [t.textContent, t.classList.contains('differs')])")
        self.assertEqual({name: differs for name, differs in shown if not name.endswith("search")}, expected)
        self.assertEqual(set(expected.values()), {True, False}, "the sample has both kinds")

    def test_compare_metrics_within_noise_are_the_same(self):
        b = self.browser
        runs = self.runs()
        self.go(f"/compare?runs={runs[5]['id']},{runs[0]['id']}")
        marked = b.texts("#compare-metrics th.differs")
        self.assertIn("silu_and_mul_avg_speedup", marked)
        self.assertIn("total_failed", marked, "counts are exact")
        self.assertNotIn("llama_mlp_avg_speedup", marked, "its intervals meet")

    def test_a_run_leaves_the_comparison(self):
        b = self.browser
        ids = [r["id"] for r in self.runs()[:3]]
        self.go(f"/compare?runs={','.join(ids)}")
        self.assertEqual(b.count("#compare-metrics thead th"), 4)
        self.again(lambda: b.click(".chips li:nth-child(2) button"))
        self.assertEqual(b.count("#compare-metrics thead th"), 3)
        self.assertEqual(urllib.parse.unquote(b.run("return location.hash")).split("runs=")[1], f"{ids[0]},{ids[2]}")

    def test_a_path_has_one_colour_on_every_page(self):
        b = self.browser
        colour = "const e = document.querySelector(arguments[0]); return e && getComputedStyle(e)[arguments[1]]"
        self.go("/model/llama-3.2-1b")
        seen = {b.run(colour, f'[data-chart="llama-3.2-1b-{chart}"] [data-mark=compiled]', "fill") for chart in ("ttft_ms", "tpot_ms", "compile_ms")}
        seen.add(b.run(colour, '[data-chart="llama-3.2-1b-ttft_ms-sweep"] g:last-of-type .dot', "fill"))
        self.go(f"/run/{self.runs('ttft')[1]['id']}")
        seen.add(b.run(colour, '[data-chart="llama-3.2-1b-compile_ms"] [data-mark=bar]', "fill"))
        self.assertEqual(len(seen), 1, seen)

    def test_compare_from_the_list(self):
        b = self.browser
        self.go("/runs")
        self.assertTrue(b.run("return [...document.querySelectorAll('button')].find(x => x.textContent === 'Compare').disabled"))
        b.click("#table-runs tr:nth-child(1) input")
        b.click("#table-runs tr:nth-child(2) input")
        self.again(lambda: b.run("[...document.querySelectorAll('button')].find(x => x.textContent === 'Compare 2').click()"))
        self.assertEqual(len(urllib.parse.unquote(b.run("return location.hash")).split("runs=")[1].split(",")), 2)

    # Controls

    def test_sorting_is_in_the_address(self):
        b = self.browser
        run = self.runs()[0]["id"]
        self.go(f"/run/{run}")
        column = "#table-results tbody tr td:nth-child(7)"
        values = lambda: [float(t.split("x")[0]) for t in b.texts(column) if "x" in t]
        b.click("#table-results th[data-key=speedup] button")
        self.assertEqual(values(), sorted(values(), reverse=True))
        self.assertEqual(b.texts(column)[-1], "–", "unknown values come last")
        b.click("#table-results th[data-key=speedup] button")
        self.assertEqual(values(), sorted(values()))
        self.assertEqual(b.texts(column)[-1], "–")
        self.assertEqual(b.run("return document.querySelector('#table-results th[data-key=speedup]').getAttribute('aria-sort')"), "ascending")
        self.go(b.run("return location.hash").lstrip("#"))
        self.assertEqual(values(), sorted(values()), "the link shows the same")

    def test_filtering_is_in_the_address(self):
        b = self.browser
        self.go(f"/run/{self.runs()[0]['id']}")
        b.type("input[aria-label='Filter Results']", "softmax prefill")
        self.assertEqual(b.count("#table-results tbody tr"), 6)
        self.go(b.run("return location.hash").lstrip("#"))
        self.assertEqual(b.count("#table-results tbody tr"), 6)
        b.type("input[aria-label='Filter Results']", " nothing-like-it")
        self.assertEqual(b.texts("#table-results tbody tr"), ["Nothing matches this filter."])

    def test_search_finds_and_opens(self):
        b = self.browser
        self.go("/")
        b.keys("/")
        b.keys("silu")
        b.wait("return document.querySelectorAll('#found a').length === 1")
        lines = "const r = document.createRange(); r.selectNodeContents(document.querySelector('#found a span:nth-child(2)')); return r.getClientRects().length"
        self.assertEqual(b.run(lines), 1, "a name stands in one line")
        self.shot("search")
        self.again(lambda: b.keys(ARROW_DOWN + ENTER))
        self.assertEqual(b.run("return location.hash"), "#/operator/silu_and_mul")

    def test_theme(self):
        b = self.browser
        self.go("/operator/rms_norm")
        ground = "return getComputedStyle(document.body).backgroundColor"
        seen = {b.run(ground)}
        for _ in range(2):
            b.click("#theme")
            seen.add(b.run(ground))
        self.assertEqual(len(seen), 2)
        self.assertEqual(b.run("return document.documentElement.dataset.theme"), "dark")
        self.shot("operator-dark")
        b.run("document.documentElement.dataset.theme = 'dark'")
        self.go("/")
        self.assertEqual(b.run("return document.documentElement.dataset.theme"), "dark", "the choice is kept")
        self.shot("overview-dark")
        b.click("#theme")

    def test_a_phone_can_read_it(self):
        b = self.browser
        size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
        b._call("POST", b.session + "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": size})
        try:
            for name, page in (("overview", "/"), ("operator", "/operator/rms_norm"), ("run", f"/run/{self.runs()[0]['id']}"), ("model", "/model/qwen3-0.6b"), ("runs", "/runs"), ("operators", "/operators"),
                               ("compare", f"/compare?runs={self.runs()[5]['id']},{self.runs()[0]['id']}")):
                self.go(page)
                time.sleep(0.2)
                self.assertLessEqual(b.run("return document.documentElement.scrollWidth"), 360, name)
                self.assertLessEqual(b.run("const t = document.querySelector('.tabs'); return t.scrollWidth - t.clientWidth"), 0, "every tab is seen")
                hidden = b.run("return [...document.querySelectorAll('main input, main select')].filter(e => !e.offsetWidth).map(e => e.outerHTML)")
                self.assertEqual(hidden, [], name)
                self.shot(f"phone-{name}")
        finally:
            b._call("POST", b.session + "/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})

    def test_skipping_the_bar_stays_on_the_page(self):
        b = self.browser
        self.go("/operator/rms_norm")
        b.run("document.querySelector('.skip').focus()")
        b.keys(ENTER)
        self.assertEqual(b.run("return document.activeElement.id"), "main")
        self.assertEqual(b.run("return location.hash"), "#/operator/rms_norm")
        self.assertEqual(b.texts("h1"), ["rms_norm"])

    def test_tabs_say_where_one_is(self):
        b = self.browser
        run = self.runs()[0]["id"]
        for page, tab in (("/", "Overview"), ("/runs", "Runs"), (f"/run/{run}", "Runs"), ("/operator/rms_norm", "Operators"), ("/model/qwen3-0.6b", "Models"), ("/compare", "Compare")):
            self.go(page)
            self.assertEqual(b.texts(".tabs [aria-current]"), [tab], page)

    def test_every_control_has_a_name(self):
        b = self.browser
        for page in ("/", "/operator/rms_norm", "/model/llama-3.2-1b", f"/run/{self.runs()[0]['id']}", "/compare"):
            self.go(page)
            nameless = b.run("""return [...document.querySelectorAll('a[href], button, input, select')]
                .filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.title) || e.tabIndex < 0)
                .map(e => e.outerHTML.slice(0, 80))""")
            self.assertEqual(nameless, [], page)

    @contextlib.contextmanager
    def other_server(self, name):
        """One with a separate history, for tests that change it."""
        database = os.path.join(self.folder.name, name)
        server = subprocess.Popen([PROGRAM, "dashboard", "--db", database, "--quiet", "--port", "0"], stdout=subprocess.PIPE, text=True)
        url = server.stdout.readline().strip()
        self.own.append(url)
        try:
            yield database, url
        finally:
            self.browser.open("about:blank")
            server.kill()
            server.wait()
            server.stdout.close()

    def test_notes_and_deletion(self):
        b = self.browser
        with self.other_server("acted.db") as (database, url):
            subprocess.run([MAKER, database, "2"], check=True)
            self.go("/", url)
            b.wait("return document.querySelectorAll('#table-runs tbody tr').length === 2")
            self.again(lambda: b.click("#table-runs tbody tr:first-child a"))
            press = "setTimeout(() => [...document.querySelectorAll('button')].find(x => x.textContent === arguments[0]).click(), 0)"
            b.run(press.replace("arguments[0]", "'Add note'"))
            b.wait("return document.activeElement?.getAttribute('aria-label') === 'Note on this run'")
            b.keys("<b>baseline</b> of the week")
            self.shot("note")
            b.run(press.replace("arguments[0]", "'Save note'"))
            b.wait("return document.querySelector('.note-text')?.textContent.includes('<b>baseline</b> of the week')")
            self.assertEqual(b.count(".note-form"), 0)
            b.run(press.replace("arguments[0]", "'Delete'"))
            b.accept_alert()
            b.wait("return location.hash === '#/' && document.querySelectorAll('#table-runs tbody tr').length === 1")

    def test_live_update(self):
        b = self.browser
        with self.other_server("live.db") as (database, url):
            self.go("/", url)
            self.assertIn("No runs yet", b.texts("h1"))
            self.shot("empty")
            subprocess.run([MAKER, database, "3"], check=True)
            b.wait("return document.querySelectorAll('#table-runs tbody tr').length === 3", seconds=30)
            b.click("#table-runs tbody tr:first-child input")
            subprocess.run([MAKER, database, "2"], check=True)
            b.wait("return document.querySelectorAll('#table-runs tbody tr').length === 5", seconds=30)
            self.assertEqual(b.count("#table-runs input:checked"), 1, "what was ticked stays ticked")

    def test_differences_are_right_and_shortest(self):
        """Of random texts: both sides can be reconstructed, and no shorter script exists (checked by dynamic programming)."""
        self.go("/")
        wrong = self.browser.run("""
            return import("/assets/diff.js").then(({diffLines}) => {
              let seed = 1;
              const random = (n) => (seed = (seed * 16807) % 2147483647) % n;
              const text = () => Array.from({length: random(14)}, () => "abc"[random(3)]);
              const wrong = [];
              for (let t = 0; t < 2000; t += 1) {
                const [a, b] = [text(), text()];
                const edits = diffLines(a, b);
                const left = edits.filter((e) => e.kind !== "come").map((e) => a[e.a]).join();
                const right = edits.filter((e) => e.kind !== "gone").map((e) => b[e.b]).join();
                const common = a.map(() => 0).concat(0).map(() => b.map(() => 0).concat(0));
                for (let i = a.length - 1; i >= 0; i -= 1)
                  for (let j = b.length - 1; j >= 0; j -= 1)
                    common[i][j] = a[i] === b[j] ? 1 + common[i + 1][j + 1] : Math.max(common[i + 1][j], common[i][j + 1]);
                const same = edits.filter((e) => e.kind === "same");
                if (left !== a.join() || right !== b.join() || same.length !== common[0][0] || same.some((e) => a[e.a] !== b[e.b]))
                  wrong.push([a.join(""), b.join("")]);
              }
              return wrong;
            })""")
        self.assertEqual(wrong, [])

    def test_colours_lose_no_character(self):
        self.go("/")
        tree = pathlib.Path(__file__).parents[2]
        sources = [p.read_text() for p in sorted(tree.glob("src/web/*.cpp")) + sorted(tree.glob("tasks/candidate/examples/*/*.cpp"))]
        sources += ["", "\n", '"open', "/* open", 'R"x(a)y" )x"', "'\\''", "#\n#", "1e+5f .5 0x1p3 a'b"]
        lost = self.browser.run("""
            return import("/assets/highlight.js").then(({colouredLines}) => arguments[0].filter((source) =>
              colouredLines(source).map((line) => line.map((p) => p[1]).join("")).join("\\n") !== source.replace(/\\n$/, "")))""", sources)
        self.assertEqual(lost, [])

    # What must not happen

    def test_names_that_are_markup_are_text(self):
        b = self.browser
        run = self.runs()[-1]
        self.assertTrue(run["name"].startswith("<script>"))
        for page in ("/", f"/run/{run['id']}", f"/compare?runs={run['id']},{self.runs()[0]['id']}", f"/operator/rms_norm?run={run['id']}", f"/report/{run['id']}"):
            self.go(page)
            self.assertEqual(b.run("return document.querySelectorAll('main script, main img, main b').length"), 0, page)
        self.go(f"/run/{run['id']}")
        self.assertIn("<script>alert('fk')</script>", b.texts("h1")[0])
        self.go(f"/run/{run['id']}?at={urllib.parse.quote('rms_norm|<b>model</b>/tp1/decode-8/layer')}")
        self.assertEqual(b.count('[data-chart$="-samples"] .dot.hollow'), 40, "pairs that were all left out are still drawn")
        b.run("document.querySelector('#artifacts td button').click()")
        b.wait("return document.querySelector('#artifacts .code')?.textContent.includes('</script><script>alert(4)')")
        self.shot("hostile")

    def test_unknown_places_say_so(self):
        b = self.browser
        for page, words in (("/nowhere", "No such page"), ("/run/none", "cannot be shown"), ("/operator/none", "not measured yet"), ("/model/%", "not timed yet"), ("/compare", "No runs chosen")):
            self.go(page)
            self.assertIn(words, b.run("return document.querySelector('main').textContent"), page)
        self.assertTrue(all("404" in m for m in b.console()))  # the browser's own note on a run that is not there

    # Files

    def test_offline_dashboard(self):
        b = self.browser
        path = os.path.join(self.folder.name, "offline.html")
        subprocess.run([PROGRAM, "dashboard", "--db", self.database, "--out", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        run = self.runs()[0]["id"]
        b.open("about:blank")
        b.requested()
        base = pathlib.Path(path).as_uri()
        for page, css, count in (("/", "#table-best tbody tr", 4), ("/operator/rms_norm", '[data-chart="rms_norm-heat"] [data-mark=cell]', 15),
                                 ("/model/llama-3.2-1b", '[data-chart="llama-3.2-1b-ttft_ms"] [data-mark=eager]', 8), (f"/run/{run}", "#table-results tbody tr", 60)):
            self.go(page, base)
            self.assertEqual(b.count(css), count, page)
        self.assertTrue(all(u.startswith(("file:", "data:", "about:", "chrome:")) for u in b.requested()))

    def test_report_and_its_charts(self):
        b = self.browser
        run = self.runs()[0]["id"]
        out = os.path.join(self.folder.name, "report.html")
        done = subprocess.run([PROGRAM, "report", "--db", self.database, "--run", run, "--out", out, "--svg", "--png", "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        files = [f["file"] for f in json.loads(done.stdout)]
        svgs = [f for f in files if f.endswith(".svg")]
        pngs = [f for f in files if f.endswith(".png")]
        self.assertEqual(len(svgs), 4 * 5, "four operators: heat map, roofline, errors, samples, pairs")
        self.assertEqual(len(pngs), len(svgs))
        for png in pngs:
            with open(png, "rb") as file:
                self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
            self.assertGreater(os.path.getsize(png), 2000)
        b.open(pathlib.Path(next(f for f in svgs if "roofline" in f)).as_uri())
        self.assertGreater(b.count("circle"), 20, "an SVG opens by itself")
        self.assertEqual(b.count("[class]"), 0)
        b.open(pathlib.Path(out).as_uri())
        b.wait(SHOWN)
        self.assertEqual(b.count(".chart"), len(svgs))
        self.assertEqual(b.count("main a[href^='#/operator']"), 0)
        self.shot("report")
        shutil.copy(next(f for f in pngs if "roofline" in f), os.path.join(SHOTS, "chart-roofline.png"))


class TenThousandRuns(unittest.TestCase):
    """The first page of a long history: load time in a fresh browser. Other processes only add to it, so a page that takes
    longer is tried again in another fresh browser."""

    def opened_ms(self, url):
        browser = Browser()
        try:
            took = {}
            for name, page, ready in (("overview", "#/", "#table-runs tbody tr"), ("all runs", "#/runs", "#table-runs tbody tr:nth-child(100)"),
                                      ("operator", "#/operator/rms_norm", "[data-chart=rms_norm-heat]")):
                browser.open("about:blank")
                browser.open(url + page)
                browser.wait("return document.querySelector(arguments[0]) !== null", ready)
                took[name] = browser.run("return new Promise(done => requestAnimationFrame(() => done(performance.now())))")
            return took
        finally:
            browser.close()

    def test_open_in_under_two_seconds(self):
        with tempfile.TemporaryDirectory() as folder:
            database = os.path.join(folder, "history.db")
            subprocess.run([MAKER, database, "10000"], check=True)
            server = subprocess.Popen([PROGRAM, "dashboard", "--db", database, "--quiet", "--port", "0"], stdout=subprocess.PIPE, text=True)
            url = server.stdout.readline().strip()
            try:
                best = {}
                for _ in range(8):
                    for name, ms in self.opened_ms(url).items():
                        best[name] = min(ms, best.get(name, ms))
                    print("ten thousand runs:", ", ".join(f"{name} {ms:.0f} ms" for name, ms in best.items()))
                    if max(best.values()) < 2000:
                        break
                for name, ms in best.items():
                    self.assertLess(ms, 2000, name)
            finally:
                server.kill()
                server.wait()
                server.stdout.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
