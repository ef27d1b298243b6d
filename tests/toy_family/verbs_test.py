"""The verbs of fastkernels on a family from outside src/ (toy_family.cpp), which has a recurrent state and int4 weights.

  verbs_test.py FASTKERNELS_TOY FASTKERNELS_TOY_RUNNER
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import memory_folder  # noqa: F401

PROGRAM, RUNNER = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]

CONFIG = {"architectures": ["ToyMemoryLM"], "model_type": "toy", "vocab_size": 97, "hidden_size": 64,
          "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 1, "max_position_embeddings": 128,
          "decay": 0.75, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}
# All end with the same token: what is said next depends on those before it.
PROMPTS = ["5,90,3,17,41", "60,2,41", "7,7,7,7,7,7,7,12,41"]


class ToyFamily(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.model, self.candidates = self.root / "toy", self.root / "candidate"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps(CONFIG))

    def tearDown(self):
        self.folder.cleanup()

    def run_program(self, *words, expected=0):
        env = dict(os.environ, FASTKERNELS_HOME=str(self.root / "home"), FASTKERNELS_CONFIG="",
                   FASTKERNELS_CANDIDATE_DIR=str(self.candidates), FASTKERNELS_RUNNER=RUNNER)
        env.pop("MLFLOW_TRACKING_URI", None)
        done = subprocess.run([PROGRAM, *words, "--device", "cpu", "--json"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, expected, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def run_model(self, verb, *words):
        return self.run_program(verb, "--model", str(self.model), "--load-format", "dummy", *words)

    def generate(self, *prompts, tokens=12):
        return self.run_model("generate", "--prompt-token-ids", *prompts, "--max-tokens", str(tokens), "--ignore-eos",
                              "--logprobs", "1")

    def logprobs(self, result):
        return [place["logprob"] for place in result["logprobs"]]

    def capture(self):
        file = self.root / "run.yaml"
        report = self.run_model("capture", "--prompt-tokens", "9", "5", "--decode-tokens", "3", "--out", str(file))
        self.assertEqual(report["unmatched"], [])
        return {row["operator"]: row for row in report["operators"]}, file

    def check(self, scenarios, *words, expected=0):
        """The rows of `kernels --check` of the toy's own kernel."""
        return self.run_program("kernels", "--check", "--target", "toy_memory", "--scenarios", str(scenarios), *words,
                                expected=expected)["results"]

    def ran(self, result, operator):
        """Calls of an operator by implementation."""
        return {d["implementation"]: d["calls"] for d in result["dispatches"] if d["operator"] == operator and d["calls"]}

    def test_generate(self):
        alone = [self.generate(prompt) for prompt in PROMPTS]
        for prompt, first in zip(PROMPTS, alone):
            self.assertEqual(len(first["token_ids"]), 12)
            self.assertTrue(all(0 <= token < 97 for token in first["token_ids"]))
            again = self.generate(prompt)
            self.assertEqual((again["token_ids"], again["logprobs"]), (first["token_ids"], first["logprobs"]))
        self.assertEqual(list(self.ran(alone[0], "toy_memory")), ["cpu.toy"])
        self.assertTrue(self.ran(alone[0], "int4_linear"))
        self.assertFalse({"oracle"} & set(self.ran(alone[0], "int4_linear")))
        self.assertEqual(len({one["token_ids"][0] for one in alone}), 3, "earlier tokens change nothing")
        # What each of them is alone, in one batch, but for the order of sums.
        for one, other in zip(alone, self.generate(*PROMPTS)["results"]):
            self.assertEqual(other["token_ids"], one["token_ids"])
            for a, b in zip(self.logprobs(other), self.logprobs(one)):
                self.assertAlmostEqual(a, b, places=2)
        # A prompt that has the first generated tokens goes on as the text did: prefill and decoding keep one state.
        said = alone[0]["token_ids"]
        longer = PROMPTS[0] + "".join(f",{token}" for token in said[:4])
        self.assertEqual(self.generate(longer, tokens=8)["token_ids"], said[4:])

    def test_ttft(self):
        result = self.run_model("ttft", "--prompt-tokens", "16", "--decode-tokens", "4", "--iters", "2", "--no-floors",
                                "--no-history")
        row, = result["results"]
        self.assertEqual((row["prompt_tokens"], row["decode_tokens"]), (16, 4))
        for time in ["ttft_prefill_ms", "ttft_sequential_ms", "tpot_ms"]:
            self.assertGreater(row[time], 0, time)
        self.assertEqual(len(result["samples"]["prefill"]["samples_ms"]), 2)
        self.assertGreater(self.ran(result, "toy_memory")["cpu.toy"], 0)

    def test_capture(self):
        operators, file = self.capture()
        # Two layers; one pass over the prompts and three steps.
        self.assertEqual(operators["toy_memory"]["calls"], 8)
        self.assertEqual(operators["int4_linear"]["calls"], 8)
        self.assertEqual(operators["toy_memory_lm"]["calls"], 4)
        text = file.read_text()
        self.assertIn("\ntoy_memory:\n", "\n" + text)
        self.assertIn("decay: 0.75", text)
        self.assertIn("int4_gptq_g32", text)

    def test_kernels(self):
        _, scenarios = self.capture()
        without = self.generate(PROMPTS[0])
        stub, = self.run_program("create-stubs", "--target", "toy_memory")
        source = pathlib.Path(stub["path"])
        for words in [[], ["--self-test"]]:  # the stub, and the baseline
            rows = self.check(scenarios, *words)
            self.assertGreaterEqual(len(rows), 2)  # of the prompts, and of a step
            self.assertEqual({row["verdict"] for row in rows}, {"PASSED"}, rows)
        with_stub = self.generate(PROMPTS[0])
        self.assertEqual(list(self.ran(with_stub, "toy_memory")), ["candidate"])
        self.assertEqual(with_stub["token_ids"], without["token_ids"])
        # What a call leaves for the next one is judged, too.
        text = source.read_text()
        self.assertIn("ctx.reference();", text)
        source.write_text(text.replace("ctx.reference();", "ctx.reference();\n    if (state_slots.ptr<int32_t>()[0] >= 0) "
                                       "memory.row<float>(state_slots.ptr<int32_t>()[0])[0] += 1;"))
        for row in self.check(scenarios, expected=1):
            self.assertEqual(row["verdict"], "INCORRECT_STATE", row)
            self.assertEqual(row["mismatch"]["output"], "'memory'")


if __name__ == "__main__":
    unittest.main()
