"""Waits until its standard input closes, then ends every process of a run folder and removes the folder.

The test run holds the other end of the pipe, so this happens even when the run is killed.
"""

import shutil
import sys
from pathlib import Path

from infra.native.supervise import end, leftovers

if __name__ == "__main__":
    run = Path(sys.argv[1])
    sys.stdin.read()
    end(leftovers(run))
    shutil.rmtree(run.parent, ignore_errors=True)
