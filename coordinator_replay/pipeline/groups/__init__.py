"""Groups: their replay by bucket, signs of life, and the topics that their records name."""
