"""A small OpenAI server for tests: answers by what the name of the model asks for, one connection after the other."""
import asyncio
import json



def event(text=None, usage=None):
    body = {"choices": [] if text is None else [{"index": 0, "text": text}], "usage": usage}
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class StubServer:
    def __init__(self):
        self.bodies = []
        self.headers = []
        self.now = self.most = self.connections = 0

    async def start(self):
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def connected(self, reader, writer):
        self.connections += 1
        try:
            while await self.one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        writer.close()

    async def one(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head.split("\r\n")[1:])}
        self.headers.append(fields)
        if head.startswith("GET /v1/models"):
            return await self.reply(writer, 200, {"data": [{"id": "plain"}]})
        body = json.loads(await reader.readexactly(int(fields["content-length"])))
        self.bodies.append(body)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await self.answer(writer, body)
        finally:
            self.now -= 1

    async def reply(self, writer, status, body):
        data = json.dumps(body).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(data)))
        writer.write(data)
        await writer.drain()
        return True

    async def answer(self, writer, body):
        kind = body["model"]
        number = len(self.bodies)
        if kind == "busy" and number % 2 == 0:
            return await self.reply(writer, 429, {"error": {"message": "too many requests"}})
        if kind == "wrong":
            return await self.reply(writer, 400, {"error": {"message": "this model is not served"}})
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        n = body["max_tokens"]
        stream = [event("")] + [event("é%d" % i) for i in range(n)]
        if kind != "no-usage":
            stream.append(event(usage={"prompt_tokens": 11, "completion_tokens": n}))
        stream.append(b"data: [DONE]\n\n")
        if kind == "cut" and number % 2 == 0:
            writer.write(chunk(stream[1]))
            await writer.drain()
            return False
        if kind == "error-event" and number % 2 == 0:
            stream[2:] = [b'data: {"error": {"message": "the engine stopped"}}\n\n']
        if kind == "bytes":  # every byte a chunk of its own
            stream = [bytes([b]) for b in b"".join(stream)]
        for piece in stream:
            writer.write(chunk(piece))
            await writer.drain()
            if kind != "bytes":
                await asyncio.sleep(0.2 if kind == "slow" else 0)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return kind != "closing"
