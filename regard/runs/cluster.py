"""What a run needs on many devices: memory of a rank, speed, communication, time and cost, calculated.

The calculation takes the datasheet of a device and a share of its speed that training reaches. It needs no
such device and no text. tests/runs/test_cluster.py compares it with counted operations, saved activations
and optimizer states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.model.config import ModelConfig
from regard.model.transformer import build_model, count_parameters
from regard.runs.recipe import Recipe, find_task

FLOAT = 4  # bytes; weights, gradients and optimizer states are float32 in every precision
RANKS_OF_A_NODE = 8
KERNEL_SECONDS = 8e-6  # to start one operation on an accelerator
KERNELS_OF_A_BLOCK = 70  # forward, backward and update
RESERVED_BYTES = 1.5e9  # of the device's runtime, and chunks of logits
DAY = 86_400.0


@dataclass(frozen=True)
class Device:
    """An accelerator and its links; the defaults are the datasheet of an NVIDIA A100 with 80 GB."""

    teraflops: float = 312.0  # of dense matrix products in the precision of training
    memory: float = 80.0  # GB
    node_bandwidth: float = 300.0  # GB/s of one device to the others of its machine, one way
    bandwidth: float = 25.0  # GB/s of one device to other machines, one way
    efficiency: float = 0.4  # share of `teraflops` that training reaches
    price: float | None = None  # of one device for an hour


@dataclass(frozen=True)
class Job:
    """The sizes of a run that decide what it costs."""

    config: ModelConfig
    weights: int
    sides: int
    step_tokens: int  # of one side
    micro_batch: int  # of one side, largest
    steps: int
    strategy: str
    optimizer: str
    averages: int  # copies of the weights that averaging keeps
    is_half: bool  # bfloat16
    is_checkpointed: bool

    @classmethod
    def of(cls, recipe: Recipe) -> Job:
        """The job of a recipe; its vocabulary is taken to be full."""
        task, training, averaging = find_task(recipe.task), recipe.training, recipe.averaging
        sizes = {**task.placeholder_sizes(), "vocabulary": recipe.tokenizer.vocabulary}
        config = recipe.model_config(**sizes)
        return cls(
            config,
            count_parameters(build_model(config, device="meta")),
            2 if config.family == "encoder-decoder" else 1,
            training.step_tokens,
            round(training.batch_tokens),
            training.steps,
            recipe.distributed.strategy,
            recipe.optimizer.name,
            {"ema": 1, "last": averaging.last}.get(averaging.name, 0),
            training.precision != "float32",
            training.activation_checkpointing,
        )

    @property
    def blocks(self) -> int:
        """Blocks of all stacks."""
        layers = self.config.layers
        return layers + (self.config.decoder_layers or layers) if self.sides == 2 else layers

    @property
    def block_weights(self) -> int:
        """Weights of the matrices of all blocks; without embeddings, which look up and do not multiply."""
        config = self.config
        shapes = build_model(config, device="meta").named_parameters()
        return sum(p.numel() for name, p in shapes if ".blocks." in name and p.dim() == 2)

    @property
    def flops_per_token(self) -> float:
        """Operations of training for each token of any side: 6 for each weight, and attention."""
        config = self.config
        head = config.width * config.output_vocabulary * (config.output == "words")
        attention = self.blocks * config.context * config.width  # half of the positions, on average
        if self.sides == 2:
            attention = 0  # of sentences, which are short
        once_more = 4 / 3 if self.is_checkpointed else 1
        return 6 * once_more * (self.block_weights + head + attention) / self.sides

    @property
    def activation_bytes(self) -> float:
        """Bytes that the backward pass needs for each token of a side, in all blocks."""
        config, half = self.config, 0.65 if self.is_half else 1.0
        ratio = config.feed_forward_width / config.width
        pair = self.sides == 2
        dropout = (22 if pair else 9) if config.dropout else 0
        block = (94 if pair else 50) + 8 * ratio + dropout
        layers = self.blocks / self.sides
        if self.is_checkpointed:
            return config.width * (FLOAT * self.blocks + half * block)
        return half * block * layers * config.width

    def state_bytes(self) -> float:
        """Weights, gradients, optimizer states and averages."""
        matrices = self.block_weights if self.optimizer == "muon" else 0
        moments = 2 * self.weights - matrices  # Muon has one moment for the matrices of the blocks
        return FLOAT * ((2 + self.averages) * self.weights + moments)


@dataclass(frozen=True)
class Estimate:
    """What a job needs on a number of devices."""

    gpus: int
    memory: float  # bytes of a rank
    fits: bool
    tokens_per_second: float  # of all sides
    compute_seconds: float  # of a step
    communication_seconds: float  # of a step, if it were not behind the computation
    communication_bytes: float  # that a rank sends in a step
    step_seconds: float
    days: float
    cost: float | None


def estimate(job: Job, device: Device, gpus: int) -> Estimate:
    """The estimate for a number of devices."""
    tokens = job.sides * job.step_tokens
    operations = job.flops_per_token * tokens / gpus
    micro_batches = math.ceil(job.step_tokens / gpus / job.micro_batch)
    starts = micro_batches * job.blocks * KERNELS_OF_A_BLOCK * KERNEL_SECONDS
    compute = max(operations / (device.teraflops * 1e12 * device.efficiency), starts)
    sent = sent_bytes(job, gpus, micro_batches)
    link = device.node_bandwidth if gpus <= RANKS_OF_A_NODE else device.bandwidth
    communication = sent / (link * 1e9)
    hidden = compute if job.strategy == "fsdp" else 2 / 3 * compute  # ddp sends in the backward pass
    step = compute + max(0.0, communication - hidden)
    seconds, memory = step * job.steps, rank_bytes(job, gpus)
    return Estimate(
        gpus,
        memory,
        memory <= device.memory * 1e9,
        tokens / step,
        compute,
        communication,
        sent,
        step,
        seconds / DAY,
        None if device.price is None else gpus * seconds / 3600 * device.price,
    )


def sent_bytes(job: Job, gpus: int, micro_batches: int = 1) -> float:
    """Bytes that a rank sends in a step.

    ddp sums the gradients once: 2 (n - 1) / n of them. fsdp gathers the weights for the forward and for the
    backward pass of each micro-batch and scatters the gradients once. Muon gathers the matrices once more.
    """
    share = (gpus - 1) / gpus
    if job.strategy == "ddp":
        return 2 * share * FLOAT * job.weights
    gathered = 2 * micro_batches * job.weights
    matrices = job.block_weights if job.optimizer == "muon" else 0
    return share * FLOAT * (gathered + job.weights + matrices)


def rank_bytes(job: Job, gpus: int) -> float:
    """Memory of a rank: states, activations of a micro-batch, gathered weights, and the runtime's."""
    tokens = min(job.micro_batch, math.ceil(job.step_tokens / gpus))
    states, gathered = job.state_bytes(), 0.0
    if job.strategy == "fsdp":
        states = states / gpus
        gathered = FLOAT * job.weights  # a whole copy for validation; blocks in training need less
    return states + gathered + job.activation_bytes * tokens + RESERVED_BYTES
