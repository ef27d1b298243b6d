"""Pages of `ttft` runs in a browser: paths that failed, outputs, configurations of one model."""
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import tempfile

from dashboard_case import PROGRAM, SHOWN


def drawn_steps(result, phase):
    """What the plan of `phase` in a stored result has, where layers with the same steps count once: calls, kernels."""
    plan = result.get("plan") or next(c["plan"] for c in result["comparisons"] if c.get("plan"))
    steps = [p for p in plan["passes"] if p["pass"].startswith(phase)][-1]["steps"]
    kinds, layers = [], set()
    for layer, group in itertools.groupby(steps, lambda s: re.search(r"(^|\.)\d+(\.|$)", s["path"]) and re.search(r"\d+", s["path"])[0]):
        group = tuple((s["kind"], s["name"]) for s in group)
        if layer is None or group not in layers:
            kinds += [kind for kind, _ in group]
        if layer is not None:
            layers.add(group)
    return kinds.count("call"), kinds.count("region")


def with_a_kernel(result):
    plan = result["plan"]
    for step in (s for p in plan["passes"] for s in p["steps"] if s["name"] == "silu_and_mul"):
        step["kind"] = "region"
    timing = {"rows": 1, "calls_ns": 200, "kernel_ns": 100, "speedup": 2, "low": 1.9, "high": 2.1, "verdict": "FASTER"}
    plan["kernels"] = {"decode": [{"calls": "silu_and_mul", "places": 3, "chosen": True, "failure": "", "timings": [timing]}]}
    plan["whole_steps"] = {"prefill": {"left_to_tree": True}, "decode": {"left_to_tree": False}}
    return result


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

    def test_plans_are_drawn(self):
        """The steps of a plan and the time of its search: of a search, of one path, and of two that were compared."""
        b = self.browser
        model = ["--model", "tiny-qwen3", "--threads", "1", "--quiet"]
        one = ["--load-format", "dummy", "--decode-tokens", "6", "--no-floors", "--no-sequential"]
        with tempfile.TemporaryDirectory() as folder:
            database, page, cache = (os.path.join(folder, name) for name in ("history.db", "all.html", "cache"))
            kept = ["--db", database]
            commands = [["search", *model], ["search", *model, "--load-format", "dummy"],
                        ["ttft", *model, *one, "--path", "compiled", "--no-generated-kernels"],
                        ["ttft", *model, *one, "--path", "eager", "--path", "compiled", "--rounds", "3", "--iters", "2", "--search-cache", cache]]
            for command in commands:
                subprocess.run([PROGRAM, *command, *kept], check=True, stdout=subprocess.DEVNULL)
            subprocess.run([PROGRAM, "dashboard", *kept, "--out", page, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            listed = subprocess.run([PROGRAM, "history", *kept, "--json"], check=True, capture_output=True, text=True)
            runs = list(reversed(json.loads(listed.stdout)))
            self.assertEqual([r["tier"] for r in runs], ["search", "search", "ttft", "ttft"])
            for number, run in enumerate(runs):
                self.go(f"/run/{run['run_id']}", pathlib.Path(page).as_uri())
                self.assertIn("calls of a pass become" if run["tier"] == "search" else "planned in", b.texts("#plan p")[0] + b.texts("#plan p")[-1])
                # Which calls a search replaces by kernels depends on the machine.
                result = self.artifact(database, run["run_id"])
                for phase in ("decode", "prefill"):
                    calls, kernels = drawn_steps(result, phase)
                    self.assertEqual((self.marks(f"plan-{phase}", "call"), self.marks(f"plan-{phase}", "kernel")), (calls, kernels), number)
                    self.assertGreater(calls, 4, "the first and the last operators, and products")
                    self.assertLess(calls + kernels, 41, "layers are not repeated")
                self.assertGreaterEqual(self.marks("search-timeline", "phase"), 2, number)
                if number != 0:
                    self.assertEqual(b.count("[data-chart=plan-decode] .bar-value"), sum(drawn_steps(result, "decode")), "times of steps")
            self.go(f"/run/{runs[1]['run_id']}", pathlib.Path(page).as_uri())
            self.assertNotIn("No results", b.texts("body")[0], "a search has a plan instead")
            self.go(f"/report/{runs[1]['run_id']}", pathlib.Path(page).as_uri())
            self.assertGreater(self.marks("plan-decode", "call"), 4, "the report draws the plan, too")
            self.assertGreaterEqual(self.marks("search-timeline", "phase"), 2)
            self.go(f"/run/{runs[2]['run_id']}", pathlib.Path(page).as_uri())
            self.assertEqual(self.marks("plan-decode", "kernel"), 0, "without generated kernels")
            # Which kernels a search chooses depends on the machine: here the activation of every layer is one.
            self.change_artifact(database, "results/ttft.json", with_a_kernel)
            subprocess.run([PROGRAM, "dashboard", *kept, "--out", page, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            self.go(f"/run/{runs[2]['run_id']}", pathlib.Path(page).as_uri())
            self.assertIn(self.marks("plan-decode", "kernel"), (1, 2), "one a body")
            said = b.run("return document.querySelector('[data-chart=plan-decode] [data-mark=kernel]').getAttribute('aria-label')")
            for words in ("silu_and_mul", "a generated kernel", "replaces 1 call", "alone, 1 row", "2.000x"):
                self.assertIn(words, said)
            self.assertEqual(b.texts("#plan p.bad"), ["Left to the tree, because the plan is slower or was not timed well enough: prefill."])
            self.shot("run-plan")

    def artifact(self, database, run_id):
        """What a run stored as its result."""
        with contextlib.closing(sqlite3.connect(database)) as history:
            found = history.execute("SELECT sha256 FROM artifacts JOIN runs USING (run) WHERE run_id = ? AND path LIKE 'results/%.json'", (run_id,))
            return json.loads(self.stored(database, found.fetchone()[0]).read_text(encoding="utf-8"))

    def stored(self, database, sha):
        """Files of runs lie beside the history, by their hash."""
        return pathlib.Path(database).with_suffix(".artifacts") / sha[:2] / sha[2:]

    def change_artifact(self, database, path, change):
        """Replaces a file of a run by what change() makes of it."""
        with contextlib.closing(sqlite3.connect(database)) as history, history:
            (sha,) = history.execute("SELECT sha256 FROM artifacts WHERE path = ?", (path,)).fetchone()
            text = json.dumps(change(json.loads(self.stored(database, sha).read_text(encoding="utf-8"))))
            new = hashlib.sha256(text.encode()).hexdigest()
            self.stored(database, new).parent.mkdir(exist_ok=True)
            self.stored(database, new).write_text(text, encoding="utf-8")
            history.execute("UPDATE artifacts SET sha256 = ?, size_bytes = ? WHERE sha256 = ?", (new, len(text), sha))

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
