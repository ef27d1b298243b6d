"""e2e serve against a small server: what it counts, what it sends, and which failures it names.

  serve_client_test.py FASTKERNELS
"""
import asyncio
import csv
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(sys.path[0]))
import memory_folder  # noqa: F401
from stub_server import StubServer

PROGRAM = sys.argv.pop(1)


class ServeClient(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.stub = StubServer()
        self.port = await self.stub.start()
        self.home = tempfile.TemporaryDirectory()

    async def asyncTearDown(self):
        self.stub.server.close()
        self.home.cleanup()

    async def run_program(self, *words, port=None):
        env = dict(os.environ, FASTKERNELS_HOME=self.home.name, FASTKERNELS_CONFIG="", OPENAI_API_KEY="secret")
        env.pop("MLFLOW_TRACKING_URI", None)
        process = await asyncio.create_subprocess_exec(
            PROGRAM, *words, *(["--port", str(port or self.port)] if words[0] == "e2e" else []),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=env)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    async def loads(self, model, *words, prompts=8, expected=0):
        if "--random-output-len" not in words:
            words += ("--random-output-len", "4")
        code, out, err = await self.run_program("e2e", "serve", "--model", model, "--num-prompts", str(prompts),
                                                "--random-input-len", "5", "--json", *words)
        self.assertEqual(code, expected, err)
        return json.loads(out)["loads"]

    async def test_counts_what_the_server_says(self):
        for model in ["plain", "bytes", "closing"]:
            load, = await self.loads(model)
            self.assertEqual((load["completed"], load["failed"]), (8, 0), model)
            self.assertEqual(load["total_input_tokens"], 88)
            self.assertEqual(load["total_output_tokens"], 32)
            self.assertGreater(load["mean_ttft_ms"], 0)
            self.assertGreaterEqual(load["mean_e2el_ms"], load["mean_ttft_ms"])
            self.assertAlmostEqual(load["output_throughput"] * load["duration"], 32, places=6)
            self.assertEqual(len(load["percentiles"]["itl_ms"]), 101)
            self.assertNotIn("request_goodput", load)

    async def test_tokens_are_timed_when_they_come(self):
        # One after the other: the client would have to sleep through the pauses of all of them to see no gap.
        load, = await self.loads("slow", "--max-concurrency", "1", "--random-output-len", "2", prompts=3)
        self.assertGreater(load["mean_itl_ms"], 0)
        self.assertGreater(load["mean_e2el_ms"], load["mean_ttft_ms"])

    async def test_without_usage_texts_and_prompts_are_counted(self):
        load, = await self.loads("no-usage")
        self.assertEqual((load["total_input_tokens"], load["total_output_tokens"]), (40, 32))

    async def test_requests_are_what_was_asked_for(self):
        await self.loads("plain", "--ignore-eos", "--temperature", "0.5")
        body = self.stub.bodies[0]
        self.assertEqual(len(body["prompt"]), 5)
        self.assertEqual((body["max_tokens"], body["temperature"], body["ignore_eos"]), (4, 0.5, True))
        self.assertTrue(body["stream"] and body["stream_options"]["include_usage"])
        self.assertEqual(self.stub.headers[-1]["authorization"], "Bearer secret")

    async def test_concurrency_is_limited_and_swept(self):
        loads = await self.loads("plain", "--max-concurrency", "1", "3", prompts=12)
        self.assertEqual([l["max_concurrency"] for l in loads], [1, 3])
        self.assertEqual(loads[0]["max_concurrent_requests"], 1)
        self.assertLessEqual(self.stub.most, 3)
        # One more asks for the metrics of guessed tokens.
        self.assertLessEqual(self.stub.connections, 5, "connections are used again")

    async def test_rates_and_goodput(self):
        load, = await self.loads("plain", "--request-rate", "200", "--goodput", "e2el:100000", prompts=10)
        self.assertGreaterEqual(load["duration"], 10 / 200)
        self.assertAlmostEqual(load["request_goodput"], load["request_throughput"])

    async def test_failures_are_counted_and_named(self):
        for model, words in [("busy", "429: too many requests"), ("cut", "closed the connection"),
                             ("error-event", "the engine stopped")]:
            self.stub.bodies.clear()
            load, = await self.loads(model, "--max-concurrency", "1", expected=1)
            self.assertEqual((load["completed"], load["failed"]), (4, 4), model)
            self.assertEqual(len(load["failures"]), 1)
            self.assertIn(words, load["failures"][0]["sentence"])
            self.assertEqual(load["failures"][0]["requests"], 4)

    async def test_nothing_that_succeeds_is_a_failure(self):
        code, _, err = await self.run_program("e2e", "serve", "--model", "wrong", "--num-prompts", "2")
        self.assertEqual(code, 1)
        self.assertIn("None of the 2 requests succeeded: the server answered 400: this model is not served.", err)
        self.stub.server.close()
        await self.stub.server.wait_closed()
        code, _, err = await self.run_program("e2e", "serve")
        self.assertEqual(code, 1)
        self.assertIn("nothing listens on 127.0.0.1", err)

    async def test_the_model_is_asked_for_and_the_run_is_stored(self):
        code, out, err = await self.run_program("e2e", "serve", "--num-prompts", "3", "--random-output-len", "2")
        self.assertEqual(code, 0, err)
        self.assertIn("TTFT, time to first token", out)
        self.assertIn("plain at http://127.0.0.1", out)
        code, out, err = await self.run_program("history", "--tier", "e2e", "--json")
        run, = json.loads(out)
        self.assertEqual((run["name"], run["status"]), ("e2e serve plain", "finished"))
        for name in ["mean_ttft_ms", "output_throughput", "p99_itl_ms", "request_throughput"]:
            self.assertIn(name, run["metrics"])

    async def test_csv_and_bad_flags(self):
        code, out, err = await self.run_program("e2e", "serve", "--num-prompts", "2", "--output-len", "2", "--csv")
        self.assertEqual(code, 0, err)
        row, = csv.DictReader(io.StringIO(out))
        self.assertEqual((row["completed"], row["request_rate"]), ("2", "inf"))
        for words in [["--request-rate", "0"], ["--request-rate", "x"], ["--goodput", "ttft"], ["--burstiness", "0",
                      "--request-rate", "5"], ["--base-url", "https://x"], ["--dataset-name", "custom"],
                      ["--request-rate", "1", "2", "--max-concurrency", "1", "2"], ["--num-prompts", "0"]]:
            code, out, err = await self.run_program("e2e", "serve", *words)
            self.assertEqual((code, out), (2, ""), f"{words}: {err}")
            self.assertEqual(err.count("\n"), 1, err)


if __name__ == "__main__":
    unittest.main()
