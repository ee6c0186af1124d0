"""Metrics for Prometheus: requests, latencies, tokens, queue and batch of each model."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from regard.errors import MissingPackage
from regard.service.api.works import Ticket

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
ROWS = (1, 2, 4, 8, 16, 32, 64)
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"  # set by regard serve --workers


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise MissingPackage(
                "the service needs prometheus-client; install it with pip install 'regard[serve]'"
            ) from None
        self._prometheus = prometheus
        self.registry = registry = prometheus.CollectorRegistry()
        self.requests = prometheus.Counter(
            "regard_requests", "Requests by route and status.", ["route", "status"], registry=registry
        )
        self.seconds = prometheus.Histogram(
            "regard_request_seconds", "From the head of a request to the end of its response.", ["route"],
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.queued = prometheus.Histogram(
            "regard_queue_seconds", "From the arrival of a request to its first step.", ["model"],
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.batch = prometheus.Histogram(
            "regard_batch_rows", "Sequences in a decoding step.", ["model"], buckets=ROWS, registry=registry
        )
        self.tokens = prometheus.Counter(
            "regard_tokens", "Tokens by model and direction.", ["model", "direction"], registry=registry
        )
        self.waiting = prometheus.Gauge(
            "regard_waiting_requests", "Requests that wait.", ["model"], registry=registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        self.running = prometheus.Gauge(
            "regard_running_rows", "Sequences that run.", ["model"], registry=registry,
            multiprocess_mode="livesum",
        )  # fmt: skip

    def of_model(self, name: str) -> ModelMetrics:
        """The observer of a scheduler."""
        families = (self.queued, self.batch, self.waiting, self.running)
        return ModelMetrics(*(family.labels(name) for family in families))

    def count_tokens(self, model: str, read: int, written: int) -> None:
        """Count the tokens of a request."""
        self.tokens.labels(model, "read").inc(read)
        self.tokens.labels(model, "written").inc(written)

    def page(self) -> tuple[bytes, str]:
        """The metrics as text and its media type; of all workers, if there are several."""
        registry = self.registry
        if MULTIPROCESS in os.environ:
            from prometheus_client.multiprocess import MultiProcessCollector

            registry = self._prometheus.CollectorRegistry()
            MultiProcessCollector(registry)
        return self._prometheus.generate_latest(registry), self._prometheus.CONTENT_TYPE_LATEST


@dataclass(frozen=True)
class ModelMetrics:
    """What a scheduler reports."""

    queued: Any
    batch: Any
    waiting: Any
    running: Any

    def stepped(self, rows: int) -> None:
        """A step of so many sequences was computed."""
        self.batch.observe(rows)

    def began(self, ticket: Ticket) -> None:
        """The first work of a ticket begins."""
        self.queued.observe(time.monotonic() - ticket.begun)

    def holds(self, waiting: int, rows: int) -> None:
        """So many requests wait now, and so many sequences run."""
        self.waiting.set(waiting)
        self.running.set(rows)
