"""Which run is watched, how its journal is followed, how runs are started; draws nothing."""
