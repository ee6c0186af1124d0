"""The OpenAPI schema against the application: requests drawn from it, right and wrong, by schemathesis."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from regard.service.api.application import ROUTES
from tests.service.api.conftest import HOME

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")
checks = pytest.importorskip("schemathesis.checks")
openapi_checks = pytest.importorskip("schemathesis.specs.openapi.checks")

pytestmark = pytest.mark.xdist_group("serve")

MODELS = {
    "/v1/completions": "lm", "/v1/chat/completions": "chat", "/v1/translate": "demo", "/v1/inspect": "demo",
    "/v1/embeddings": "fill", "/v1/fill": "fill", "/v1/classify": "classify",
}  # fmt: skip
CHECKS = (
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
)
SETTINGS = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def send(client, case):
    """Send a case as the client of the tests spells it."""
    values = case.as_transport_kwargs(base_url=HOME)
    values["content"] = values.get("data")
    names = ("method", "url", "json", "headers", "params", "content")
    return client.request(**{name: values[name] for name in names if values.get(name) is not None})


def usable(body: dict, path: str) -> dict:
    """A body with a model that is served, and with sizes that it has."""
    body = {**body, "model": MODELS[path]}
    for name in ("max_tokens", "max_completion_tokens", "min_tokens", "layer", "head", "dimensions"):
        body.pop(name, None)
    return body


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_what_the_schema_allows_is_answered_as_it_says(api_app, api_client, route):
    operation = schemathesis.openapi.from_dict(api_app.state.schema)[route.path][route.method]
    seen: Counter[int] = Counter()

    @SETTINGS
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE))
    def run(case):
        if isinstance(case.body, dict):
            case.body = usable(case.body, route.path)
        answer = send(api_client, case)
        seen[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)

    run()
    assert seen[200] or route.path_parameter or route.path == "/v1/fill", seen


@pytest.mark.parametrize("route", [each for each in ROUTES if each.body], ids=lambda route: route.path)
def test_what_the_schema_forbids_is_refused(api_app, api_client, route):
    operation = schemathesis.openapi.from_dict(api_app.state.schema)[route.path][route.method]

    @SETTINGS
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    def run(case):
        answer = send(api_client, case)
        case.validate_response(answer, checks=(*CHECKS, openapi_checks.negative_data_rejection))
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}

    run()
    assert api_client.get("/health").json() == {"status": "ok"}
