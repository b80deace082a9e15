"""Speed, told as ratios: each row measures ours and a baseline side by side in one run."""
