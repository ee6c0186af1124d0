"""`regard serve` as a process, used by the openai client and by httpx; SIGTERM comes last."""

from __future__ import annotations

import json
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import httpx2
import numpy as np
import openai
import pytest

from regard.demo.story.model_store import trained_folder
from regard.inference.loading import load, load_chat
from regard.inspection.inspection import inspect
from tests.service.api.conftest import KEY

pytestmark = pytest.mark.xdist_group("serve")

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "the cat sleeps",
    "She went to the bank.",
    "the small dog was old.",
]
OPEN = {"/health"}


@pytest.fixture(scope="module")
def demo_writer():
    return load(trained_folder("demo-language-model"))


@pytest.fixture(scope="module")
def demo_translator():
    return load(trained_folder("demo"))


@pytest.fixture
def assistant(server):
    """The official client."""
    with openai.OpenAI(
        base_url=f"{server.address}/v1", api_key="the-secret-of-the-tests", max_retries=0
    ) as client:
        yield client


def post(client, route, **body):
    answer = client.post(route, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_models(assistant):
    assert [model.id for model in assistant.models.list()] == ["demo", "lm", "fill", "classify", "chat"]
    assert assistant.models.retrieve("lm").id == "lm"
    with pytest.raises(openai.NotFoundError, match="unknown model"):
        assistant.models.retrieve("other")


def test_a_completion_is_the_writers(assistant, demo_writer):
    expected = [demo_writer.complete("the cat", max_tokens=12, seed=seed) for seed in (7, 8, 9)]
    answer = assistant.completions.create(
        model="lm", prompt="the cat", max_tokens=12, seed=7, n=3, logprobs=2
    )
    assert [choice.text for choice in answer.choices] == [each.text for each in expected]
    for choice, each in zip(answer.choices, expected, strict=True):
        values = [token.log_probability for token in each.tokens if token.text]
        assert choice.logprobs.token_logprobs == pytest.approx(values, abs=1e-5)
        assert "".join(choice.logprobs.tokens) == choice.text
        pairs = zip(choice.logprobs.tokens, choice.logprobs.top_logprobs, strict=True)
        assert all(token in each and len(each) in (2, 3) for token, each in pairs)
        assert any(len(each) == 3 for each in choice.logprobs.top_logprobs)
    assert answer.usage.prompt_tokens == len(demo_writer.tokenizer.encode("the cat"))
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_streamed_completion_is_the_whole_one(assistant):
    asked = dict(model="lm", prompt=["the cat", "the old dog"], max_tokens=20, seed=3, stop=[" the"], n=2)
    whole = assistant.completions.create(**asked, logprobs=1)
    texts, tokens, reasons, used = [""] * 4, [[] for _ in range(4)], [None] * 4, None
    options = {"include_usage": True}
    for event in assistant.completions.create(**asked, stream=True, stream_options=options, logprobs=1):
        used = event.usage or used
        for choice in event.choices:
            texts[choice.index] += choice.text
            tokens[choice.index] += choice.logprobs.tokens
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [choice.text for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert all(" the" not in text for text in texts)
    assert all(text.startswith("".join(own[: len(own) - 1])) for text, own in zip(texts, tokens, strict=True))
    assert used == whole.usage


MESSAGES = [{"role": "system", "content": "the cat sees"}, {"role": "user", "content": "the old"}]


def test_a_chat_is_answered_by_the_template_and_the_writer(assistant, chat_folder):
    chat = load_chat(chat_folder)
    expected = []
    for seed in (7, 8):
        stream = chat.reply(MESSAGES, max_tokens=9, seed=seed)
        expected.append("".join(stream))
    asked = dict(model="chat", messages=MESSAGES, max_tokens=9, seed=7, n=2, logprobs=True, top_logprobs=2)
    answer = assistant.chat.completions.create(**asked)
    assert [choice.message.content for choice in answer.choices] == expected
    assert answer.usage.prompt_tokens == len(chat.encode(MESSAGES)[1])
    for choice in answer.choices:
        assert "".join(token.token for token in choice.logprobs.content) == choice.message.content
        assert all(len(token.top_logprobs) == 2 for token in choice.logprobs.content)
    texts, reasons, used = ["", ""], [None, None], None
    for event in assistant.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}
    ):
        used = event.usage or used
        for choice in event.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == expected
    assert reasons == [choice.finish_reason for choice in answer.choices]
    assert used == answer.usage


