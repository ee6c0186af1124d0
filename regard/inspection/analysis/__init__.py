"""Measurements on a record: steps, rankings, ablation, comparison, logit lens, rollout."""
