"""Fetches the broker's jars from Maven Central, with the resolver of the PyPI package `jgo`: no Maven, no archive.

Every jar must have the sha256 that kafka-jars.lock names: the resolver only warns about a bad checksum.
`python -m infra.native.kafka_jars --write-lock` writes the lock anew, after a change of VERSION.
"""

import argparse
import hashlib
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

VERSION = "4.3.1"
LOG_BINDING = "2.25.4"
LOCK = Path(__file__).with_name("kafka-jars.lock")


class DownloadFailed(Exception):
    """The jars of Kafka could not be fetched."""


def fetch(cache: Path, progress: Callable[[str], None], *, write_lock: bool = False) -> Path:
    """The folder with all jars, fetched now if it is not there yet. A folder that exists is complete."""
    libs = cache / f"kafka-{VERSION}"
    if libs.exists() and not write_lock:
        return libs
    progress(f"fetching Apache Kafka {VERSION} (about 45 MB, once)")
    unfinished = cache / f"kafka-{VERSION}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    locked = {name: digest for digest, name in (line.split() for line in LOCK.read_text().splitlines())}
    hashes = _download(cache, unfinished, {} if write_lock else locked, progress)
    if write_lock:
        LOCK.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items())))
    elif hashes != locked:
        raise DownloadFailed(f"jars differ from kafka-jars.lock: {sorted(hashes.items() ^ locked.items())}")
    shutil.rmtree(libs, ignore_errors=True)
    unfinished.rename(libs)
    return libs


def _download(cache: Path, folder: Path, locked: dict[str, str], progress: Callable[[str], None]) -> dict[str, str]:
    from jgo.maven import Dependency, MavenContext, PythonResolver

    logging.getLogger("jgo").setLevel(logging.ERROR)
    maven = MavenContext(repo_cache=cache / "maven", resolver=PythonResolver(), timeout=60)
    # raw: its parent POM manages kafka-clients and would turn it into 3.9. Without a binding the broker logs nothing.
    wanted = [
        Dependency(maven.project("org.apache.kafka", "kafka_2.13").at_version(VERSION).artifact()),
        Dependency(
            maven.project("org.apache.logging.log4j", "log4j-slf4j-impl").at_version(LOG_BINDING).artifact(), raw=True
        ),
    ]
    try:
        roots, others = maven.resolver.resolve(wanted)
        jars = [*roots, *others]
        hashes = {}
        for number, jar in enumerate(jars, 1):
            path = _verified(jar.artifact, locked)
            shutil.copy2(path, folder / path.name)
            hashes[path.name] = _sha256(path)
            if number % 10 == 0 or number == len(jars):
                progress(f"  {number} of {len(jars)} jars")
    except (OSError, RuntimeError, ValueError) as error:
        raise DownloadFailed(
            f"Apache Kafka's jars could not be fetched from Maven Central ({error}). "
            "Check the network (and proxy settings), then run `make up` again: it goes on where it stopped."
        ) from error
    return hashes


def _verified(artifact: object, locked: dict[str, str]) -> Path:
    """Once more if the first download was damaged."""
    for _attempt in range(2):
        path = Path(artifact.resolve())  # type: ignore[attr-defined]
        if not locked or _sha256(path) == locked.get(path.name):
            return path
        path.unlink()
    raise DownloadFailed(f"{path.name} does not have the sha256 in kafka-jars.lock")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path(".run/cache"))
    parser.add_argument("--write-lock", action="store_true")
    arguments = parser.parse_args()
    print(fetch(arguments.cache, print, write_lock=arguments.write_lock))
