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
    best = logits[0, -1].softmax(-1).topk(3)
    print(f"source ids      {tuple(source.shape)}")
    print(f"target ids      {tuple(target.shape)}")
    print(f"logits          {tuple(logits.shape)}")
    print(
        "likeliest next ", *(f"id {i}: {p:.4f}" for p, i in zip(*map(torch.Tensor.tolist, best), strict=True))
    )
    print("These weights are random and know nothing yet; a demo with a trained model is to come.")
