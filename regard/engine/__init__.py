"""Everything that steps a model for decoding: the Stepper protocol in numpy, and the torch stepper."""
