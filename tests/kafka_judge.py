"""Kafka's own record classes as judge: a JVM that is asked in JSON lines what it makes of keys, values and blobs.

Scripts that want the judge put the repository on their path; the jars and the Java side are in ``scripts/kafka``.
"""

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts" / "kafka"))

from kafka_jars import java_command, kafka_classpath

__all__ = ["KafkaJudge", "KafkaKind", "kafka_classpath"]

Answer = dict[str, Any]
"""What Kafka says of a record: keyVersion, kind, key, and either valueVersion and value, or ``tombstone: true``.

Where Kafka can't take the bytes: ``error``, the class of what it threw, and ``message``.
"""


@dataclass(frozen=True, slots=True)
class KafkaKind:
    """A record kind as Kafka's classes declare it; versions are those of the value, both ends included."""

    name: str
    key_version: int
    lowest_version: int
    highest_version: int

    @property
    def versions(self) -> range:
        """Value versions that Kafka reads."""
        return range(self.lowest_version, self.highest_version + 1)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class KafkaJudge:
    """A running judge; ``with`` ends it."""

    def __init__(self) -> None:
        """Start the JVM.

        Raises:
            PrerequisiteError: Maven or a JDK is missing, or Maven could not fetch Kafka's jars.
        """
        # It starts often and lives for seconds: no time for the second compiler or a parallel collector.
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command = java_command("coordinatorreplay.Judge", options=options)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM, which stops at the end of its input."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(30)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def ask_all(self, questions: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """Answers to many questions, in their order."""
        asked, answers = self._process.stdin, self._process.stdout
        if asked is None or answers is None:
            raise RuntimeError("the judge has no pipes")
        lines = "".join(json.dumps(question) + "\n" for question in questions)

        def send() -> None:
            asked.write(lines)
            asked.flush()

        # Written beside the reading, because pipes hold little and both sides would wait for each other.
        sender = threading.Thread(target=send)
        sender.start()
        found = []
        for question in questions:
            line = answers.readline()
            if not line:
                raise RuntimeError(f"the judge ended at {question!r}")
            found.append(json.loads(line))
        sender.join()
        return found

    def ask(self, question: Mapping[str, Any]) -> Answer:
        """The answer to one question."""
        return self.ask_all([question])[0]

    def kinds(self) -> list[KafkaKind]:
        """All record kinds that Kafka knows."""
        return [
            KafkaKind(kind["kind"], kind["keyVersion"], kind["lowestVersion"], kind["highestVersion"])
            for kind in self.ask({"kinds": True})["kinds"]
        ]

    def decode(self, key: bytes | None, value: bytes | None) -> Answer:
        """What Kafka makes of one record."""
        return self.decode_all([(key, value)])[0]

    def decode_all(self, records: Sequence[tuple[bytes | None, bytes | None]]) -> list[Answer]:
        """What Kafka makes of many records, in their order."""
        return self.ask_all([{"key": _text(key), "value": _text(value)} for key, value in records])

    def encode_all(self, records: Sequence[Mapping[str, Any]]) -> list[tuple[bytes, bytes | None]]:
        """Records in the form of an Answer, as the bytes that Kafka writes for them; null value: tombstone."""
        return self._made([{"encode": record} for record in records])

    def random_records(self, key_version: int, version: int, seeds: Sequence[int]) -> list[tuple[bytes, bytes | None]]:
        """Records of one kind and value version, filled at random and written by Kafka; one for each seed."""
        question = {"kind": key_version, "version": version}
        return self._made([{**question, "random": seed} for seed in seeds])

    def _made(self, questions: Sequence[Mapping[str, Any]]) -> list[tuple[bytes, bytes | None]]:
        made: list[tuple[bytes, bytes | None]] = []
        for question, answer in zip(questions, self.ask_all(questions), strict=True):
            key = _bytes(answer.get("key"))
            if key is None:
                raise ValueError(f"Kafka can't write {question!r}: {answer}")
            made.append((key, _bytes(answer["value"])))
        return made

    def subscriptions(self, blobs: Sequence[bytes]) -> list[Answer]:
        """What a consumer reads in ConsumerProtocolSubscription blobs: version, then the fields."""
        return self.ask_all([{"subscription": _text(blob)} for blob in blobs])

    def assignments(self, blobs: Sequence[bytes]) -> list[Answer]:
        """What a consumer reads in ConsumerProtocolAssignment blobs: version, then the fields."""
        return self.ask_all([{"assignment": _text(blob)} for blob in blobs])
