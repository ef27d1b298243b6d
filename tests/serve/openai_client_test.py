"""`fastkernels serve` with the real OpenAI client, Prometheus' own parser, signals and a browser.

openai_client_test.py FASTKERNELS SCREENSHOTS [TEST...]
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import openai
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "web"))
from webdriver import Browser  # noqa: E402

PROGRAM, SHOTS = map(os.path.abspath, sys.argv[1:3])


class Process:
    """A server of a tiny model with made-up weights."""

    def __init__(self, *flags, model="tiny-llama"):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--model", model, "--load-format", "dummy", "--port", "0", "--json", "--no-access-log", *flags],
            stdout=subprocess.PIPE, text=True)
        text = ""
        while not text.endswith("}\n"):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("the server ended before it was ready")
            text += line
        self.url = json.loads(text)["url"]

    def client(self, **options):
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=120, **options)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return answer.read().decode()

    def metrics(self):
        """Name and labels (without the model's) to value."""
        found = {}
        for family in text_string_to_metric_families(self.get("/metrics")):
            for sample in family.samples:
                labels = {k: v for k, v in sample.labels.items() if k != "model_name"}
                found[(sample.name, *sorted(labels.items()))] = sample.value
        return found

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=120)
        self.process.stdout.close()
        return code


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("nothing happened for a minute")
        time.sleep(0.02)


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Process("--dtype", "f32")  # whose greedy tokens do not depend on what else is in a step
        cls.client = cls.server.client()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        assert cls.server.end() == 0

    def complete(self, **fields):
        return self.client.completions.create(**{"model": "tiny-llama", "prompt": "Hello", "max_tokens": 8, "temperature": 0, **fields})

    def chat(self, **fields):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why is the sky blue?"}]
        return self.client.chat.completions.create(**{"model": "tiny-llama", "messages": messages, "max_tokens": 8, "temperature": 0, **fields})

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["tiny-llama"])
        self.assertEqual(self.client.models.retrieve("tiny-llama").id, "tiny-llama")

    def test_completion_whole_and_streamed_are_equal(self):
        whole = self.complete(extra_body={"ignore_eos": True})
        self.assertEqual(whole.choices[0].finish_reason, "length")
        self.assertEqual((whole.usage.prompt_tokens, whole.usage.completion_tokens), (5, 8))
        text, usage = "", None
        for event in self.complete(stream=True, stream_options={"include_usage": True}, extra_body={"ignore_eos": True}):
            text += "".join(c.text for c in event.choices)
            usage = event.usage or usage
        self.assertEqual(text, whole.choices[0].text)
        self.assertEqual(usage.completion_tokens, 8)

    def test_chat_whole_and_streamed_are_equal(self):
        whole = self.chat(extra_body={"ignore_eos": True})
        self.assertEqual(whole.choices[0].message.role, "assistant")
        events = list(self.chat(stream=True, extra_body={"ignore_eos": True}))
        self.assertEqual(events[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(e.choices[0].delta.content or "" for e in events), whole.choices[0].message.content)
        self.assertEqual(events[-1].choices[0].finish_reason, "length")

    def test_several_prompts_and_outputs(self):
        answer = self.complete(prompt=["Hello", "World"], n=2, temperature=1, seed=3)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2, 3])
        again = self.complete(prompt=["Hello", "World"], n=2, temperature=1, seed=3)
        self.assertEqual([c.text for c in answer.choices], [c.text for c in again.choices])
        self.assertNotEqual(answer.choices[0].text, answer.choices[1].text)

    def test_token_ids_are_prompts(self):
        text = self.complete().choices[0].text
        self.assertEqual(self.complete(prompt=list(b"Hello")).choices[0].text, text)
        self.assertEqual([c.text for c in self.complete(prompt=[list(b"Hello")]).choices], [text])

    def test_logprobs(self):
        found = self.complete(logprobs=3).choices[0].logprobs
        for token, value, top in zip(found.tokens, found.token_logprobs, found.top_logprobs, strict=True):
            self.assertEqual(len(top), 3)
            self.assertAlmostEqual(top[token], max(top.values()), msg="greedy takes the likeliest")
            self.assertAlmostEqual(value, top[token])
        content = self.chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
        self.assertEqual(len(content[0].top_logprobs), 2)
        self.assertEqual(content[0].token, content[0].top_logprobs[0].token)
        self.assertEqual(bytes(content[0].bytes).decode(), content[0].token)

    def test_logprobs_of_the_prompt(self):
        drawn = self.complete(max_tokens=12, logprobs=0, extra_body={"ignore_eos": True, "return_tokens_as_token_ids": True}).choices[0].logprobs
        ids = list(b"Hello") + [int(name.removeprefix("token_id:")) for name in drawn.tokens]
        # Twice: what the first left in the prefix cache must not hide anything.
        for _ in range(2):
            whole = self.complete(prompt=[ids, ids[:7]], max_tokens=0, echo=True, logprobs=2)
            self.assertEqual(whole.usage.completion_tokens, 0)
            found = whole.choices[0].logprobs
            self.assertEqual(len(found.tokens), len(ids))
            self.assertIsNone(found.token_logprobs[0])
            self.assertIsNone(found.top_logprobs[0])
            for given, value in zip(drawn.token_logprobs, found.token_logprobs[5:], strict=True):
                self.assertAlmostEqual(given, value, places=3)
            for a, b in zip(found.token_logprobs[1:7], whole.choices[1].logprobs.token_logprobs[1:], strict=True):
                self.assertAlmostEqual(a, b, places=3)
        # As lm-eval-harness asks: one token more, whose log-probability is dropped.
        again = self.complete(prompt=[ids], max_tokens=1, echo=True, logprobs=1).choices[0].logprobs
        self.assertAlmostEqual(sum(again.token_logprobs[5:-1]), sum(drawn.token_logprobs), places=2)
        for name, top in zip(again.tokens[5:-1], again.top_logprobs[5:-1], strict=True):
            self.assertEqual(name, max(top, key=top.get), "greedy tokens are the likeliest")
        streamed = [value for event in self.complete(prompt=ids, max_tokens=3, echo=True, logprobs=0, stream=True, extra_body={"ignore_eos": True})
                    for value in event.choices[0].logprobs.token_logprobs]
        self.assertEqual(len(streamed), len(ids) + 3)
        for a, b in zip(streamed[1:len(ids)], again.token_logprobs[1:-1], strict=True):
            self.assertAlmostEqual(a, b, places=3)
        extra = self.complete(prompt=ids, max_tokens=1, extra_body={"prompt_logprobs": 1}).choices[0].prompt_logprobs
        self.assertEqual(len(extra), len(ids))
        self.assertEqual(extra[-1][str(ids[-1])]["rank"], 1)

    def test_stop(self):
        text = self.complete(max_tokens=16, extra_body={"ignore_eos": True}).choices[0].text
        middle = text[len(text) // 2:][:3]
        stopped = self.complete(max_tokens=16, stop=[middle], extra_body={"ignore_eos": True}).choices[0]
        self.assertEqual(stopped.text, text[:text.index(middle)])
        self.assertEqual(stopped.finish_reason, "stop")
        streamed = "".join(e.choices[0].text for e in self.complete(max_tokens=16, stop=middle, stream=True, extra_body={"ignore_eos": True}))
        self.assertEqual(streamed, stopped.text)

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError) as missing:
            self.complete(model="gpt-4")
        self.assertEqual(missing.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as wrong:
            self.complete(temperature=-1)
        self.assertEqual(wrong.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as long:
            self.complete(max_tokens=10**9)
        self.assertEqual(long.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model="tiny-llama", input="Hello")

    def test_a_client_that_leaves_cancels(self):
        before = self.server.metrics()[("vllm:request_success_total", ("finished_reason", "abort"))]
        stream = self.complete(stream=True, max_tokens=400, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        until(lambda: self.server.metrics()[("vllm:request_success_total", ("finished_reason", "abort"))] > before)
        until(lambda: self.server.metrics()[("vllm:num_requests_running",)] == 0)

    def test_many_streams_at_once_equal_one_alone(self):
        alone = self.complete(max_tokens=12, extra_body={"ignore_eos": True}).choices[0].text
        texts = {}

        def run(i):
            texts[i] = "".join(e.choices[0].text for e in self.complete(max_tokens=12, stream=True, extra_body={"ignore_eos": True}))
        threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(list(texts.values()), [alone] * 8)

    def test_metrics(self):
        until(lambda: self.server.metrics()[("vllm:num_requests_running",)] == 0)
        before = self.server.metrics()
        self.complete(extra_body={"ignore_eos": True})
        # The engine counts a step after it has handed out its tokens.
        until(lambda: self.server.metrics()[("vllm:generation_tokens_total",)] >= before[("vllm:generation_tokens_total",)] + 8)
        after = self.server.metrics()
        for name, more in (("vllm:prompt_tokens_total", 5), ("vllm:generation_tokens_total", 8), ("vllm:time_to_first_token_seconds_count", 1),
                           ("vllm:inter_token_latency_seconds_count", 7), ("vllm:e2e_request_latency_seconds_count", 1)):
            self.assertEqual(after[(name,)] - before[(name,)], more, name)
        self.assertLessEqual(after[("vllm:kv_cache_usage_perc",)], 1)

    def test_live_page(self):
        for program in ("chromium", "chromedriver"):
            if not shutil.which(program):
                raise AssertionError(f"{program} is missing; run tools/install_deps.sh test")
        os.makedirs(SHOTS, exist_ok=True)
        with contextlib.closing(Browser()) as browser:
            browser.open(self.server.url)
            browser.wait("return document.querySelector('main').dataset.samples > 0", seconds=60)
            for _ in range(2):
                self.complete(max_tokens=60, extra_body={"ignore_eos": True})
            browser.wait("return document.querySelector('#chart-itl .line-0').getAttribute('d').includes('h1')", seconds=60)
            self.assertEqual(browser.texts("h1"), ["tiny-llama"])
            self.assertRegex(browser.texts("#state")[0], r"\d+ requests ended, \d+ tokens generated")
            self.assertEqual(browser.count("svg path"), 11)
            browser.screenshot(os.path.join(SHOTS, "serve.png"))
            self.assertEqual(browser.console(), [])
            own = (self.server.url, "data:", "about:", "chrome:")
            self.assertEqual([u for u in browser.requested() if not u.startswith(own)], [])


class Faults(unittest.TestCase):
    def test_key(self):
        server = Process("--api-key", "secret")
        with self.assertRaises(openai.AuthenticationError):
            server.client().models.list()
        good = openai.OpenAI(base_url=server.url + "/v1", api_key="secret", max_retries=0)
        self.assertEqual(len(list(good.models.list())), 1)
        self.assertEqual(server.end(), 0)

    def test_full_queue(self):
        server = Process("--max-num-seqs", "1", "--max-waiting", "1")
        client = server.client()
        fields = {"model": "tiny-llama", "prompt": "a", "max_tokens": 400, "stream": True, "extra_body": {"ignore_eos": True}}
        running = client.completions.create(**fields)
        next(iter(running))
        waiting = client.completions.create(**fields)
        with self.assertRaises(openai.RateLimitError) as refused:
            while True:  # the second one may start before the third arrives
                client.completions.create(**fields)
        self.assertEqual(refused.exception.response.headers["retry-after"], "1")
        for stream in (running, waiting):
            stream.close()
        self.assertEqual(server.end(), 0)

    def test_sigterm_finishes_what_runs(self):
        server = Process()
        stream = iter(server.client().completions.create(model="tiny-llama", prompt="a", max_tokens=300, stream=True, extra_body={"ignore_eos": True}))
        texts = [next(stream).choices[0].text]
        server.process.send_signal(signal.SIGTERM)
        texts += [event.choices[0].text for event in stream]
        self.assertGreater(len("".join(texts)), 300)
        self.assertEqual(server.process.wait(timeout=120), 0)
        server.process.stdout.close()

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            ended = subprocess.run([PROGRAM, "serve", "--model", "tiny-llama", "--load-format", "dummy", "--port", port], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"Port {port} of 127.0.0.1 is in use; give another --port.", ended.stderr)

    def test_embeddings(self):
        server = Process(model="tiny-xlm-roberta")
        client = server.client()
        data = client.embeddings.create(model="tiny-xlm-roberta", input=["One text", "Another"]).data
        self.assertEqual([d.index for d in data], [0, 1])
        self.assertAlmostEqual(sum(x * x for x in data[0].embedding), 1, places=3)
        plain = client.embeddings.create(model="tiny-xlm-roberta", input="One text", encoding_format="float").data[0].embedding
        for a, b in zip(plain, data[0].embedding, strict=True):
            self.assertAlmostEqual(a, b, places=3)
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