def test_a_chat_that_cannot_be_answered(assistant):
    with pytest.raises(openai.BadRequestError, match="lm has no chat template and cannot chat"):
        assistant.chat.completions.create(model="lm", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="demo is a model that translates"):
        assistant.chat.completions.create(model="demo", messages=MESSAGES)
    with pytest.raises(openai.UnprocessableEntityError, match="max_tokens is 0"):
        assistant.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=0)
    with pytest.raises(openai.UnprocessableEntityError, match="top_logprobs needs logprobs"):
        assistant.chat.completions.create(model="chat", messages=MESSAGES, top_logprobs=1)
    long = [{"role": "user", "content": "the cat " * 2000}]
    with pytest.raises(openai.BadRequestError, match="this model's context"):
        assistant.chat.completions.create(model="chat", messages=long)


def test_echo_scores_the_prompt(assistant, demo_writer):
    text = "the cat did not cross the street"
    answer = assistant.completions.create(model="lm", prompt=text, max_tokens=0, echo=True, logprobs=1)
    (choice,) = answer.choices
    assert choice.text == text
    assert choice.finish_reason == "length"
    inputs = demo_writer.tokenizer.encode(text)
    steps = [
        demo_writer.next_words(demo_writer.tokenizer.decode(inputs[:n])).probabilities[inputs[n]]
        for n in (1, 3)
    ]
    found = [choice.logprobs.token_logprobs[n] for n in (1, 3)]
    assert found == pytest.approx(np.log(steps).tolist(), abs=1e-4)
    assert choice.logprobs.token_logprobs[0] is None


def test_best_of_gives_the_likeliest(client):
    asked = dict(model="lm", prompt="the", max_tokens=6, seed=5, logprobs=0)
    every = post(client, "/v1/completions", **asked, n=6)["choices"]
    best = post(client, "/v1/completions", **asked, n=1, best_of=6)["choices"]
    means = [np.mean(choice["logprobs"]["token_logprobs"]) for choice in every]
    assert best[0]["text"] == every[int(np.argmax(means))]["text"]


def test_translations_do_not_depend_on_other_clients(client, server, demo_translator):
    """Sixteen clients at once get what the Translator gives for each text alone."""
    tasks = [(text, beams) for text in TEXTS for beams in (1, 2, 4, 5)]

    def ask(task):
        text, beams = task
        with server.client() as own:
            return post(own, "/v1/translate", model="demo", text=text, beams=beams, n_best=min(2, beams))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, tasks))
    for (text, beams), answer in zip(tasks, answers, strict=True):
        expected = demo_translator.translate(text, beams=beams, n_best=min(2, beams))
        (found,) = answer["data"]
        assert found["text"] == expected.text
        assert found["score"] == pytest.approx(expected.score, abs=1e-4)
        assert [each["text"] for each in found.get("others", [])] == [each.text for each in expected.others]


def test_translation_options(client, demo_translator):
    asked = dict(
        model="demo", text=[*TEXTS, " "], prefix="Le", forbidden=["rue"], alignment=True, tokens=True
    )
    found = post(client, "/v1/translate", **asked)
    expected = demo_translator.translate([*TEXTS, " "], prefix="Le", forbidden=["rue"], alignment=True)
    assert [each["text"] for each in found["data"]] == [each.text for each in expected]
    assert [each["index"] for each in found["data"]] == [0, 1, 2, 3, 4]
    for each, translation in zip(found["data"][:4], expected[:4], strict=True):
        assert [tuple(pair) for pair in each["alignment"]["pairs"]] == translation.alignment.pairs
        assert [token["id"] for token in each["tokens"]] == translation.tokens.ids.tolist()
    assert found["data"][4]["reason"] == "empty"


def test_vectors_masks_and_labels(assistant, client, model_folders):
    reader = load(model_folders["fill"])
    texts = ["the red cat sees the dog.", "the dog"]
    found = assistant.embeddings.create(model="fill", input=texts)
    vectors = np.array([each.embedding for each in found.data])
    np.testing.assert_allclose(vectors, reader.embed(texts), atol=1e-6)
    as_numbers = post(client, "/v1/embeddings", model="fill", input=texts, encoding_format="float")
    np.testing.assert_allclose([each["embedding"] for each in as_numbers["data"]], vectors, atol=1e-6)
    filled = post(client, "/v1/fill", model="fill", text="the [MASK] sees the dog.", top=3)["data"][0]
    assert filled["text"] == reader.fill("the [MASK] sees the dog.", top=3).text
    label = post(client, "/v1/classify", model="classify", text=texts)["data"][1]
    expected = load(model_folders["classify"]).classify(texts[1])
    assert label["label"] == expected.label
    assert label["probability"] == pytest.approx(expected.probability, abs=1e-5)


