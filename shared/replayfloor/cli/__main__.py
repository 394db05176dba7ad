"""`python -m replayfloor.cli` is the command `replayfloor`."""

from replayfloor.cli import main

main()
