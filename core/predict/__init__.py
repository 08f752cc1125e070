"""What a case needs before it runs: FLOPs, bytes, what fits, advice."""
