"""The token: without it nothing is answered; the first visit stores it in a cookie."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from regard.service import access
from regard.service.access import EXPLANATION, Token
from regard.service.models import Models
from regard.service.studio import make_studio
from tests.service.asking import all_routes

HOME = "http://127.0.0.1:8765"
API = "/studio/api/"


@pytest.fixture
def token():
    return Token()


@pytest.fixture
def app(models, token, monkeypatch):
    monkeypatch.setattr(Models, "warm_up", lambda *_: None)
    return make_studio(models, token=token)


@pytest.fixture
def client(app):
    """A browser that was never here."""
    with TestClient(app, base_url=HOME) as client:
        yield client


def test_every_route_is_known(app):
    paths = {path for _, path in all_routes(app)}
    assert {"/", "/studio", "/studio/view.js", "/studio/api/trace"} <= paths
    assert len(paths) >= 24


@pytest.mark.parametrize("given", ["", "?token=", "?token=wrong", "?token=%00é"])
def test_no_route_answers_without_the_token(app, client, given):
    for method, path in [*all_routes(app), ("GET", f"{API}trace/0/save.csv"), ("GET", "/nothing")]:
        found = client.request(method, path + given, follow_redirects=False)
        assert found.status_code == 403, (method, path)
        assert "set-cookie" not in found.headers
        if path.startswith(API) and method != "HEAD":
            assert found.json() == {"error": EXPLANATION}


def test_the_refusal_says_where_the_address_is(client):
    found = client.get("/studio")
    assert found.headers["content-type"].startswith("text/html")
    assert "<p>This address needs the token of the studio; open the whole address" in found.text


def test_the_first_visit_stores_the_token(client, token):
    found = client.get(f"/?token={token.value}", follow_redirects=False)
    assert found.status_code == 200
    cookie = found.headers["set-cookie"].lower()
    assert {part.strip() for part in cookie.split(";")} == {
        f"regard-8765={token.value}", "httponly", "samesite=strict", "path=/",
    }  # fmt: skip
    assert 'content="0; url=/studio"' in found.text
    assert token.value not in found.text
    assert client.get("/studio").status_code == 200
    assert client.get(f"{API}models").status_code == 200
    assert client.post(f"{API}trace", json={"model": "small", "text": "The"}).status_code == 200


@pytest.mark.parametrize(
    ("host", "name"), [("localhost:8766", "regard-8766"), ("[::1]", "regard-80"), ("[::1]:9", "regard-9")]
)
def test_each_port_has_its_own_cookie(client, token, host, name):
    found = client.get(f"/?token={token.value}", headers={"Host": host})
    assert found.headers["set-cookie"].startswith(f"{name}={token.value};")


def test_an_address_keeps_its_other_parts(client, token):
    found = client.get("/studio", params={"a": '"><script>', "token": token.value, "b": "&"})
    assert 'content="0; url=/studio?a=%22%3E%3Cscript%3E&amp;b=%26"' in found.text


def test_a_script_gives_the_token_with_each_request(client, token):
    assert client.get(f"{API}models?token={token.value}").status_code == 200
    assert not client.cookies
    assert client.get(f"{API}models").status_code == 403


@pytest.mark.parametrize("cookie", ["regard-8765=wrong", "regard-8766={}", "regard=", "; ;=", "regard-8765"])
def test_another_cookie_is_refused(client, token, cookie):
    found = client.get("/studio", headers={"Cookie": cookie.format(token.value)})
    assert found.status_code == 403


def test_each_start_has_its_own_token(token):
    assert len({Token().value for _ in range(10)} | {token.value}) == 11
    assert token.value not in repr(token)


def test_a_ticket_opens_one_page(client, token, monkeypatch):
    ticket = token.new_ticket()
    assert client.get(f"/?token={ticket}").status_code == 200
    client.cookies.clear()
    assert client.get(f"/?token={ticket}").status_code == 403
    late = token.new_ticket()
    monkeypatch.setattr(access.time, "monotonic", lambda: 1e12)
    assert client.get(f"/?token={late}").status_code == 403


def test_the_token_does_not_replace_the_other_checks(client, token):
    address = f"{API}models?token={token.value}"
    assert client.get(address, headers={"Host": "evil.example"}).status_code == 400
    assert client.get(address, headers={"Origin": "http://evil.example"}).status_code == 400
