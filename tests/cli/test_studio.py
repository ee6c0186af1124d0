"""`regard studio`: an address, a page behind it, and an end without noise."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from regard.cli.app import run
from regard.errors import UsageError
from regard.service import serving


@pytest.fixture
def taken():
    """A port that somebody else uses."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_the_next_free_port_is_taken(taken, monkeypatch):
    monkeypatch.setattr(serving, "PORT", taken)
    with serving.open_port(None) as opened:
        assert taken < opened.getsockname()[1] < taken + serving.MOST_PORTS
        assert serving.address_of(opened) == f"http://127.0.0.1:{opened.getsockname()[1]}/studio"


def test_the_usual_port_is_taken_first(taken, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    monkeypatch.setattr(serving, "PORT", free)
    with serving.open_port(None) as opened:
        assert opened.getsockname()[:2] == ("127.0.0.1", free)


def test_when_all_are_taken_it_says_so(taken, monkeypatch):
    monkeypatch.setattr(serving, "PORT", taken)
    monkeypatch.setattr(serving, "MOST_PORTS", 1)
    with pytest.raises(UsageError, match=f"ports {taken} to {taken} are taken; choose another with --port"):
        serving.open_port(None)


def test_a_named_port_is_taken_or_none(capsys, taken, model_folders):
    assert run(["studio", model_folders["fill"], "--no-browser", "--port", str(taken)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"error: port ({taken}) is taken; choose another with --port, or end what uses it\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere"], "nowhere is not a folder; pass that of a model or a run, or none for the demo"),
        ([".", "--port", "8765"], "contains no model of regard"),
        (["--port", "70000"], "invalid value for '--port': Input should be less than or equal to 65535"),
        (["--host", "0.0.0.0"], "no such option: --host"),
    ],
)
def test_a_mistake_is_one_line(capsys, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert run(["studio", "--no-browser", *arguments]) == 2
    printed = capsys.readouterr()
    assert complaint in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("no_browser", [True, False])
def test_a_browser_is_opened_unless_told(capsys, monkeypatch, model_folders, no_browser):
    import threading

    opened, shown = [], threading.Event()
    monkeypatch.setattr(serving.webbrowser, "open", lambda address: opened.append(address) or shown.set())
    monkeypatch.setattr(serving.uvicorn.Server, "run", lambda self, sockets: None)
    arguments = ["--no-browser"] if no_browser else []
    assert run(["studio", model_folders["fill"], "--port", "0", *arguments]) == 0
    address = capsys.readouterr().out.strip()
    home, _, token = address.partition("/?token=")
    assert home.startswith("http://127.0.0.1:")
    assert len(token) == 48
    assert shown.wait(0.2 if no_browser else 10) is not no_browser
    assert [page.partition("/?token=")[0] for page in opened] == ([] if no_browser else [home])
    assert not any(token in page for page in opened)  # other users can list the arguments of a browser


def test_without_a_token_the_address_is_plain(capsys, monkeypatch, model_folders):
    monkeypatch.setattr(serving.uvicorn.Server, "run", lambda self, sockets: None)
    assert run(["studio", model_folders["fill"], "--port", "0", "--no-browser", "--no-token"]) == 0
    assert capsys.readouterr().out.strip().endswith("/studio")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_quietly(model_folders, sent, code):
    call = [sys.executable, "-m", "regard", "studio", model_folders["fill"], "--no-browser", "--port", "0"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        home, _, token = process.stdout.readline().strip().partition("/?token=")
        with urllib.request.urlopen(f"{home}/studio/api/models?token={token}", timeout=60) as found:
            assert b'"name":"fill"' in found.read()
        process.send_signal(sent)
        printed, complaints = process.communicate(timeout=60)
    assert (process.returncode, printed, complaints) == (code, "", "")
