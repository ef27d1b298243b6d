#!/usr/bin/env python3
"""Holds many streams open on a server for a while, and reports errors, memory growth and fairness.

  tools/bench/serve_soak.py http://127.0.0.1:8000 --streams 1000 --seconds 600 [--pid SERVER]

Every stream is a connection that asks for one completion after the other and reads it token by token. One in ten leaves
in the middle of an answer and connects again, as clients do. Needs nothing but Python. Exit 1: something went wrong.
"""
import argparse
import asyncio
import json
import random
import statistics
import time
import urllib.parse


class Load:
    def __init__(self, args):
        self.args = args
        url = urllib.parse.urlsplit(args.url)
        self.host, self.port = url.hostname, url.port
        self.end = time.monotonic() + args.seconds
        self.errors, self.first, self.gaps = [], [], []
        self.tokens = [0] * args.streams
        self.whole = self.left = 0
        self.texts = {}  # prompt -> text of a greedy answer: every one must be the same

    async def stream(self, i):
        rng = random.Random(i)
        await asyncio.sleep(rng.random() * min(10, self.args.seconds / 4))
        reader = writer = None
        while time.monotonic() < self.end:
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(self.host, self.port)
                leaves = i % 10 == 0 and rng.random() < 0.5
                if not await self.request(i, rng, reader, writer, leaves):
                    writer.close()
                    writer = None
            except (OSError, asyncio.IncompleteReadError, ValueError, KeyError) as error:
                self.errors.append(f"stream {i}: {error!r}")
                writer = None
                await asyncio.sleep(1)
        if writer is not None:
            writer.close()

    async def request(self, i, rng, reader, writer, leaves):
        prompt = f"Stream {rng.randrange(50)} says"
        body = json.dumps({"prompt": prompt, "max_tokens": self.args.tokens, "temperature": 0, "ignore_eos": True, "stream": True}).encode()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        begin = last = time.monotonic()
        status = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
        if status != b"200":
            raise ValueError(f"status {status.decode()}")
        text, count = "", 0
        while True:
            size = int(await reader.readline(), 16)
            data = (await reader.readexactly(size + 2))[:-2]
            if size == 0:
                break
            for event in data.decode().split("\n\n"):
                if not event or event == "data: [DONE]":
                    continue
                answer = json.loads(event[6:])
                if "error" in answer:
                    raise ValueError(answer["error"]["message"])
                now = time.monotonic()
                (self.gaps if count else self.first).append(now - last if count else now - begin)
                last = now
                count += 1
                text += answer["choices"][0]["text"]
                self.tokens[i] += 1
                if leaves and count == self.args.tokens // 2:
                    self.left += 1
                    return False
        if self.texts.setdefault(prompt, text) != text:
            raise ValueError(f"two answers to '{prompt}' differ")
        self.whole += 1
        return True


def memory_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


async def watch(load, pid, samples):
    while time.monotonic() < load.end:
        await asyncio.sleep(min(10, load.args.seconds / 10))
        if pid:
            samples.append(memory_mib(pid))
        print(f"{load.end - time.monotonic():6.0f} s left  {load.whole} answers  {sum(load.tokens)} tokens  {len(load.errors)} errors"
              + (f"  {samples[-1]:.0f} MiB" if pid else ""), flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--tokens", type=int, default=32, help="of one answer")
    parser.add_argument("--pid", type=int, help="the server's, to report its memory")
    load = Load(parser.parse_args())
    samples = []
    begin = time.monotonic()
    await asyncio.gather(watch(load, load.args.pid, samples), *(load.stream(i) for i in range(load.args.streams)))
    elapsed = time.monotonic() - begin

    def ms(values, q):
        return 1e3 * statistics.quantiles(values, n=100)[q - 1]
    print(f"{load.args.streams} streams, {elapsed:.0f} s: {load.whole} answers, {load.left} left in the middle, {len(load.errors)} errors")
    print(f"{sum(load.tokens) / elapsed:.0f} tokens/s; first token median {ms(load.first, 50):.0f} ms, 99 % {ms(load.first, 99):.0f} ms; "
          f"between tokens median {ms(load.gaps, 50):.0f} ms, 99 % {ms(load.gaps, 99):.0f} ms")
    steady = [t for i, t in enumerate(load.tokens) if i % 10]
    print(f"tokens of a stream: least {min(steady)}, median {statistics.median(steady):.0f}, most {max(steady)}")
    if samples:
        half = len(samples) // 2
        print(f"server's memory: {samples[0]:.0f} MiB at first, {samples[half]:.0f} MiB half way, {samples[-1]:.0f} MiB at the end")
    for error in load.errors[:5]:
        print(error)
    return 1 if load.errors or min(steady) == 0 else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
