"""The engine process: runs an experiment's cases in fresh workers, journals everything."""
