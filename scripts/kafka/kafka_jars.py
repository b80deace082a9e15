"""Kafka's own classes, ready to run: jars found by Maven once, the few Java sources here compiled against them.

Everything is kept under ``target/`` and looked at again only when the pom or the sources change, so that later starts
touch neither Maven nor the network.
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
    """Where a program is: under JAVA_HOME for those of Java, else on the PATH."""
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
    """Test workers may all ask for the classes at once; one builds, the others wait."""
    TARGET.mkdir(exist_ok=True)
    with (TARGET / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _jars(version: str | None) -> str:
    """Class path of Kafka's jars, from the note of an earlier run if pom and jars are as they were."""
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
    # Only a whole note gets the name that is looked for.
    fresh.replace(note)
    return note.read_text()


def _classes(jars: str) -> Path:
    """Folder of the compiled sources; a compiler's complaint is an error of ours and is raised as such."""
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
    """Class path of Kafka's jars and our compiled classes, built where it is missing or out of date.

    Args:
        version: of Kafka, without our classes then; None for that of the pom.

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
    """The command that runs a class of Kafka's or ours.

    Args:
        main_class: the class with the ``main`` method.
        arguments: what it is called with.
        options: options of the JVM, such as ``-Xmx512m``.
        properties: Java system properties. Unless they say otherwise only warnings are logged, on standard error.
        version: of Kafka, for its own classes only; None for that of the pom.

    Raises:
        PrerequisiteError: Maven or a JDK is missing, or Maven could not fetch the jars.
    """
    class_path = kafka_classpath(version)
    logging = {"org.slf4j.simpleLogger.defaultLogLevel": "warn"}
    definitions = [f"-D{name}={value}" for name, value in {**logging, **(properties or {})}.items()]
    java = program("java", f"Kafka needs Java {_OLDEST_JAVA} or newer")
    return [java, *options, *definitions, "-cp", class_path, main_class, *arguments]


def time_decode_command(folder: Path, repetitions: int, warm_ups: int = 6) -> list[str]:
    """The command that times Kafka's decoding of every ``.log`` under a folder, on one thread.

    It prints one JSON line: ``records`` and ``bytes`` of one repetition, ``seconds`` of each after the warm-ups.
    """
    # Serial collection: the baseline is one thread, and a concurrent collector would be a second one.
    options = ["-Xms1g", "-Xmx1g", "-XX:+UseSerialGC"]
    arguments = [str(folder), str(repetitions), str(warm_ups)]
    return java_command("coordinatorreplay.TimeDecode", *arguments, options=options)


def dump_log_command(files: Iterable[Path]) -> list[str]:
    """The command ``kafka-dump-log --offsets-decoder`` for some segments."""
    listed = ",".join(map(str, files))
    return java_command("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", listed)
