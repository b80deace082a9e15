"""What a compacted, holed or partial copy of a log may be asked, held against the whole log."""
