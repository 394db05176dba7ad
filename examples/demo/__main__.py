"""The demo: payments through lost replies, duplicates and killed processes, then a count.

Started as a folder, `python examples/demo`, so the modules here import each other by bare names.
"""

from __future__ import annotations

import sys

from run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
