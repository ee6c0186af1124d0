"""`regard bench serve`: requests per second and latencies of `regard serve` beside those of other servers.

All servers have random weights of the same shape, read 20 tokens and write 24. Each is a process of its own,
stopped while others are measured. Ours and those of CTranslate2 are measured in float32 and in int8, and the
best ones are compared. The clients are coroutines of this process with one connection each. In the same turns
the Translator is called without a server, with as many texts at a time as there are clients. The case
first-token measures the time until the first token of a streamed completion.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.background import module_command
from regard.bench.decode import SHAPES, installed_peers
from regard.bench.folders import Shape, random_model, write_all
from regard.bench.interleaved import OURS
from regard.checkpoints.folder import save_quantized
from regard.errors import RegardError
from regard.registry import Registry

INPUT, OUTPUT = 20, 24  # tokens
REQUESTS = {"demo": 256, "marian": 64}  # of a round, of all clients together
FIRST_TOKENS = 32  # requests of a round
CLIENTS = (1, 8, 32)
COMPUTES = ("float32", "int8")  # the weights of our servers
PATIENCE = 180.0

FIRST_TOKEN = "first-token"

CASES: Registry[tuple[str, int]] = Registry(
    "case",
    {f"{shape}-{clients}": (shape, clients) for shape in REQUESTS for clients in CLIENTS}
    | {FIRST_TOKEN: ("writer", 1)},
)


@dataclass(eq=False)
class Server:
    """A server process; `address` is its host and port, `body` is the request that carries a text."""

    name: str
    command: list[str]
    body: Callable[[str], dict[str, Any]]
    port: int
    route: str = "/v1/translate"
    read: Callable[[asyncio.StreamReader], Awaitable[float]] = field(default_factory=lambda: read_response)
    latencies: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"},
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until its model is loaded."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self._process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise RegardError(f"the server of {self.name} did not start; try its library alone")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the process run; it is stopped otherwise."""
        self._process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def measure(self, texts: list[str], clients: int) -> None:
        """Send all texts from so many clients, and keep the times."""
        with self.running():
            begun = time.perf_counter()
            self.latencies += asyncio.run(self._send(texts, clients))
            self.seconds.append(time.perf_counter() - begun)

    async def _send(self, texts: list[str], clients: int) -> list[float]:
        waiting = iter(texts)
        measured = await asyncio.gather(*(self._client(waiting) for _ in range(clients)))
        return [seconds for latencies in measured for seconds in latencies]

    async def _client(self, texts: Iterator[str]) -> list[float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        latencies = []
        for text in texts:
            begun = time.perf_counter()
            writer.write(request_bytes(self.route, self.body(text)))
            latencies.append(await self.read(reader) - begun)
        writer.close()
        await writer.wait_closed()
        return latencies


@dataclass(eq=False)
class Direct:
    """The Translator of a folder, called in this process."""

    folder: Path
    threads: int
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        from regard.inference.loading import load

        self._translator: Any = load(self.folder, threads=self.threads)

    def measure(self, texts: list[str], clients: int) -> None:
        """Translate all texts, so many at a time, and keep the time."""
        begun = time.perf_counter()
        for first in range(0, len(texts), clients):
            self._translator.translate(
                texts[first : first + clients], beams=1, min_length=OUTPUT, max_length=OUTPUT
            )
        self.seconds.append(time.perf_counter() - begun)


def request_bytes(route: str, body: dict[str, Any]) -> bytes:
    """A request of a route."""
    data = json.dumps(body).encode()
    head = f"POST {route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def read_response(reader: asyncio.StreamReader) -> float:
    """The time when a response has come; raise if it is an error."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    lines = head.split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
    check_status(head, await reader.readexactly(length))
    return time.perf_counter()


async def read_first_event(reader: asyncio.StreamReader) -> float:
    """The time when the first event of a stream has come; the stream is read to its end."""
    check_status((await reader.readuntil(b"\r\n\r\n")).decode())
    await reader.readuntil(b"\n\n")
    came = time.perf_counter()
    await reader.readuntil(b"\r\n0\r\n\r\n")
    return came


def check_status(head: str, body: bytes = b"") -> None:
    """Raise for a response that is an error."""
    if " 200 " not in head.split("\r\n", 1)[0]:
        raise RegardError(f"a server refused a request: {body[:200].decode()}")


def run_case(name: str, rounds: int, threads: int, folder: Path) -> dict[str, Any]:
    """Measure all servers of a case in turns; the outcome as JSON values."""
    shape_name, clients = CASES.find(name)
    if name == FIRST_TOKEN:
        return first_token(rounds, threads, folder)
    shape = next(shape for shape in shapes() if shape.name == shape_name)
    with ExitStack() as stack:
        servers = list(_servers(shape, folder, threads))
        for server in servers:
            stack.callback(server.close)
        for server in servers:
            server.wait()
        direct = {title(compute): Direct(_served(shape, folder, compute), threads) for compute in COMPUTES}
        measured: list[Server | Direct] = [*servers, *direct.values()]
        for each in measured:
            each.measure(texts_of(shape, 2 * clients, 0), clients)  # warm-up
        for each in measured:
            each.seconds.clear()
        for server in servers:
            server.latencies.clear()
        for number in range(rounds):
            texts = texts_of(shape, REQUESTS[shape_name], number)
            for each in measured[number % len(measured) :] + measured[: number % len(measured)]:
                each.measure(texts, clients)
    ours = best(servers)
    overhead = round(1 / _ratio(ours, direct[ours.name]) - 1, 3)
    return outcome(name, servers, REQUESTS[shape_name]) | {"overhead": overhead}


def first_token(rounds: int, threads: int, folder: Path) -> dict[str, Any]:
    """The time until the first token of a streamed completion, with one client."""
    from regard.model.config import ModelConfig

    sizes: dict[str, Any] = dict(
        vocabulary=1000, width=128, layers=4, heads=4, feed_forward_width=512, context=512
    )
    shape = Shape("writer", "gpt2", ModelConfig(family="decoder-only", dropout=0.0, **sizes))
    served = folder / "writer-served"
    if not served.exists():
        write_served(shape, served)
    settings = {"model": shape.name, "stream": True, "max_tokens": OUTPUT, "min_tokens": OUTPUT}
    server = _own_server(OURS, shape, served, threads)
    server.route, server.read = "/v1/completions", read_first_event
    server.body = lambda text: {**settings, "prompt": text}
    with ExitStack() as stack:
        stack.callback(server.close)
        server.wait()
        server.measure(texts_of(shape, 4, 0), 1)  # warm-up
        server.latencies.clear()
        for number in range(rounds):
            server.measure(texts_of(shape, FIRST_TOKENS, number), 1)
    shares = percentiles(server.latencies)
    return {
        "case": FIRST_TOKEN, "unit": "ms", OURS: shares["p50"], "peers": {}, "ratio": None,
        "latency_ms": {OURS: shares},
    }  # fmt: skip


def shapes() -> list[Shape]:
    """The shape of the demo's model, and that of Marian."""
    from regard.bench.decode import _MARIAN
    from regard.model.config import ModelConfig

    demo = ModelConfig(
        vocabulary=1000, width=128, layers=4, decoder_layers=1, heads=4, feed_forward_width=512, **_MARIAN
    )
    return [Shape("demo", "marian", demo), *(shape for shape in SHAPES if shape.name == "marian")]


def texts_of(shape: Shape, count: int, seed: int) -> list[str]:
    """Texts whose words are ids."""
    draw = random.Random(seed)
    last = shape.config.vocabulary - 10
    return [" ".join(str(draw.randrange(10, last)) for _ in range(INPUT)) for _ in range(count)]


def outcome(name: str, servers: list[Server], requests: int) -> dict[str, Any]:
    """Requests per second of our best server, percentiles of latency in ms, and its ratio to each peer."""
    ours = best(servers)
    speeds = {server.name: requests / statistics.median(server.seconds) for server in servers}
    peers = [server for server in servers if not is_ours(server)]
    ratios = {peer.name: _ratio(ours, peer) for peer in peers}
    libraries: dict[str, float] = {}
    for peer in peers:
        library = peer.name.split(" ")[0]
        libraries[library] = max(libraries.get(library, 0.0), round(speeds[peer.name], 1))
    return {
        "case": name, "unit": "requests/s", OURS: round(speeds[ours.name], 1), "best": ours.name,
        "peers": libraries, "ratio": min(ratios.values(), default=None), "ratios": ratios,
        "speeds": {name: round(speed, 1) for name, speed in speeds.items()},
        "latency_ms": {server.name: percentiles(server.latencies) for server in servers},
    }  # fmt: skip


def title(compute: str) -> str:
    """The name of our server with these weights."""
    return f"{OURS} ({compute})"


def is_ours(server: Server) -> bool:
    """Whether a server is one of ours."""
    return server.name.startswith(OURS)


def best(servers: list[Server]) -> Server:
    """Our server that takes the least time."""
    return min(filter(is_ours, servers), key=lambda server: statistics.median(server.seconds))


def _ratio(ours: Server, peer: Server | Direct) -> float:
    pairs = zip(ours.seconds, peer.seconds, strict=True)
    return round(statistics.median(theirs / own for own, theirs in pairs), 3)


def percentiles(latencies: list[float]) -> dict[str, float]:
    """p50, p95 and p99 in milliseconds."""
    cuts = statistics.quantiles(latencies, n=100)
    return {f"p{share}": round(1000 * cuts[share - 1], 2) for share in (50, 95, 99)}


def _servers(shape: Shape, folder: Path, threads: int) -> Iterator[Server]:
    """The servers of all libraries, in each of their settings."""
    settings = {
        "transformers": [("float32", 1, threads)],
        "ctranslate2": [("float32", 1, threads), ("int8", threads, 1)],
    }
    peers = [library for library in installed_peers() if library in settings]
    if not _served(shape, folder, "float32").exists():
        write_served(shape, _served(shape, folder, "float32"))
        save_quantized(_served(shape, folder, "float32"), _served(shape, folder, "int8"))
        if peers:
            write_all(shape, folder, peers)
    for compute in COMPUTES:
        yield _own_server(title(compute), shape, _served(shape, folder, compute), threads)
    for library in peers:
        for compute, workers, each in settings[library]:
            yield _peer_server(library, folder / f"{shape.name}-{library}", compute, workers, each)


def _served(shape: Shape, folder: Path, compute: str) -> Path:
    return folder / f"{shape.name}-served-{compute}"


def _own_server(name: str, shape: Shape, folder: Path, threads: int) -> Server:
    port = free_port()
    options = ["--no-studio", "--port", str(port), "--threads", str(threads)]
    command = [*module_command("regard"), "serve", f"{shape.name}={folder}", *options]
    settings = {"model": shape.name, "beams": 1, "min_tokens": OUTPUT, "max_tokens": OUTPUT}
    return Server(name, command, lambda text: {**settings, "text": text}, port)


def _peer_server(library: str, folder: Path, compute: str, workers: int, threads: int) -> Server:
    port = free_port()
    values = map(str, (library, folder, port, OUTPUT, compute, workers, threads))
    command = [*module_command("regard.bench.peer_server"), *values]
    return Server(f"{library} ({compute} {workers}x{threads})", command, lambda text: {"text": text}, port)


def write_served(shape: Shape, folder: Path) -> None:
    """The model with a tokenizer whose words are numbers."""
    from regard.checkpoints.folder import save_model
    from regard.text.tokenizer import Tokenizer, Tokenizers

    words = [str(number) for number in range(shape.config.vocabulary)]
    tokenizer = Tokenizer.train(words, kind="word", vocabulary=shape.config.vocabulary)
    model = random_model(shape)
    assert tokenizer.vocabulary <= shape.config.vocabulary
    save_model(folder, model, Tokenizers.joint(tokenizer))


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return opened.getsockname()[1]


def format_outcome(values: dict[str, Any]) -> str:
    """The outcome as text."""
    if values["case"] == FIRST_TOKEN:
        lines = [f"{FIRST_TOKEN}: milliseconds until the first token of a streamed completion"]
    else:
        overhead = f"{100 * values['overhead']:+.1f} %"
        lines = [
            f"{values['case']}: {values[OURS]} requests/s, {values['best']}, "
            f"{overhead} time beside the Translator alone"
        ]
    for name, shares in values["latency_ms"].items():
        ratio = values.get("ratios", {}).get(name)
        beside = "" if ratio is None else f"  ({ratio} times as many requests as it)"
        lines.append(
            f"  {name:32} " + ", ".join(f"{key} {value} ms" for key, value in shares.items()) + beside
        )
    return "\n".join(lines)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for the models."""
    with tempfile.TemporaryDirectory(prefix="regard-bench-") as folder:
        yield Path(folder)