def test_attention(client, demo_translator):
    found = post(client, "/v1/inspect", model="demo", text=TEXTS[0], kind="cross", layer=0, head=1)
    seen = inspect(demo_translator, TEXTS[0])
    np.testing.assert_allclose(found["weights"][0][0], seen.attention("cross", 0, 1), atol=1e-5)
    assert len(found["queries"]) == seen.attention("cross", 0, 1).shape[0]
    refused = client.post("/v1/inspect", json={"model": "demo", "text": "the cat", "layer": 99})
    assert refused.status_code == 400
    assert "layer" in refused.json()["error"]["message"]


def routes_of(client):
    """Every route of the API, the pages, and the studio's."""
    schema = client.get("/openapi.json").json()
    routes = [(method.upper(), path) for path, methods in schema["paths"].items() for method in methods]
    pages = ["/docs", "/docs/style.css", "/openapi.json", "/", "/studio", "/studio/view.js", "/nothing"]
    return [*routes, *(("GET", page) for page in pages), ("GET", "/studio/api/models"),
            ("POST", "/studio/api/translate")]  # fmt: skip


@pytest.mark.parametrize("key", [None, "x", "the-secret-of-the-test", "the-secret-of-the-tests-and-more"])
def test_every_route_but_health_needs_the_key(server, client, key):
    with server.client() as other:
        other.headers.pop("Authorization")
        if key is not None:
            other.headers["Authorization"] = f"Bearer {key}"
        for method, path in routes_of(client):
            status = other.request(method, path.replace("{name}", "demo")).status_code
            is_studio = path == "/" or path.startswith("/studio")
            assert (path, status) == (path, 200 if path in OPEN else 403 if is_studio else 401)


@pytest.mark.parametrize(
    "path", ["/health/", "//health", "/Health", "/health/../v1/models", "/health%2f..", "/health;x"]
)
def test_no_spelling_of_health_opens_another_route(server, path):
    """The path is sent as it is; clients would normalise it."""
    address = urlsplit(server.address)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 401")


def test_the_key_opens_what_it_should(client):
    for method, path in routes_of(client):
        if method == "GET" and path != "/nothing":
            assert client.get(path.replace("{name}", "demo"), follow_redirects=True).status_code == 200, path
    headers = {"X-Api-Key": "the-secret-of-the-tests", "Authorization": ""}
    assert client.get("/v1/models", headers=headers).status_code == 200
    answer = client.get("/nothing")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


@pytest.mark.parametrize(
    "headers", [{"Host": "models.example"}, {"Origin": "http://models.example"}, {"Host": ""}]
)
def test_a_foreign_host_or_page_is_refused(client, headers):
    answer = client.get("/v1/models", headers=headers)
    assert answer.status_code in (400, 403)
    assert "access-control-allow-origin" not in answer.headers


def test_pages_name_no_other_host(client, server):
    for path in ("/docs", "/docs/style.css", "/openapi.json", "/v1/models"):
        answer = client.get(path)
        others = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[\w.:-]*", answer.text)
        assert set(others) <= {server.address}, path
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in client.get("/docs").text


def test_metrics_count_requests_and_tokens(client):
    post(client, "/v1/completions", model="lm", prompt="the cat", max_tokens=4, seed=1)
    page = client.get("/metrics").text
    assert re.search(r'regard_requests_total\{route="/v1/completions",status="200"\} \d', page)
    assert re.search(r'regard_tokens_total\{direction="written",model="lm"\} \d', page)
    assert 'regard_running_rows{model="lm"} 0.0' in page
    assert "the cat" not in page


