"""Benchmarks of speed, as ratios: each row measures our program and a baseline in the same run."""
