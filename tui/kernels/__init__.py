"""The Kernels view: where a profiled step's time went."""
