"""The row of brokers' logs: a gigabyte of two brokers' lines. A group coordinator wrote one line in a hundred."""

import shutil
from functools import partial
from pathlib import Path

from benchmarks.measured import Measured, Setting, seconds
from coordinator_replay.pipeline.broker_logs.read import LogContext, find_logs, merge_lines, read_log
from coordinator_replay.pipeline.bucket_files import Place
from coordinator_replay.pipeline.stage import SparkStages

SIZE, BROKERS, COORDINATOR_LINES_PERCENT = 1_000_000_000, 2, 1
WANTED_SECONDS = 10.0
_BLOCK_LINES = 100_000
_OTHER = (
    "INFO [Partition payments-{number} broker={broker}] ISR updated to 1,2,3  and version updated to {number} "
    "(kafka.cluster.Partition)"
)
_BEGINS = (
    "INFO [GroupCoordinator id={broker} topic=__consumer_offsets partition={partition}] Preparing to rebalance group "
    "group-{number} in state PreparingRebalance with old generation {number} (reason: removing member c-{number} on "
    "heartbeat expiration). (org.apache.kafka.coordinator.group.GroupMetadataManager)"
)


def _block(broker: int) -> bytes:
    """Return the lines of a day, in Kafka's own layout."""
    lines = []
    for number in range(_BLOCK_LINES):
        at = divmod(number * 86_400_000 // _BLOCK_LINES, 1000)
        clock = f"{at[0] // 3600:02}:{at[0] // 60 % 60:02}:{at[0] % 60:02},{at[1]:03}"
        text = _BEGINS if number * COORDINATOR_LINES_PERCENT % 100 == 0 else _OTHER
        lines.append(f"[2026-01-01 {clock}] {text.format(broker=broker, number=number, partition=number % 50)}\n")
    return "".join(lines).encode()


def _write(path: Path, broker: int) -> int:
    """Write a log, and return the number of a coordinator's lines in it."""
    block, written, days = _block(broker), 0, 0
    with path.open("wb") as log:
        while written < SIZE // BROKERS:
            date = f"[20{days // 336:02}-{days // 28 % 12 + 1:02}-{days % 28 + 1:02} "
            written += log.write(block.replace(b"[2026-01-01 ", date.encode()))
            days += 1
    return days * _BLOCK_LINES * COORDINATOR_LINES_PERCENT // 100


def read_broker_logs(setting: Setting) -> Measured:
    """Measure both stages of ``audit --broker-log`` over a gigabyte, without the start-up of Spark."""
    folder = setting.work / "broker-logs"
    folder.mkdir(parents=True)
    lines = sum(_write(folder / f"server-{broker}.log", broker) for broker in range(BROKERS))
    stages = SparkStages(setting.spark)
    out = setting.work / "broker-log-rows"

    def ours() -> None:
        shutil.rmtree(out, ignore_errors=True)
        place = Place(warehouse=str(out), cluster="default", folder=str(out / "staged"))
        context = LogContext(place=place, zone="UTC", rebalances=[], earlier={})
        logs = find_logs([str(folder)], "UTC")
        found = stages.run("read logs", logs, partial(read_log, context=context), lambda file: file.size)
        share = [file for one in found for file in one.files]
        [files] = stages.run("put lines together", [share], partial(merge_lines, existing=[], place=place))
        if sum(file.rows for file in files) != lines:
            raise SystemExit(f"{sum(file.rows for file in files)} of {lines} lines of a coordinator were found")

    took = min(seconds(ours) for _ in range(setting.repeat))
    shutil.rmtree(folder)
    return Measured(
        name="broker-logs",
        ours="audit --broker-log over 1 GB, 1 % of it of a coordinator, start-up aside",
        baseline="100 MB a second",
        ours_seconds=took,
        baseline_seconds=WANTED_SECONDS,
        ratio=took / WANTED_SECONDS,
        wanted="<= 1 (10 s)",
        holds=took <= WANTED_SECONDS,
    )
