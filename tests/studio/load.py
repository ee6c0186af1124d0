"""How the studio's server answers under load: `python -m tests.studio.load MODEL`.

Not a test: figures depend on the machine, and mean something only where nothing else runs.

cached trace       a sentence that was asked before, one request after the other over one connection
cached layer       the attention of one layer of it
K clients          K connections, each with sentences of its own that are new, one after the other
beside 4 clients   a cached trace while 4 clients ask for new sentences
after 300 left     300 clients ask for new sentences and close the connection at once; then the page and a
                   cached trace are timed
during a refusal   a cached trace while a request of 65,536 ids, which is refused, is under way
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from statistics import median
from threading import Event
from urllib.parse import urlsplit

from .serving import serve

API = "/studio/api/"
CLIENTS = (1, 4, 16)
ABANDONED = 300
TEXT = "The animal didn't cross the street because it was too tired."
NOUNS = ("cat", "dog", "bird", "child", "king", "river", "street", "animal", "student", "teacher")
_numbers = count()


def new_text() -> str:
    """A sentence that was not asked before."""
    number = next(_numbers)
    words = [NOUNS[number // 10**place % 10] for place in range(5)]
    return f"The {' and the '.join(words)} were tired."


class Client:
    """One connection to the studio, as a tab of a browser keeps it."""

    def __init__(self, home: str):
        self.connection = http.client.HTTPConnection(urlsplit(home).netloc, timeout=120)

    def get(self, path: str) -> bytes:
        """The answer to a request without a body."""
        self.connection.request("GET", path)
        return self._answer()

    def post(self, path: str, **body: object) -> bytes:
        """The answer to a request with a JSON body."""
        self.connection.request("POST", API + path, json.dumps(body), {"Content-Type": "application/json"})
        return self._answer()

    def _answer(self) -> bytes:
        response = self.connection.getresponse()
        body = response.read()
        assert response.status == 200, (response.status, body[:200])
        return body


def timed(act: Callable[[], object]) -> float:
    """Milliseconds of a call."""
    begun = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - begun)


def say(name: str, times: list[float], more: str = "") -> None:
    """One line: the median in milliseconds, the largest, how many."""
    figures = f"{median(times):8.1f} ms   at most {max(times):8.1f}   of {len(times)}"
    print(f"{name:<42} {figures}{more}", flush=True)


def cached(home: str, model: str, times: int) -> None:
    """A trace and one of its layers, asked for again and again."""
    client = Client(home)
    trace = json.loads(client.post("trace", model=model, text=TEXT))
    kind = trace["kinds"][0]["name"]
    say("cached trace", [timed(lambda: client.post("trace", model=model, text=TEXT)) for _ in range(times)])
    layer = f"{API}trace/{trace['trace']}/attention/{kind}/0"
    say("cached layer", [timed(lambda: client.get(layer)) for _ in range(times)])


def clients(home: str, model: str, number: int, times: int) -> None:
    """Several clients at once; each asks for new sentences, one after the other."""

    def ask(_: int) -> list[float]:
        client = Client(home)
        return [timed(lambda: client.post("trace", model=model, text=new_text())) for _ in range(times)]

    begun = time.perf_counter()
    with ThreadPoolExecutor(number) as pool:
        found = [each for one in pool.map(ask, range(number)) for each in one]
    rate = len(found) / (time.perf_counter() - begun)
    say(f"{number} client{'s' * (number > 1)}, new sentences", found, f"   {rate:.0f} a second")


def beside(home: str, model: str, times: int) -> None:
    """A cached trace while other clients ask for new sentences."""
    client, over = Client(home), Event()
    client.post("trace", model=model, text=TEXT)  # earlier lines may have evicted it

    def ask(_: int) -> None:
        other = Client(home)
        while not over.is_set():
            other.post("trace", model=model, text=new_text())

    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(ask, number) for number in range(4)]
        found = [timed(lambda: client.post("trace", model=model, text=TEXT)) for _ in range(times)]
        over.set()
        for other in others:
            other.result()
    say("beside 4 clients, a cached trace", found)


def abandoned(home: str, model: str) -> None:
    """The page and a cached trace after many clients have left."""
    client = Client(home)
    client.post("trace", model=model, text=TEXT)
    place = urlsplit(home)
    for _ in range(ABANDONED):
        body = json.dumps({"model": model, "text": new_text()})
        head = f"POST {API}trace HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((place.hostname, place.port)) as left:
            left.sendall((head + body).encode())
    asked = {
        "the page": lambda: client.get("/studio"),
        "the list of models": lambda: client.get(f"{API}models"),
        "a cached trace": lambda: client.post("trace", model=model, text=TEXT),
        "a new sentence": lambda: client.post("trace", model=model, text=new_text()),
    }
    for name, ask in asked.items():
        say(f"after {ABANDONED} left, {name}", [timed(ask)])


def refused(home: str, model: str, times: int) -> None:
    """A cached trace while a request that is too long is refused."""
    found, client = [], Client(home)
    for _ in range(times):
        other = Client(home)
        client.post("trace", model=model, text=TEXT)
        body = json.dumps({"model": model, "text": TEXT, "target_ids": [5] * 65_536})
        other.connection.request("POST", f"{API}trace", body, {"Content-Type": "application/json"})
        time.sleep(0.05)
        found.append(timed(lambda: client.post("trace", model=model, text=TEXT)))
        assert other.connection.getresponse().status == 400
    say("during a refusal, a cached trace", found)


def measure(home: str, times: int) -> None:
    """All lines, for the first model of the studio."""
    client = Client(home)
    model = json.loads(client.get(f"{API}models"))["models"][0]["name"]
    client.post("trace", model=model, text=TEXT)
    cached(home, model, times)
    for number in CLIENTS:
        clients(home, model, number, max(4, times // number))
    beside(home, model, times)
    abandoned(home, model)
    refused(home, model, 5)


def main() -> None:
    """Serve a model, measure and print medians."""
    parser = argparse.ArgumentParser(prog="python -m tests.studio.load", description=__doc__.splitlines()[0])
    parser.add_argument("model", metavar="MODEL", help="the folder of a small translation model")
    parser.add_argument("--times", type=int, default=100, metavar="N", help="requests of a line")
    given = parser.parse_args()
    with serve(given.model) as home:
        measure(home, given.times)


if __name__ == "__main__":
    main()
