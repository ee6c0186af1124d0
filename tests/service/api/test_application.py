"""The application of `regard serve` in this process: who may ask, what is accepted, and errors."""

from __future__ import annotations

import json
import logging
import re
import threading
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError
from typer.testing import CliRunner

from regard.cli import serve as command
from regard.demo.story.model_store import trained_folder
from regard.errors import CheckpointError, DataError, SettingError, UsageError
from regard.inference.loading import load
from regard.service import models as service_models
from regard.service.access import Token
from regard.service.api import readings
from regard.service.api.access import ServiceAccess, is_loopback
from regard.service.api.application import ServiceSettings, make_service
from regard.service.api.chat import ChatJob
from regard.service.api.completions import CompletionJob
from regard.service.api.limits import Limits
from regard.service.api.request_log import LEVELS
from regard.service.api.schemas import ChatRequest, CompletionRequest, TranslateRequest
from regard.service.api.serving import DrainingServer, ServePlan, begin_log
from regard.service.api.translations import TranslationJob
from regard.service.http_errors import RequestError
from regard.service.models import open_models
from regard.service.serving import address_at, open_port
from regard.text.tokenizer import Tokenizer
from tests.service.api.conftest import HOME, KEY, wait_until
from tests.service.asking import all_routes

pytestmark = pytest.mark.xdist_group("serve")

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "the old"}], "max_tokens": 3, "seed": 1}
COMPLETE = {"model": "lm", "prompt": "the cat", "max_tokens": 3, "seed": 1}
FAMILY = ("lm", "chat", "demo", "fill", "classify")


@pytest.fixture
def app(api_app):
    return api_app


@pytest.fixture
def client(api_client):
    return api_client


@pytest.fixture
def full(app):
    """The queues of all models are full."""
    schedulers = [model.scheduler for model in app.state.service.models.by_name.values()]
    for scheduler in schedulers:
        scheduler.limits = Limits(waiting=0)
    yield
    for scheduler in schedulers:
        scheduler.limits = Limits()


def post(client, route, **body):
    answer = client.post(route, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(answer) -> list[dict]:
    """The events of a stream that ends well."""
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert lines[-1] == "[DONE]", answer.text
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/completions", COMPLETE),
        ("/v1/completions", COMPLETE | {"stream": True}),
        ("/v1/completions", COMPLETE | {"stream": True, "echo": True}),
        ("/v1/completions", COMPLETE | {"stream": True, "echo": True, "logprobs": 1}),
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions", CHAT | {"stream": True}),
        ("/v1/translate", {"model": "demo", "text": "the cat"}),
        ("/v1/embeddings", {"model": "fill", "input": "the cat"}),
        ("/v1/inspect", {"model": "demo", "text": "the cat"}),
    ],
)
def test_a_full_queue_refuses_before_an_answer_begins(client, full, route, body):
    answer = client.post(route, json=body)
    assert (answer.status_code, answer.headers.get("retry-after")) == (429, "1")
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("route", "body", "job"),
    [
        ("/v1/completions", COMPLETE, CompletionJob),
        ("/v1/chat/completions", CHAT, ChatJob),
        ("/v1/translate", {"model": "demo", "text": "the cat"}, TranslationJob),
    ],
)
def test_a_full_queue_refuses_before_texts_are_encoded(client, full, monkeypatch, route, body, job):
    """Otherwise refused requests take the time of the event loop."""
    monkeypatch.delattr(job, "of")
    assert client.post(route, json=body).status_code == 429


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "the "},
                                                   {"type": "text", "text": "old"}], "name": "Ada"}]},
        {"tools": [], "response_format": {"type": "text"}, "metadata": {"a": "b"}, "store": False},
        {"stream": True, "stream_options": {"include_obfuscation": False}},
    ],
)  # fmt: skip
def test_what_the_clients_of_openai_send_is_accepted(client, changes):
    expected = post(client, "/v1/chat/completions", **CHAT)["choices"][0]["message"]["content"]
    answer = client.post("/v1/chat/completions", json=CHAT | changes)
    assert answer.status_code == 200, answer.text
    if "stream" in changes:
        parts = [each["choices"][0]["delta"].get("content", "") for each in events(answer)]
        assert "".join(parts) == expected
    else:
        assert answer.json()["choices"][0]["message"]["content"] == expected


