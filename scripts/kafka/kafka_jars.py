"""Kafka's own classes, ready to run: jars that Maven fetches, and the few Java sources here, compiled with them.

Everything is kept under ``target/`` until the pom or the sources change. So later starts need neither Maven nor the
network.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from coordinator_replay.errors import PrerequisiteError

FOLDER = Path(__file__).resolve().parent
TARGET = FOLDER / "target"
POM = FOLDER / "pom.xml"
SOURCES = FOLDER / "src"

_OLDEST_JAVA = 17


def program(name: str, reason: str) -> str:
    """Return the path of a program: a program of Java is looked for under JAVA_HOME first, all others on the PATH.

    Raises:
        PrerequisiteError: the program is not installed.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home and name != "mvn" else None
    found = found or shutil.which(name)
    if found is None:
        raise PrerequisiteError(f"{name} is not on this machine; {reason}")
    return found


def _stamp(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let one process build at a time. Other test workers wait."""
    TARGET.mkdir(exist_ok=True)
    with (TARGET / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _jars(version: str | None) -> str:
    """Return the class path of Kafka's jars. Use the note of an earlier run if pom and jars are unchanged."""
    release = [] if version is None else [f"-Dkafka.version={version}"]
    note = TARGET / f"jars-{'-'.join([_stamp([POM])[:16], *([version] if version else [])])}.txt"
    if note.exists():
        class_path = note.read_text()
        if all(Path(jar).exists() for jar in class_path.split(os.pathsep)):
            return class_path
    fresh = TARGET / "jars.txt"
    goal = ["org.apache.maven.plugins:maven-dependency-plugin:build-classpath", f"-Dmdep.outputFile={fresh}"]
    command = [program("mvn", "Maven fetches Kafka's jars"), "-q", "-B", "-f", str(POM), *release, *goal]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        complaint = re.search(r"\[ERROR\] (.*)", run.stdout + run.stderr)
        detail = complaint.group(1) if complaint else f"exit code {run.returncode}"
        raise PrerequisiteError(f"Maven could not fetch Kafka's jars: {detail}")
    # The note gets its final name when it is complete.
    fresh.replace(note)
    return note.read_text()


def _classes(jars: str) -> Path:
    """Return the folder of the compiled sources. If the compiler fails, its error is raised: our sources are wrong."""
    sources = sorted(SOURCES.rglob("*.java"))
    folder = TARGET / f"classes-{_stamp([POM, *sources])[:16]}"
    if not folder.exists():
        fresh = TARGET / "classes"
        shutil.rmtree(fresh, ignore_errors=True)
        javac = program("javac", f"compiling needs a JDK, {_OLDEST_JAVA} or newer")
        options = ["--release", str(_OLDEST_JAVA), "-encoding", "UTF-8", "-Xlint:all", "-cp", jars]
        subprocess.run([javac, *options, "-d", str(fresh), *map(str, sources)], check=True)
        fresh.rename(folder)
    return folder


def kafka_classpath(version: str | None = None) -> str:
    """Return the class path of Kafka's jars and our compiled classes. Fetch and compile what is missing or out of date.

    Args:
        version: version of Kafka, without our classes; None for the version in the pom, with our classes.

    Raises:
        PrerequisiteError: Maven or a JDK is missing, or Maven could not fetch the jars.
    """
    program("java", f"Kafka needs Java {_OLDEST_JAVA} or newer")
    with _one_at_a_time():
        jars = _jars(version)
        return jars if version is not None else f"{_classes(jars)}{os.pathsep}{jars}"


def java_command(
    main_class: str,
    *arguments: str,
    options: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    version: str | None = None,
) -> list[str]:
    """Return the command that runs a class of Kafka or one of our classes.

    Args:
        main_class: the class with the ``main`` method.
        arguments: arguments of the class.
        options: options of the JVM, such as ``-Xmx512m``.
        properties: Java system properties. By default only warnings are logged, on standard error.
        version: version of Kafka, for Kafka's own classes only; None for the version in the pom.

    Raises:
        PrerequisiteError: Maven or a JDK is missing, or Maven could not fetch the jars.
    """
    class_path = kafka_classpath(version)
    logging = {"org.slf4j.simpleLogger.defaultLogLevel": "warn"}
    definitions = [f"-D{name}={value}" for name, value in {**logging, **(properties or {})}.items()]
    java = program("java", f"Kafka needs Java {_OLDEST_JAVA} or newer")
    return [java, *options, *definitions, "-cp", class_path, main_class, *arguments]


def time_decode_command(folder: Path, repetitions: int, warm_ups: int = 6) -> list[str]:
    """Return the command that times Kafka's decoding of every ``.log`` under a folder, on one thread.

    The command prints one JSON line: ``records`` and ``bytes`` of one repetition, ``seconds`` of each repetition after
    the warm-ups.
    """
    # The baseline must use one thread, but a concurrent garbage collector would use a second one.
    options = ["-Xms1g", "-Xmx1g", "-XX:+UseSerialGC"]
    arguments = [str(folder), str(repetitions), str(warm_ups)]
    return java_command("coordinatorreplay.TimeDecode", *arguments, options=options)


def dump_log_command(files: Iterable[Path]) -> list[str]:
    """Return the command ``kafka-dump-log --offsets-decoder`` for some segments."""
    listed = ",".join(map(str, files))
    return java_command("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", listed)
