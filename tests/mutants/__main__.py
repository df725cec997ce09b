"""Is every check worth something? Each protection is taken out of a copy of the source, and a test has to go red.

`make test-mutants`, or one: `make test-mutants M=lease`. Exit status 1 if a mutant survives, or if the text that
it changes is no longer there.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from infra.native.stack import PROJECT
from tests.mutants.table import MUTANTS, Mutant, Stale

SOURCE = ("examples", "infra", "loadtest", "services", "shared", "tests", "pyproject.toml", "docker-compose.yml")
LONGEST_S = 240


def main() -> int:
    wanted = [mutant for mutant in MUTANTS if not sys.argv[1:] or sys.argv[1] in mutant.name]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder)
        copy.chmod(0o711)
        for name in SOURCE:
            source = PROJECT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        (copy / ".run").mkdir()
        (copy / ".run" / "cache").symlink_to(PROJECT / ".run" / "cache")
        survivors = [mutant.name for mutant in wanted if not dies(mutant, copy)]
    print(f"{len(wanted) - len(survivors)} of {len(wanted)} mutants died in {time.monotonic() - began:.0f} s")
    for name in survivors:
        print(f"  SURVIVED  {name}")
    return 1 if survivors else 0


def dies(mutant: Mutant, copy: Path) -> bool:
    file = copy / mutant.file
    original = file.read_text()
    try:
        file.write_text(mutant.applied(original))
    except Stale as stale:
        print(f"✘ {mutant.name}\n    {stale}")
        return False
    try:
        red = red_tests(mutant, copy)
    finally:
        file.write_text(original)
    print(f"{'✔' if red else '✘'} {mutant.name}", *(f"    {name}" for name in red or ["no test noticed"]), sep="\n")
    return bool(red)


def red_tests(mutant: Mutant, copy: Path) -> list[str]:
    """The first test that fails is enough."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--timeout=90"]
    try:
        run = subprocess.run(
            [*command, *shlex.split(mutant.tests)], cwd=copy, capture_output=True, text=True, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return [f"{mutant.tests}: does not end"]
    if run.returncode not in (0, 1):
        raise RuntimeError(f"pytest could not run for {mutant.name!r}:\n{run.stdout}{run.stderr}")
    return sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)))


if __name__ == "__main__":
    sys.exit(main())
