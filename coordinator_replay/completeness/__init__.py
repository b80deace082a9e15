"""Theory of what a compacted log proves, and its rules; every other room asks this one.

Kafka's cleaner removes a record if a later record of its key is in the offset map (``Cleaner.shouldRetainRecord``). It
removes a tombstone after ``delete.retention.ms``, and the records of aborted transactions. It keeps the last record of
each key, and it never touches the active segment or what lies at or behind the last stable offset
(``LogCleanerManager.cleanableOffsets``). A round goes from low offsets to high ones, so an older record of a key never
outlives a newer one that the cleaner removed. Four rules follow. In them, C is the offset behind the last missing one
of a copy, and B is the base offset of its newest segment.

1. Everything from the later of B and C on is proven. Between C and B a key is proven from its first record on.
2. The value of a key is proven from one of its records to the next one that survives in the same copy.
3. An offset that no file covers is a gap. A gap proves nothing: it may hide a record of any key.
4. If a copy holds an older record of a key and lacks a newer one that another copy has, the newer one was never in the
   log of that copy, or its transaction was aborted. Cleaning alone does not leave such a copy.

A *copy* is what one dump has of a log partition in one folder, or what a consumer exported of it. Each copy is a moment
of its own. Modules, from the bottom:

- ``copies``: the offsets that a copy has;
- ``ranges``, ``history``: the ranges of a log partition in which nothing is missing, from all its copies;
- ``spans``: the same as times, for what begins and ends;
- ``groups``, ``offsets``: from where on groups and committed offsets are proven;
- ``past``: since when the past of log partitions is complete, for questions;
- ``anchors``, ``same_log``, ``lost_tail``: whether copies are of one log, and which records an election has lost.
"""