def test_an_assistants_message_without_text(client):
    said = [{"role": "assistant", "content": None}, *CHAT["messages"]]
    empty = [{"role": "assistant", "content": ""}, *CHAT["messages"]]
    asked = [post(client, "/v1/chat/completions", **CHAT | {"messages": each}) for each in (said, empty)]
    assert asked[0]["choices"] == asked[1]["choices"]
    refused = client.post("/v1/chat/completions", json=CHAT | {"messages": [{"role": "user"}]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "messages")
    assert "content is missing" in refused.json()["error"]["message"]


def test_top_p_0_takes_the_likeliest_token(client):
    greedy = post(client, "/v1/completions", **COMPLETE | {"temperature": 0})["choices"]
    assert post(client, "/v1/completions", **COMPLETE | {"top_p": 0})["choices"] == greedy


@pytest.mark.parametrize(("route", "body"), [("/v1/completions", COMPLETE), ("/v1/chat/completions", CHAT)])
def test_stream_options_need_a_stream(client, route, body):
    refused = client.post(route, json=body | {"stream_options": {"include_usage": True}})
    assert refused.status_code == 400
    assert "stream_options needs stream" in refused.json()["error"]["message"]


def test_log_probabilities_end_with_the_text(client):
    """Whole and streamed completions and chats give the same tokens, none behind the stop string."""
    long = {"max_tokens": 20, "min_tokens": 20, "seed": 3}
    text = post(client, "/v1/completions", **COMPLETE | long)["choices"][0]["text"]
    stop = re.findall(r"\w+ \w+", text)[2]
    asked = COMPLETE | long | {"stop": [stop], "logprobs": 1}
    whole = post(client, "/v1/completions", **asked)["choices"][0]
    assert whole["text"] == text[: text.index(stop)]
    starts = whole["logprobs"]["text_offset"]
    assert 0 < len(starts) < 20
    assert all(start < len(whole["text"]) for start in starts)
    streamed = [
        each["choices"][0] for each in events(client.post("/v1/completions", json=asked | {"stream": True}))
    ]
    for name, values in whole["logprobs"].items():
        assert [value for each in streamed for value in each["logprobs"][name]] == values

    text = post(client, "/v1/chat/completions", **CHAT | long)["choices"][0]["message"]["content"]
    asked = CHAT | long | {"stop": [re.findall(r"\w+ \w+", text)[2]], "logprobs": True}
    choice = post(client, "/v1/chat/completions", **asked)["choices"][0]
    tokens = [token["token"] for token in choice["logprobs"]["content"]]
    assert len("".join(tokens[:-1])) < len(choice["message"]["content"])
    answer = client.post("/v1/chat/completions", json=asked | {"stream": True})
    parts = [each["choices"][0]["logprobs"]["content"] for each in events(answer)]
    assert [token["token"] for part in parts for token in part] == tokens


def test_streamed_tokens_are_whole_where_characters_are_not(client):
    """A high temperature draws single bytes; a token that ends inside a character waits for the next."""
    broken = 0
    for seed in range(8):
        asked = COMPLETE | {"temperature": 100, "max_tokens": 30, "seed": seed, "logprobs": 2}
        whole = post(client, "/v1/completions", **asked)["choices"][0]
        streamed = [
            each["choices"][0]
            for each in events(client.post("/v1/completions", json=asked | {"stream": True}))
        ]
        for name, values in whole["logprobs"].items():
            assert [value for each in streamed for value in each["logprobs"][name]] == values
        assert "".join(whole["logprobs"]["tokens"]) == whole["text"]
        broken += whole["text"].count("\ufffd")
    assert broken


def test_a_token_is_decoded_once(client, monkeypatch):
    """The work of a streamed answer with alternatives grows with its length, not with its square."""
    calls, decode = [0], Tokenizer.decode

    def counted(self, ids):
        calls[0] += 1
        return decode(self, ids)

    monkeypatch.setattr(Tokenizer, "decode", counted)
    for length in (10, 40):
        calls[0] = 0
        asked = COMPLETE | {"max_tokens": length, "min_tokens": length, "logprobs": 5, "stream": True}
        events(client.post("/v1/completions", json=asked))
        assert calls[0] < 12 * length


@pytest.mark.parametrize(
    ("kind", "route", "body"),
    [
        (CompletionJob, "/v1/completions", COMPLETE | {"n": 8, "max_tokens": 8, "logprobs": 10}),
        (ChatJob, "/v1/chat/completions", CHAT | {"n": 8, "logprobs": True, "top_logprobs": 20}),
        (CompletionJob, "/v1/completions", COMPLETE),
    ],
)
def test_a_large_response_is_made_beside_the_event_loop(client, monkeypatch, kind, route, body):
    threads, make = [], kind.response

    def response(self, *answers):
        threads.append(threading.current_thread().name)
        return make(self, *answers)

    monkeypatch.setattr(kind, "response", response)
    post(client, route, **body)
    assert ("worker thread" in threads[0]) == (body is not COMPLETE)


@pytest.mark.parametrize(
    ("route", "changes", "said"),
    [
        ("/v1/completions", {"prompt": [-1]}, "prompt.0: input should be greater than or equal to 0"),
        ("/v1/completions", {"prompt": []}, "prompt: list should have at least 1 item"),
        ("/v1/completions", {"prompt": ["a", 1]}, "prompt or an entry of it has a type that is not allowed"),
        ("/v1/completions", {"stop": ["a"] * 17}, "stop has more than 16 entries"),
        ("/v1/completions", {"stop": ["a", ""]}, "stop.1: string should have at least 1 character"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
         "messages.0.content.0.type: input should be 'text'"),
        ("/v1/chat/completions", {"metadata": {"k" * 1000: 5}}, "metadata." + "k" * 71 + " has 1,000 char"),
    ],
)  # fmt: skip
def test_an_error_names_what_is_wrong_with_the_value(client, route, changes, said):
    """Of a value that may have several types; and a long key of the user is not sent back."""
    refused = client.post(route, json=(CHAT if "chat" in route else COMPLETE) | changes)
    error = refused.json()["error"]
    assert refused.status_code == 422
    assert error["message"].startswith(said)
    assert error["param"] == next(iter(changes))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (CompletionRequest, COMPLETE | {"prompt": [-1] * 1000}),
        (CompletionRequest, COMPLETE | {"prompt": [[-1] * 1000] * 100}),
        (CompletionRequest, COMPLETE | {"prompt": [[""] * 1000] * 100}),
        (CompletionRequest, COMPLETE | {"forbidden": [1] * 100, "stop": [1] * 16}),
        (ChatRequest, CHAT | {"messages": [{}] * 1000}),
        (ChatRequest, CHAT | {"messages": [{"role": "user", "content": [{}] * 100}] * 1000}),
        (TranslateRequest, {"model": "demo", "text": [1] * 100}),
    ],
)
def test_a_list_has_one_error(kind, body):
    """One for each entry would hold up the event loop for seconds."""
    with pytest.raises(ValidationError) as refused:
        kind.model_validate(body)
    assert refused.value.error_count() < 6


