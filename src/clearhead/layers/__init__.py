"""The parts of a Transformer; they know only torch and `accel`."""