HOSTILE = {
    "not JSON": b"{",
    "bad UTF-8": b'{"model":"lm","prompt":"\xff\xfe"}',
    "lone surrogate": b'{"model":"lm","prompt":"\\ud800"}',
    "NaN": b'{"model":"lm","prompt":"a","temperature":NaN}',
    "infinity": b'{"model":"lm","prompt":"a","temperature":Infinity}',
    "huge number": b'{"model":"lm","prompt":"a","temperature":1e400}',
    "negative": b'{"model":"lm","prompt":"a","temperature":-1}',
    "huge integer": b'{"model":"lm","prompt":"a","seed":' + b"9" * 4000 + b"}",
    "deeply nested": b'{"model":"lm","prompt":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "no prompt": b'{"model":"lm","prompt":[]}',
    "empty ids": b'{"model":"lm","prompt":[[]]}',
    "mixed prompt": b'{"model":"lm","prompt":["a",1]}',
    "unknown id": b'{"model":"lm","prompt":[1,99999999]}',
    "n too high": b'{"model":"lm","prompt":"a","n":9}',
    "n zero": b'{"model":"lm","prompt":"a","n":0}',
    "too many tokens": b'{"model":"lm","prompt":"a","max_tokens":100000}',
    "beyond the context": b'{"model":"lm","prompt":"a","max_tokens":64}',
    "prompt too long": json.dumps({"model": "lm", "prompt": "the cat " * 500}).encode(),
    "nothing to do": b'{"model":"lm","prompt":"a","max_tokens":0}',
    "empty stop": b'{"model":"lm","prompt":"a","stop":""}',
    "unknown key": b'{"model":"lm","prompt":"a","temprature":1}',
    "ignored by others": b'{"model":"lm","prompt":"a","frequency_penalty":0.5}',
    "a list": b"[1,2]",
    "null": b"null",
    "empty": b"",
    "twice": b'{"model":"lm","prompt":"a"}{"model":"lm"}',
    "min above max": b'{"model":"lm","prompt":"a","min_tokens":9,"max_tokens":3}',
    "blank word": b'{"model":"lm","prompt":"a","forbidden":[" "]}',
    "model of another kind": b'{"model":"demo","prompt":"a"}',
    "no string as a model": b'{"model":["lm"],"prompt":"a"}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_body_is_refused_and_the_next_request_is_fine(client, body):
    answer = client.post("/v1/completions", content=body)
    assert answer.status_code in (400, 413, 422), answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in answer.text
    assert "/" not in error["message"].replace("/v1/", "")
    assert post(client, "/v1/completions", model="lm", prompt="the", max_tokens=1, seed=1)["choices"]


def test_large_requests_are_refused(client, server):
    large = client.post("/v1/translate", json={"model": "demo", "text": "a" * 1_100_000})
    assert (large.status_code, large.json()["error"]["type"]) == (413, "invalid_request_error")

    def chunks():
        with suppress(Exception):
            for _ in range(30):
                yield b" " * 50_000

    assert client.post("/v1/translate", content=chunks()).status_code == 413
    headers = {f"X-{number}": "1" for number in range(101)}
    assert client.get("/v1/models", headers=headers).status_code == 431
    many = client.post("/v1/translate", json={"model": "demo", "text": ["a"] * 129})
    assert many.status_code == 422
    assert many.json()["error"]["param"] == "text"


@pytest.mark.parametrize(
    ("path", "length", "key", "status"),
    [
        ("/v1/translate", 3_000_000, KEY, 413),
        ("/v1/translate", 900_000, "wrong", 401),
        ("/nothing", 900_000, KEY, 404),
    ],
)
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_client_that_sends_all_before_it_reads_gets_the_error(
    server, path, length, key, status, is_chunked
):
    address = urlsplit(server.address)
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {length}"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n{framing}\r\n\r\n"
    body = b"%x\r\n" % length + b" " * length + b"\r\n0\r\n\r\n" if is_chunked else b" " * length
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(head.encode() + body)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 %d" % status)


def test_the_clients_errors(server, assistant):
    with pytest.raises(openai.UnprocessableEntityError):
        assistant.completions.create(model="lm", prompt="a", n=9)
    with pytest.raises(openai.BadRequestError, match="context of 64"):
        assistant.completions.create(model="lm", prompt="a", max_tokens=64)
    stranger = openai.OpenAI(base_url=f"{server.address}/v1", api_key="wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_an_answer_has_a_request_id(client):
    assert client.get("/health").headers["x-request-id"].startswith("req-")
    assert client.get("/health", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert client.get("/health", headers={"X-Request-Id": "a b"}).headers["x-request-id"] != "a b"


def test_sigterm_finishes_what_runs_and_refuses_what_comes(server):
    """The last test: the server ends. The log has no user text."""
    asked = {
        "model": "lm",
        "prompt": ["the secret cat"] * 16,
        "max_tokens": 40,
        "seed": 1,
        "n": 8,
        "min_tokens": 40,
    }

    def ask(_):
        with server.client() as client:
            return client.post("/v1/completions", json=asked)

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(ask, number) for number in range(3)]
        with server.client() as client:
            while 'regard_running_rows{model="lm"} 0.0' in client.get("/metrics").text:
                pass
        server.process.send_signal(signal.SIGTERM)
        answers = [each.result() for each in running]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert len({answer.json()["choices"][100]["text"] for answer in answers}) == 1
    log = server.process.communicate(timeout=60)[1]
    assert server.process.returncode == 0
    with pytest.raises(httpx2.ConnectError), server.client() as client:
        client.get("/health")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert len(lines) > 100
    assert {"id", "route", "status", "seconds"} <= lines[0].keys()
    assert "secret cat" not in log
    assert "Traceback" not in log
