"""The recorded samples beside the tests, and what Kafka's own classes made of them."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
NAMES = sorted(folder.name for folder in DATA.iterdir() if (folder / "segments").is_dir())
EXPORTED = [name for name in NAMES if (DATA / name / "records.jsonl").exists()]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@dataclass(frozen=True)
class Sample:
    """A folder of ``tests/data``."""

    name: str

    @property
    def folder(self) -> Path:
        return DATA / self.name

    @property
    def segments(self) -> str:
        return str(self.folder / "segments")

    @property
    def decoded(self) -> list[dict[str, Any]]:
        """Every record of the current segments as Kafka decoded it, control records included."""
        return lines(self.folder / "decoded.jsonl")

    @property
    def exported(self) -> dict[tuple[int, int], tuple[bytes, bytes | None]]:
        """Key and value by partition and offset, as a consumer saw them."""
        return {
            (row["partition"], row["offset"]): (
                base64.b64decode(row["key"]),
                None if row["payload"] is None else base64.b64decode(row["payload"]),
            )
            for row in lines(self.folder / "records.jsonl")
        }
