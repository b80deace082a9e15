"""Proofs from a compacted log: which facts are certain, although the cleaner has removed records.

The word *offset* means a log offset in this room.

Kafka's cleaner removes a record if a later record of its key is in the offset map (``Cleaner.shouldRetainRecord``). It
also removes tombstones after ``delete.retention.ms``, and records of aborted transactions. It keeps the last record of
each key. It never touches the active segment, or offsets at or after the last stable offset
(``LogCleanerManager.cleanableOffsets``). A round of the cleaner goes from low offsets to high ones. So if the cleaner
has removed a record, it has also removed all older records of the same key.

Four rules follow. C is the offset after the last missing offset of a copy. B is the base offset of its newest segment.

1. Everything is proven from the higher of B and C on. Between C and B, a key is proven from its first record on.
2. The value of a key is proven from one of its records to the next one that survives in the same copy.
3. An offset that no file covers is a gap. A gap proves nothing: it may hide a record of any key.
4. Assume that a copy has a record of a key, and lacks a newer record of the key that another copy has. Then the newer
   record was never in the log of the first copy, or its transaction was aborted. Cleaning alone does not leave such a
   copy.

A *copy* is the files of a log partition in one folder of a dump, or the records of a log partition that a consumer
exported. Each copy shows the log at its own moment. Modules, from the bottom:

- ``copies``: the offsets that a copy has;
- ``ranges``, ``history``: the ranges of a log partition in which nothing is missing, from all its copies;
- ``spans``: these ranges as times, to decide when something began or ended;
- ``groups``, ``offsets``: the offset from which groups and committed offsets are proven;
- ``past``: the time since which log partitions are complete, for questions;
- ``anchors``, ``same_log``, ``lost_tail``: whether copies come from one log, and which records an election discarded.
"""
