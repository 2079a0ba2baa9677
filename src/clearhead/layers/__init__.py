"""The parts of the Transformer; they know only torch, and kernels for it."""
