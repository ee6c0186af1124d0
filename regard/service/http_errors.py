"""What the service answers when it cannot do what was asked: a status and one sentence.

Refused          400    a request that cannot work as it is
├── NotThere     404    a model, a trace or a file that is not here
├── Gone         404    a trace that was let go; asked for again, it comes back
├── Busy         409    it runs already
├── TooLarge     413    more bytes than are read
├── Malformed    422    not what the contract says
└── NotReady     503    a model that cannot answer yet
"""

from __future__ import annotations

from regard.errors import UsageError


class Refused(UsageError):
    """A request that cannot work as it is."""

    status = 400

    def as_dict(self) -> dict[str, object]:
        """What the page is told."""
        return {"error": str(self)}


class NotThere(Refused):
    """A model, a trace or a file that is not here."""

    status = 404


class Gone(Refused):
    """A trace that was let go."""

    status = 404

    def as_dict(self) -> dict[str, object]:
        """The page may ask for the same trace once more."""
        return {**super().as_dict(), "gone": True}


class Busy(Refused):
    """It runs already."""

    status = 409


class TooLarge(Refused):
    """More bytes than are read."""

    status = 413


class Malformed(Refused):
    """Not what the contract says."""

    status = 422


class NotReady(Refused):
    """A model that cannot answer yet."""

    status = 503
