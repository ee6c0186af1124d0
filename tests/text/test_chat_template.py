"""Chat templates: the text of transformers, and limits that hold for hostile ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import regard
from regard.background import module_command
from regard.errors import CheckpointError, DataError
from regard.text.chat_template import LARGEST_TEMPLATE, ChatTemplate, check_messages

CHATML = """{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
LLAMA = """{{ bos_token }}{% if messages[0].role == 'system' %}{% set system = messages[0].content %}
{% set messages = messages[1:] %}{% else %}{% set system = none %}{% endif %}
{%- set ns = namespace(count=0) -%}
{% for m in messages %}
{% if loop.index0 % 2 == 0 and m.role != 'user' %}{{ raise_exception('no user') }}{% endif %}
{% if m.role == 'tool' %}{% continue %}{% endif %}
{% set ns.count = ns.count + 1 %}
[{{ ns.count }}] {{ m.role }}{{ eos_token }}: {% generation %}{{ m.content | tojson }}{% endgeneration %}
{% endfor %}{{ system or '' }}"""
MESSAGES = [
    {"role": "user", "content": "  What does “it” attend to?\n<b>&amp;</b> "},
    {"role": "assistant", "content": "L'animal, 動物 🙂"},
    {"role": "user", "content": "Why?"},
]
SYSTEM = [{"role": "system", "content": "Be brief."}]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

HOSTILE = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops while writing": "{% for a in range(99999) %}{% for b in range(99999) %}a{% endfor %}{% endfor %}",
    "power": "{{ 10 ** (10 ** 10) }}",
    "long string": "{{ 'a' * 10 ** 11 }}",
    "long list": "{{ [0] * 10 ** 10 }}",
    "padding": "{{ 'a'.ljust(10 ** 11) }}",
    "format": "{{ '%99999999999d' % 1 }}",
    "range": "{% for a in range(10 ** 9) %}{% endfor %}",
    "much text": "{% for a in range(99) %}{{ 'a' * 100000 }}{% endfor %}",
    "class": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals": "{{ raise_exception.__globals__['json'] }}",
    "attribute filter": "{{ (messages | attr('__class__')).__mro__ }}",
    "format attribute": "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "mutation": "{{ messages.append(1) }}",
    "include": "{% include '/etc/passwd' %}",
    "brackets": "{{" + "(" * 9000 + ")" * 9000 + "}}",
    "no template": "{% if %}",
    "no end": "{% for a in messages %}",
    "refusal": "{{ raise_exception('no\nsystem\nmessages') }}",
}


@pytest.mark.parametrize("source", [CHATML, LLAMA])
def test_texts_are_those_of_transformers(source) -> None:
    pytest.importorskip("transformers")
    from transformers.utils.chat_template_utils import render_jinja_template

    template = ChatTemplate(source, TOKENS)
    for messages in (MESSAGES, MESSAGES[:1], SYSTEM + MESSAGES):
        for ending in (True, False):
            (theirs,), _ = render_jinja_template(
                [messages], chat_template=source, add_generation_prompt=ending, **TOKENS
            )
            assert template.render(messages, add_generation_prompt=ending) == theirs


@pytest.fixture(scope="module")
def running() -> dict[str, float]:
    """The seconds that an ordinary template takes to start here, since a busy machine is slow."""
    began = time.perf_counter()
    assert ChatTemplate("{{ messages[0].content }}").render(MESSAGES) == MESSAGES[0]["content"]
    return {"start": time.perf_counter() - began}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_refused_and_the_next_one_works(name, running) -> None:
    template = ChatTemplate(HOSTILE[name])
    with pytest.raises(DataError, match="the chat template") as caught:
        template.render(MESSAGES)
    assert "\n" not in str(caught.value)
    template.source = "{{ messages | length }}"  # the process is used again, or started again
    assert template.render(MESSAGES) == "3"


def test_modules_of_the_current_folder_are_not_imported(tmp_path, monkeypatch) -> None:
    """Whoever unpacked a model and runs a command there must not run the files beside it."""
    for name in ("jinja2.py", "json.py", "regard.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert ChatTemplate("{{ messages | length }}").render(MESSAGES) == "3"
    assert not (tmp_path / "ran").exists()


def test_every_process_of_regard_starts_without_the_current_folder() -> None:
    files = Path(regard.__file__).parent.rglob("*.py")
    found = [file.name for file in files if '"-m", "regard' in file.read_text(encoding="utf-8")]
    assert found == []
    assert module_command("regard")[1:] == ("-P", "-m", "regard")


def test_the_time_is_that_of_the_processor(running) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with pytest.raises(DataError, match="exceeded its limits"):
        ChatTemplate(HOSTILE["loops"]).render(MESSAGES)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 1.5  # half a second, the start of Python included


@pytest.mark.parametrize(
    "messages",
    [
        "hello",
        [],
        ["hello"],
        [{"role": "user"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": "", "tool": ""}],
    ],
)
def test_messages_must_have_role_and_content(messages) -> None:
    with pytest.raises(DataError):
        check_messages(messages)


def test_sizes_are_limited() -> None:
    with pytest.raises(CheckpointError, match="at most"):
        ChatTemplate("a" * (LARGEST_TEMPLATE + 1))
    with pytest.raises(DataError, match="characters"):
        check_messages([{"role": "user", "content": "a" * (1 << 23)}])
