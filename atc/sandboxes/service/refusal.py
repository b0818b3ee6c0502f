"""Why the service refuses a request: one exception, reported over HTTP or over a run's channel."""

from __future__ import annotations


class Refusal(Exception):
    """The service refuses a request.

    Args:
        status: the HTTP status.
        code: one word for programs and for the metrics.
        message: what was wrong and what to do; never a token, a program or an argument.
        retry_after: whole seconds after which to ask again.
    """

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the HTTP response. The connection is closed: the next try may reach another replica."""
        made = {"Connection": "close"}
        if self.retry_after is not None:
            made["Retry-After"] = str(self.retry_after)
        if self.status == 401:
            made["WWW-Authenticate"] = "Bearer"
        return made

    @property
    def body(self) -> dict[str, object]:
        """The refusal as the body of an HTTP response."""
        return {"error": {"code": self.code, "message": self.message}}
