"""`replayfloor doctor`: reads a deployment, and says what is wrong with it and what to do.

Readers (`read_*.py`) fetch facts and judge nothing; checks (`check_*.py`) are pure functions from
facts to findings; `report.py` prints them. Nothing here writes to what it looks at.
"""

from replayfloor.server.doctor.findings import Finding, Level, exit_code, worst
from replayfloor.server.doctor.limits import Limits

__all__ = ["Finding", "Level", "Limits", "exit_code", "worst"]
