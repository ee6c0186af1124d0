"""`regard demo`: a model at work."""

from __future__ import annotations

import typer

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard demo
"""


@commands.command(epilog=EXAMPLES)
def demo() -> None:
    """Build a small model, show its stack and what one forward pass gives."""
    import torch
    from rich.console import Console

    from regard.model.config import ModelConfig
    from regard.model.describe import describe
    from regard.model.transformer import build_model

    torch.manual_seed(0)
    config = ModelConfig.named("tiny", vocabulary=1000)
    model = build_model(config).eval()
    Console().print(describe(model))
    source, target = (torch.randint(config.vocabulary, (1, length)) for length in (9, 6))
    with torch.inference_mode():
        logits = model(source, target)
    print(f"source ids {tuple(source.shape)}, target ids {tuple(target.shape)}, logits {tuple(logits.shape)}")
    print("likeliest ids to follow the last target id:")
    best = logits[0, -1].softmax(-1).topk(3)
    for token, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        print(f"  {token:3}  {probability:.4f}")
    print("These weights are random and know nothing yet; a demo with a trained model is to come.")
