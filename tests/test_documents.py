"""What the documents tell a reader to type is run here, a page at a time, in a folder that starts empty.

In a ```sh block the lines that start with regard or python are commands; they run first, in order. The
```python blocks of a page are one program, as for a reader who types them one after the other.
`<!-- not run: reason -->` on the line before a block says why it is left out. On a page that says
`<!-- run in order -->` each block runs where it stands, and finds what those before it have made.
`<!-- when tested: this -> that -->` makes a page quicker here than for its reader.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from .forked import run_forked

PROJECT = Path(__file__).parents[1]
DOCUMENTS = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- not run: ([^\n]+?) -->\n+)?^```(sh|python|js [\w/.]+)\n(.*?)^```", re.DOTALL | re.MULTILINE
)
LIMIT = 600  # seconds for one snippet, on a machine that is busy with others
QUICKER = re.compile(r"<!-- when tested: (.+?) -> (.+?) -->\n")


@dataclass(frozen=True)
class Snippet:
    """Something a document tells its reader to run."""

    kind: str
    text: str
    not_run: str

    @property
    def arguments(self) -> list[str]:
        """The same as a command for this very Python."""
        if self.kind == "python":
            return [sys.executable, "-c", self.text]
        program, *rest = shlex.split(self.text, comments=True)
        return [sys.executable, *(["-m", "regard"] if program == "regard" else []), *rest]


def read_snippets(page: str) -> list[Snippet]:
    """Every command line of a page in order, then its program, or all blocks where they stand."""
    found, programs = [], {}
    for reason, kind, block in BLOCK.findall(quicker(page)):
        if kind == "python" and "<!-- run in order -->" in page:
            found.append(Snippet(kind, block, reason))
        elif kind.startswith("js "):
            found.append(Snippet("python", write_file(kind.removeprefix("js "), block), reason))
        elif kind == "python":
            programs.setdefault(reason, []).append(block)
        else:
            lines = (line.strip().removeprefix("$ ") for line in block.splitlines())
            calls = (line for line in lines if line.split(" ")[0] in ("regard", "python"))
            found += [Snippet(kind, line, reason) for line in calls]
    return found + [Snippet("python", "\n".join(blocks), reason) for reason, blocks in programs.items()]


def write_file(path: str, text: str) -> str:
    """A program that writes a file which a page shows."""
    return f"""from pathlib import Path
file = Path({path!r})
file.parent.mkdir(parents=True, exist_ok=True)
file.write_text({text!r}, encoding="utf-8")
"""


def quicker(page: str) -> str:
    """The page with what it says to replace when it is tested."""
    changes, page = QUICKER.findall(page), QUICKER.sub("", page)
    for old, new in changes:
        assert old in page, f"nothing to replace: {old}"
        page = page.replace(old, new)
    return page


def run(snippet: Snippet, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a snippet as its reader would."""
    if os.name != "nt" and snippet.arguments[1] in ("-m", "-c"):
        return run_forked(snippet.arguments[1:], folder, LIMIT)
    return subprocess.run(
        snippet.arguments, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=LIMIT
    )


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_what_a_document_says_to_run_runs(page, tmp_path, record_property):
    for snippet in read_snippets(page.read_text(encoding="utf-8")):
        if snippet.not_run:
            record_property(
                "summary", f"{page.name}: not run, {snippet.not_run}: {snippet.text.splitlines()[0]}"
            )
            continue
        result = run(snippet, tmp_path)
        assert result.returncode == 0, f"{snippet.text}\n{result.stderr}"


def test_snippets_are_found_and_a_broken_one_fails(tmp_path):
    page = """
```sh
make test
regard doctor   # a remark
$ python -m regard --version
```

<!-- not run: needs a network -->
```sh
regard fetch
```

```python
reason = "broken"
```

```python
raise SystemExit(reason)
```

```text
regard is not a command here
```
"""
    doctor, version, fetch, program = read_snippets(page)
    assert doctor.arguments[1:] == ["-m", "regard", "doctor"]
    assert version.arguments[1:] == ["-m", "regard", "--version"]
    assert (doctor.not_run, fetch.not_run) == ("", "needs a network")
    assert run(program, tmp_path).stderr == "broken\n"


def test_a_page_can_be_run_in_order():
    page = "```python\n1\n```\n```sh\nregard doctor\n```\n```python\n2\n```\n"
    assert [snippet.text.strip() for snippet in read_snippets(page)] == ["regard doctor", "1\n\n2"]
    in_order = read_snippets(f"<!-- run in order -->\n{page}")
    assert [snippet.text.strip() for snippet in in_order] == ["1", "regard doctor", "2"]


def test_a_file_that_a_page_shows_is_written(tmp_path):
    (snippet,) = read_snippets("```js view/tabs/new/tab.js\nexport const NEW = '\\n';\n```\n")
    assert run(snippet, tmp_path).returncode == 0
    assert (tmp_path / "view/tabs/new/tab.js").read_text(encoding="utf-8") == "export const NEW = '\\n';\n"


def test_a_page_can_be_quicker_when_tested():
    page = "<!-- when tested: steps=300 -> steps=8 -->\n```sh\nregard train --set training.steps=300\n```\n"
    assert [snippet.text for snippet in read_snippets(page)] == ["regard train --set training.steps=8"]
    with pytest.raises(AssertionError, match="nothing to replace"):
        read_snippets(page.replace("training.steps=300", "training.steps=30"))


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_links_to_files_of_the_project_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def pictures_of(page: Path) -> list[str]:
    """What a page shows as pictures, as it names them."""
    found = re.findall(r'(?:src|srcset)="([^"]+)"|!\[[^]]*]\(([^)]+)\)', page.read_text(encoding="utf-8"))
    return [in_html or in_markdown for in_html, in_markdown in found]


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_pictures_are_there_and_are_put_into_words(page):
    assert [path for path in pictures_of(page) if not (page.parent / path).is_file()] == []
    text = page.read_text(encoding="utf-8")
    wordless = [tag for tag in re.findall(r"<img [^>]*>", text) if not re.search(r'alt="[^"]{20,}"', tag)]
    assert wordless + re.findall(r"!\[.{0,19}]\(.*", text) == []
