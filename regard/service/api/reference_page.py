"""/docs: the OpenAPI schema as a page without scripts and without other hosts."""

from __future__ import annotations

import json
from html import escape
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; font-size: 1.15rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #8884 }
pre { padding: .8rem; overflow-x: auto }
code, pre { background: #8882; border-radius: 4px }
:root { color-scheme: light dark }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Regard API</title><link rel="stylesheet" href="/docs/style.css"></head>
<body><h1>Regard API</h1>
<p>Models: {models}. The schema for programs is <a href="/openapi.json">/openapi.json</a>.
Errors are <code>{{"error": {{"message", "type", "param", "code"}}}}</code>.</p>
{routes}
</body></html>
"""
LIMITS = {
    "minimum": "≥ ", "exclusiveMinimum": "> ", "maximum": "≤ ", "exclusiveMaximum": "< ", "maxLength": "≤ ",
    "maxItems": "≤ ",
}  # fmt: skip
EXAMPLES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "the cat", "max_tokens": 16, "seed": 1},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/translate": {"text": "the cat sleeps", "beams": 4, "n_best": 2},
    "/v1/embeddings": {"input": ["the cat sleeps", "the dog sleeps"]},
    "/v1/fill": {"text": "the [MASK] sleeps"},
    "/v1/classify": {"text": "a fine film"},
    "/v1/inspect": {"text": "the cat sleeps", "layer": 0, "head": 0},
}


def reference_page(schema: dict[str, Any], models: list[str], address: str) -> str:
    """The page of a schema."""
    routes = [
        _route(schema, method, path, operation, models, address)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    ]
    names = ", ".join(f"<code>{escape(name)}</code>" for name in models)
    return PAGE.format(models=names, routes="\n".join(routes))


def _route(
    schema: dict[str, Any], method: str, path: str, operation: dict[str, Any], models: list[str], address: str
) -> str:
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}</p>"]
    if "requestBody" in operation:
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        parts.append(_fields(schema["components"]["schemas"][reference.rpartition("/")[2]]))
    if path in EXAMPLES:
        body = json.dumps({"model": models[0] if models else "MODEL", **EXAMPLES[path]})
        command = f"curl {address}{path} -H 'Content-Type: application/json' -d '{body}'"
        parts.append(f"<pre>{escape(command)}</pre>")
    return "\n".join(parts)


def _fields(model: dict[str, Any]) -> str:
    required = set(model.get("required", ()))
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field))}</td>"
        f"<td>{'required' if name in required else escape(json.dumps(field.get('default')))}</td>"
        f"<td>{escape(field.get('description', ''))}</td></tr>"
        for name, field in model["properties"].items()
    ]
    head = "<tr><th>field</th><th>type</th><th>default</th><th>meaning</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _kind(field: dict[str, Any]) -> str:
    """The type of a field with its limits."""
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2]
    if "anyOf" in field:
        kinds = [_kind(option) for option in field["anyOf"] if option.get("type") != "null"]
        return " or ".join(kinds) or "null"
    if "enum" in field or "const" in field:
        return " | ".join(map(str, field.get("enum", [field.get("const")])))
    kind = str(field.get("type", "any"))
    if kind == "array":
        kind = f"list of {_kind(field.get('items', {}))}"
    limits = [f"{sign}{field[name]}" for name, sign in LIMITS.items() if name in field]
    return f"{kind} ({', '.join(limits)})" if limits else kind
