"""Search over a Stepper: greedy, sampling and beam search. Loads no torch."""
