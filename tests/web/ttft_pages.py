"""Pages of `ttft` runs in a browser: paths that failed, outputs, configurations of one model."""
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import tempfile

from dashboard_case import PROGRAM, SHOWN


class TtftPages:
    def test_ttft_run(self):
        b = self.browser
        run = self.runs("ttft")[1]
        self.go(f"/run/{run['id']}")
        self.assertEqual(self.marks("llama-3.2-1b-ttft_ms", "bar"), 6)
        self.assertEqual(self.marks("qwen3-0.6b-compile_ms", "bar"), 3)
        self.assertEqual(self.marks("llama-3.2-1b-ttft_ms-sweep", "point"), 3)
        self.assertEqual(b.texts(".key dt"), ["llama-3.2-1b, fastest", "qwen3-0.6b, fastest"], "not the figures of its last row")
        self.assertEqual(self.marks("llama-3.2-1b-phases", "phase"), 3 * 4, "three budgets; three phases, and the rest")
        self.assertEqual(b.count("#table-ttft tbody tr td span[title^='eager: ']"), 2 * 5, "outputs compared with eager")
        self.assertEqual(b.count("#table-ttft tbody tr td span.bad[title^='eager: ']"), 2, "those that differ")
        self.assertEqual(b.count("details.failure"), 0)
        heads = b.texts("#table-ttft thead th")
        self.assertTrue(any(t.startswith("Outputs") for t in heads), heads)
        self.assertFalse(any(t.startswith("Token by token") for t in heads), "no row has it")
        self.shot("run-ttft")

    def test_configurations_of_one_model_are_told_apart(self):
        b = self.browser
        with tempfile.TemporaryDirectory() as folder:
            database, suite, page = (os.path.join(folder, name) for name in ("history.db", "suite.yaml", "report.html"))
            with open(suite, "w", encoding="utf-8") as file:
                file.write("defaults: {load_format: dummy, iterations: 2, decode_tokens: 3, settle_seconds: 0, paths: [eager]}\n")
                file.write("configs: [{name: a/b, model: tiny-llama, prompt_tokens: 3}, {name: a b, model: tiny-llama, prompt_tokens: 9}]\n")
            subprocess.run([PROGRAM, "ttft", "--suite", suite, "--db", database, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            shown = subprocess.run([PROGRAM, "history", "show", "last", "--db", database], check=True, capture_output=True, text=True)
            self.assertRegex(shown.stdout, r"eager +tiny-llama +a/b")
            report = subprocess.run([PROGRAM, "report", "--db", database, "--out", page, "--svg", "--json"], check=True, capture_output=True, text=True)
            files = [f["file"] for f in json.loads(report.stdout)]
            b.open(pathlib.Path(page).as_uri())
            b.wait(SHOWN)
            self.assertEqual(b.texts(".key dt"), ["a/b, fastest", "a b, fastest"])
            self.assertEqual(b.texts("#table-ttft tbody td:nth-child(2)"), ["a/b", "a b"])
            self.assertEqual(len(set(files)), 1 + b.count(".chart"), "no chart overwrites another")

    def test_a_search_without_limit_stands_for_its_path(self):
        with tempfile.TemporaryDirectory() as folder:
            database, suite, page = (os.path.join(folder, name) for name in ("history.db", "suite.yaml", "all.html"))
            with open(suite, "w", encoding="utf-8") as file:
                file.write("configs: [{model: tiny-llama, load_format: dummy, settle_seconds: 0, generated_kernels: false}]\n")
            subprocess.run([PROGRAM, "ttft", "--suite", suite, "--db", database, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            with contextlib.closing(sqlite3.connect(database)) as history, history:
                history.execute("UPDATE ttft_results SET path = 'compiled', search_iters = 500, error = 'killed', ttft_ms = NULL WHERE path = 'eager'")
            subprocess.run([PROGRAM, "dashboard", "--db", database, "--out", page, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            self.go("/model/tiny-llama", pathlib.Path(page).as_uri())
            self.assertEqual(self.marks("tiny-llama-ttft_ms", "compiled"), 1)

    def test_a_failed_path_says_signal_stage_and_last_words(self):
        b = self.browser
        run = next(r for r in self.runs("ttft") if any(t["error"] for t in self.api(f"/api/run/{r['id']}")["ttft"]))
        for page in (f"/run/{run['id']}", f"/report/{run['id']}"):
            self.go(page)
            self.assertEqual(b.count("details.failure"), 2)
            self.assertEqual(b.count("#table-ttft tr.failed"), 2)
            b.run("document.querySelectorAll('details.failure').forEach((d) => d.open = true)")
            text = " ".join(b.texts("details.failure"))
            for words in ("SIGKILL", "loading the model", "2.1 GiB", "<b>not bold</b>"):
                self.assertIn(words, text, page)
            self.assertEqual(b.count("details.failure b"), 0, "last words are text")
        self.shot("run-ttft-failed")
