"""A soak test of `regard serve`: mixed requests, clients that leave, and hostile bodies, for minutes.

    python -m tests.service.api.soak --minutes 20

It prints a line per minute and ends with exit code 1 if a response was not expected, memory grew by 5 % or
more after the first minute, a sequence still runs, a file descriptor is left, or the full queue refused
nothing. Every request that is right may find the queue full, which has few places here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.service.api.conftest import KEY, Server, save_chat, serving

CLIENTS = 16
TEXTS = ["the cat sleeps", "The animal was too tired.", "She went to the bank.", "the small dog was old."]
GROWTH = 0.05  # of memory, after the first minute


ANSWERED = {200, 429}  # the queue may be full

# A route, a body and the statuses that are expected.
Question = tuple[str, dict, set[int]]


def translation(draw: random.Random, text: str) -> Question:
    if draw.random() < 0.5:
        return "/v1/translate", {"model": "demo", "text": text, "beams": draw.choice([1, 4, 5])}, ANSWERED
    many = [draw.choice(TEXTS) for _ in range(draw.randrange(1, 20))]
    return "/v1/translate", {"model": "demo", "text": many, "alignment": draw.random() < 0.2}, ANSWERED


def hostile(draw: random.Random, text: str) -> Question:
    body = {"model": draw.choice(["lm", "x"]), "prompt": "a" * draw.choice([1, 5000]), "n": 9}
    return "/v1/completions", body, {422}


def attention(draw: random.Random, text: str) -> Question:
    return "/v1/inspect", {"model": "demo", "text": text, "layer": 0, "head": 0}, ANSWERED


def sampled(draw: random.Random) -> dict:
    """How an answer is sampled."""
    counts = {"max_tokens": draw.randrange(1, 40), "n": draw.randrange(1, 9)}
    return counts | {"stream": draw.random() < 0.5, "seed": draw.randrange(1000)}


def completion(draw: random.Random, text: str) -> Question:
    return "/v1/completions", {"model": "lm", "prompt": text} | sampled(draw), ANSWERED


def conversation(draw: random.Random, text: str) -> Question:
    body = {"model": "chat", "messages": [{"role": "user", "content": text}]} | sampled(draw)
    return "/v1/chat/completions", body, ANSWERED


def reading(draw: random.Random, text: str) -> Question:
    masked = {"model": "fill", "text": f"{text} [MASK]", "top": draw.randrange(1, 20)}
    return draw.choice(
        [
            ("/v1/embeddings", {"model": "fill", "input": [text] * draw.randrange(1, 20)}, ANSWERED),
            ("/v1/fill", masked, ANSWERED),
            ("/v1/classify", {"model": "classify", "text": text}, ANSWERED),
        ]
    )


def crowd(draw: random.Random, text: str) -> Question:
    """More sequences than may wait, if others send as many."""
    body = {"model": "lm", "prompt": [text] * 128, "n": 8, "max_tokens": 1}
    return "/v1/completions", body, ANSWERED


KINDS = (translation, translation, hostile, attention, completion, completion, conversation, reading, crowd)


async def client(address: tuple[str, int], number: int, until: float, seen: Counter) -> None:
    """Send requests until the time is over; one in ten leaves before the answer."""
    draw = random.Random(number)
    while time.monotonic() < until:
        route, body, expected = draw.choice(KINDS)(draw, draw.choice(TEXTS))
        data = json.dumps(body).encode()
        head = f"POST {route} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
        head += f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(head.encode() + data)
            if draw.random() < 0.1:
                await asyncio.sleep(draw.random() * 0.05)
                seen["left"] += 1
                continue
            answer = await asyncio.wait_for(reader.read(), 90)
            status = int(answer.split(b" ", 2)[1]) if answer else 0
            is_whole = status != 200 or not body.get("stream") or b"[DONE]" in answer
            is_whole &= status != 429 or b"\r\nretry-after: 1\r\n" in answer
            known = "refused with 429" if status == 429 else "answered"
            seen[known if status in expected and is_whole else f"unexpected {route} {status}"] += 1
        except Exception as error:
            seen[f"unexpected {route} {type(error).__name__}"] += 1
        finally:
            writer.close()


def memory(server: Server) -> int:
    """The resident memory of the server in bytes."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def descriptors(server: Server) -> int:
    """The open file descriptors of the server."""
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


async def load(server: Server, seconds: float, seen: Counter) -> None:
    """All clients for a time."""
    address = ("127.0.0.1", int(server.address.rpartition(":")[2]))
    until = time.monotonic() + seconds
    await asyncio.gather(*(client(address, number, until, seen) for number in range(CLIENTS)))


def running_rows(server: Server) -> float:
    """The sequences that run or wait, of all models."""
    with server.client() as asking:
        lines = asking.get("/metrics").text.splitlines()
    names = ("regard_running_rows{", "regard_waiting_requests{")
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))


def save_reader(folder: Path, **changes: Any) -> Path:
    """Write a model that reads and knows nothing."""
    from regard.checkpoints.folder import save_model
    from regard.model.config import ModelConfig
    from regard.model.transformer import build_model
    from regard.text.tokenizer import Tokenizer, Tokenizers

    tokenizer = Tokenizer.train(TEXTS, vocabulary=300)
    sizes = dict(width=32, layers=2, heads=4, feed_forward_width=64, context=48)
    config = ModelConfig(family="encoder-only", vocabulary=tokenizer.vocabulary, **sizes, **changes)
    save_model(folder, build_model(config).eval(), Tokenizers.joint(tokenizer))
    return folder


@contextmanager
def served_models() -> Iterator[list[str]]:
    """Models of every kind."""
    with tempfile.TemporaryDirectory(prefix="regard-soak-") as name:
        folder = Path(name)
        own = [
            save_chat(folder / "chat"),
            save_reader(folder / "fill", output="masked"),
            save_reader(folder / "classify", output="classes", classes=3),
        ]
        yield ["demo", "lm=demo-language-model", *map(str, own)]


def soak(minutes: float) -> list[str]:
    """Run the test; the reasons why it failed."""
    seen: Counter[str] = Counter()
    options = ("--api-key", KEY, "--threads", "1", "--max-waiting", str(CLIENTS // 4))
    with served_models() as models, serving(*models, *options, log=Path("/dev/null")) as server:
        asyncio.run(load(server, min(60.0, minutes * 30), seen))
        first, opened = memory(server), descriptors(server)
        until = time.monotonic() + minutes * 60
        while time.monotonic() < until:
            asyncio.run(load(server, min(60.0, until - time.monotonic()), seen))
            print(
                f"{memory(server) / 1e6:.0f} MB, {descriptors(server)} descriptors, {dict(seen)}", flush=True
            )
        time.sleep(3)
        growth, left = memory(server) / first - 1, running_rows(server)
        failures = [f"{count} x {name}" for name, count in seen.items() if name.startswith("unexpected")]
        failures += [f"memory grew by {growth:.1%}"] if growth >= GROWTH else []
        failures += [f"{left:g} sequences still run"] if left else []
        failures += ["descriptors are left"] if descriptors(server) > opened + 2 else []
        failures += [] if seen["refused with 429"] else ["no request was refused with 429"]
    print(f"memory {growth:+.2%}, {opened} descriptors, {dict(seen)}")
    return failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    found = soak(parser.parse_args().minutes)
    print("failed: " + "; ".join(found) if found else "passed")
    sys.exit(bool(found))