def test_too_many_errors_are_not_listed(client):
    refused = client.post("/v1/completions", json=COMPLETE | {f"key{n}": 1 for n in range(5000)})
    assert refused.status_code == 422
    assert refused.json()["error"]["message"] == "the body has 5,000 errors; send fewer keys and entries"


@pytest.mark.parametrize(
    ("route", "body", "said"),
    [
        ("/v1/fill", {"model": "fill", "text": ["the [MASK] sleeps", "the cat"]}, "the text has no mask"),
        ("/v1/classify", {"model": "classify", "text": ["a", "the cat " * 500]}, "the text has 1,0"),
        ("/v1/embeddings", {"model": "fill", "input": ["a", "b", "the cat " * 500]}, "the text has 1,0"),
    ],
)
def test_an_error_of_one_text_does_not_give_it_the_number_of_another(client, route, body, said):
    refused = client.post(route, json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith(said)


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/completions", COMPLETE | {"prompt": "the cat " * 500}),
        ("/v1/completions", COMPLETE | {"max_tokens": 1000}),
        ("/v1/chat/completions", CHAT | {"messages": [{"role": "user", "content": "the cat " * 500}]}),
        ("/v1/translate", {"model": "demo", "text": "the cat", "max_tokens": 1000}),
    ],
)
def test_more_tokens_than_the_context_have_openais_code(client, route, body):
    refused = client.post(route, json=body)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "context of 64" in error["message"]


