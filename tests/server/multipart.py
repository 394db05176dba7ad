"""Multipart bodies as browsers and HTTP clients write them, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One part: `filename` and `content_type` as most clients send them for a file."""

    name: str
    content: bytes = b""
    filename: str | None = None
    content_type: str | None = None

    def encode(self) -> bytes:
        """Return headers and content."""
        disposition = f'Content-Disposition: form-data; name="{self.name}"'
        if self.filename is not None:
            disposition += f'; filename="{self.filename}"'
        lines = [disposition]
        if self.content_type is not None:
            lines.append(f"Content-Type: {self.content_type}")
        return "\r\n".join([*lines, "", ""]).encode() + self.content


def write(parts: Sequence[Part | bytes], boundary: bytes = b"boundary") -> bytes:
    """Return a body; a part in bytes is written as it is."""
    delimiter = b"--" + boundary
    encoded = [part if isinstance(part, bytes) else part.encode() for part in parts]
    return (
        b"".join(delimiter + b"\r\n" + part + b"\r\n" for part in encoded) + delimiter + b"--\r\n"
    )


def content_type(boundary: bytes = b"boundary") -> bytes:
    """Return the header's value."""
    return b"multipart/form-data; boundary=" + boundary
