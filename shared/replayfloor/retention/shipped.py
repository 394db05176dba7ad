"""The catalogue that a policy file is read against: what is shipped, and what the file adds."""

from __future__ import annotations

from replayfloor.retention.lookup import Catalogue


def shipped_catalogue(text: str, file: str, prefix: tuple[str, ...]) -> Catalogue:
    """Return the shipped catalogue, with what a policy file changes of it and adds to it.

    `text` is the file's content, `file` its name for messages and `prefix` the table below which
    its tables stand. Raises PolicyError.
    """
    # The catalogue's reader finds the user's file with the help of `files`, which needs this.
    from replayfloor.retention.providers_files import shipped_rows
    from replayfloor.retention.providers_own import overridden
    from replayfloor.retention.providers_terms import RowCatalogue

    return RowCatalogue(overridden(shipped_rows(), text, file, prefix))