def test_the_offsets_of_a_streamed_echo(client):
    asked = COMPLETE | {"echo": True, "logprobs": 0, "max_tokens": 5, "prompt": ["the cat", "the old dog"]}
    whole = post(client, "/v1/completions", **asked)["choices"]
    offsets = [[], []]
    for each in events(client.post("/v1/completions", json=asked | {"stream": True})):
        offsets[each["choices"][0]["index"]] += each["choices"][0]["logprobs"]["text_offset"]
    assert offsets == [choice["logprobs"]["text_offset"] for choice in whole]


@pytest.mark.parametrize(
    "changes", [{"text": "the cat " * 40, "target": "le chat " * 100}, {"text": "the " * 300}]
)
def test_a_long_text_is_not_inspected(client, changes):
    refused = client.post("/v1/inspect", json={"model": "demo"} | changes)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_the_weights_of_a_response_are_limited(client, monkeypatch):
    monkeypatch.setattr(readings, "MOST_WEIGHTS", 100)
    refused = client.post("/v1/inspect", json={"model": "demo", "text": "the cat"})
    assert refused.status_code == 400
    assert "choose a layer or a head" in refused.json()["error"]["message"]
    assert post(client, "/v1/inspect", model="demo", text="the cat", layer=0, head=0)["weights"]


def test_usage_counts_the_tokens_that_were_read(client, model_folders):
    reader = load(model_folders["classify"])
    texts = ["the dog", "the cat " * 500]
    answer = post(client, "/v1/classify", model="classify", text=texts, truncate=True)
    assert (
        answer["usage"]["prompt_tokens"]
        == len(reader.tokenizer.encode("the dog")) + 2 + reader.config.context
    )
    masked = post(client, "/v1/fill", model="fill", text="the [MASK] sees the dog.")
    ids = load(model_folders["fill"]).tokenizer.encode("the [MASK] sees the dog.", with_mask=True)
    assert masked["usage"]["prompt_tokens"] == len(ids) + 2


@pytest.mark.parametrize(
    ("error", "status"),
    [(DataError("bad text"), 400), (CheckpointError("/home is damaged"), 503), (ValueError("/home"), 500)],
)
def test_an_error_is_the_same_in_a_response_and_in_a_stream(client, app, monkeypatch, caplog, error, status):
    """A response of this status, or an event of its type."""

    def refuse(*_):
        raise error

    monkeypatch.setattr("regard.service.api.generation.Generated.completion", refuse)
    whole = client.post("/v1/completions", json=COMPLETE)
    assert whole.status_code == status
    assert "/home" not in whole.text
    last = client.post("/v1/completions", json=COMPLETE | {"stream": True}).text.strip().splitlines()[-1]
    assert json.loads(last.removeprefix("data: ")) == whole.json()


def test_an_unknown_path_and_method(client):
    missing = client.get("/nothing")
    assert (missing.status_code, missing.json()["error"]["message"]) == (
        404,
        "not found; /docs lists the routes",
    )
    refused = client.get("/v1/completions")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    documented = client.get("/openapi.json").json()["paths"]["/v1/completions"]["post"]["responses"]
    assert {"405", "429"} <= documented.keys()


def allowed(access: ServiceAccess, **headers: str) -> bool:
    """Whether a request with these headers may be answered."""
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "path": "/v1/models", "method": "GET", "headers": pairs, "query_string": b""}
    try:
        return access.check(scope) is None
    except RequestError:
        return False


@pytest.mark.parametrize("key", ["", " ", "\n", "a b", "schlüssel", "a\nb", "\x7f"])
def test_a_key_that_no_request_can_send_is_refused(key):
    with pytest.raises(SettingError, match="an API key must have one character or more"):
        ServiceAccess((key,))


def test_a_key_of_a_file_with_a_line_end():
    access = ServiceAccess(("secret\n",))
    assert allowed(access, host="localhost", authorization="Bearer secret")
    assert not allowed(access, host="localhost", authorization="Bearer ")
    assert not allowed(access, host="localhost", authorization="Bearer sécret")
    assert not allowed(access, host="localhost")


@pytest.mark.parametrize(
    ("given", "variable", "keys"),
    [
        (None, None, ()),
        (None, "a", ("a",)),
        (["b", "c"], "a", ("b", "c")),
        (None, "two words", ("two words",)),
    ],
)
def test_the_variable_is_one_key(monkeypatch, given, variable, keys):
    monkeypatch.delenv("REGARD_API_KEY", raising=False)
    if variable is not None:
        monkeypatch.setenv("REGARD_API_KEY", variable)
    assert command._keys(given) == keys


@pytest.mark.parametrize("value", ["", "two words"])
def test_a_wrong_variable_stops_the_command(monkeypatch, value):
    monkeypatch.setenv("REGARD_API_KEY", value)
    result = CliRunner().invoke(command.commands, ["demo", "--host", "0.0.0.0"])
    assert isinstance(result.exception, SettingError)


@pytest.fixture
def own_log():
    """The log of the service is set up in a test, and restored behind it."""
    loggers = list(map(logging.getLogger, LEVELS))
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.mark.parametrize(
    ("host", "keys", "warns"),
    [
        ("0.0.0.0", (), True),
        ("models.example", (), True),
        ("0.0.0.0", ("k",), False),
        ("127.0.0.1", (), False),
        ("::1", (), False),
        ("localhost", (), False),
    ],
)
def test_a_server_that_everyone_may_use_says_so(capsys, own_log, host, keys, warns):
    begin_log(ServiceAccess(keys), host)
    assert ("no key is set" in capsys.readouterr().err) == warns


def test_errors_of_the_event_loop_are_json_too(capsys, own_log):
    begin_log(ServiceAccess(), "127.0.0.1")
    logging.getLogger("asyncio").warning("socket.send() raised exception.")
    logging.getLogger("asyncio").error("socket.accept() out of system resource")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "socket.accept() out of system resource"


def test_the_studio_is_off_where_others_reach_it():
    assert is_loopback("127.0.0.1")
    assert not is_loopback("0.0.0.0")
    settings = ServiceSettings(has_studio=True)
    with pytest.raises(UsageError, match="the studio runs in one process"):
        ServePlan(["demo"], settings, workers=2).check()


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "http://evil.example", ""])
def test_a_foreign_or_broken_origin_is_refused(origin):
    assert not allowed(ServiceAccess(), host="localhost", origin=origin)


def test_a_request_without_a_host_is_refused():
    """HTTP/1.0 has none; the studio's cookie needs its port."""
    assert not allowed(ServiceAccess(hosts=("*",), token=Token()))
    assert allowed(ServiceAccess(hosts=("*",)), host="anything")


def test_an_ipv6_address():
    try:
        opened = open_port(0, "::1")
    except Exception:
        pytest.skip("this machine has no IPv6")
    with opened:
        assert address_at(opened) == f"http://[::1]:{opened.getsockname()[1]}"
    assert allowed(ServiceAccess(hosts=("fd00::1",)), host="[fd00::1]:8765")


def test_the_second_signal_ends_at_once(app):
    server = DrainingServer(app, 60)
    try:
        server.handle_exit(15, None)
        assert (server.should_exit, server.force_exit) == (True, False)
        server.handle_exit(15, None)
        assert server.force_exit
    finally:
        app.state.service.is_draining = False


def test_a_model_that_fails_to_load_does_not_keep_the_others_from_it(monkeypatch, caplog):
    def broken(entry, snapshot=None):
        if entry.name == "first":
            raise MemoryError
        return SimpleNamespace(subject=object())

    monkeypatch.setattr(service_models.Entry, "loaded", broken)
    place = trained_folder("demo")
    app = make_service(open_models([f"first={place}", f"second={place}"]), ServiceSettings(has_studio=False))
    with TestClient(app, base_url=HOME) as client:
        wait_until(lambda: app.state.service.models.by_name["second"].is_ready)
        assert (client.get("/ready").status_code, client.get("/ready").json()) == (503, {"status": "failed"})
        refused = client.post("/v1/translate", json={"model": "first", "text": "a"})
        assert (refused.status_code, "cannot be loaded" in refused.text) == (503, True)


def test_every_route_of_api_and_studio_needs_the_key(models):
    """The routes are those of the application itself, not only those of its schema."""
    settings = ServiceSettings(access=ServiceAccess((KEY,), token=Token()))
    app = make_service(models, settings)
    routes = set(all_routes(app))
    paths = {path for _, path in routes}
    assert {"/v1/chat/completions", "/metrics", "/studio", "/studio/api/trace", "/docs/style.css"} <= paths
    client = TestClient(app, base_url=HOME)  # the models need not be loaded
    for method, path in sorted(routes):
        status = client.request(method, path).status_code
        is_studio = path in ("/", "/favicon.ico") or path.startswith("/studio")
        assert (path, status) == (path, 200 if path == "/health" else 403 if is_studio else 401)
