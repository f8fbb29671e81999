"""A small convolutional network that tells pictures apart, trained on the device that pylayout is asked to use.

What `pylayout train` runs, and an example of a training loop: one graph for the scores, made trainable, a loss and Adam
added to it; a second plan of the same network judges with the running statistics.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import training
from .checkpoint import read
from .compilation import compile
from .errors import InvalidArgumentError
from .graph import Graph, Value
from .pictures import Pictures, shifted
from .plan import Plan

__all__ = ["Classifier", "Epoch", "Settings"]

_WIDTHS = (32, 32, 64, 64)  # channels of the convolutions
_POOLED = (1, 3)  # after which of them sizes are halved
_LEAST_POOLED = 4  # smaller pictures are not halved
_MOMENTUM = 0.1  # of running statistics
_JUDGED_AT_ONCE = 512

Array = NDArray[Any]
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Settings:
    epochs: int = 30
    batch: int = 64
    lr: float = 0.003
    seed: int = 0
    math: str = "fp32"  # of training; pictures are judged in fp32


@dataclass
class Epoch:
    """loss: the mean over the epoch's pictures. test_loss, accuracy: of those that are not trained on, after it."""

    number: int
    loss: float
    test_loss: float
    accuracy: float
    lr: float
    seconds: float


@dataclass
class _History:
    epochs: list[Epoch] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # of each step


def first_weights(channels: int, classes: int, seed: int) -> dict[str, Array]:
    """Weights before training, by name (K. He et al., arXiv 1502.01852), and statistics of batch norms."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Array] = {}
    for i, width in enumerate(_WIDTHS):
        deviation = math.sqrt(2 / (9 * channels))
        weights[f"conv{i}.weight"] = (rng.standard_normal((width, channels, 3, 3)) * deviation).astype("f4")
        for name, value in (("mean", 0.0), ("variance", 1.0), ("weight", 1.0), ("bias", 0.0)):
            weights[f"norm{i}.{name}"] = np.full(width, value, "f4")
        channels = width
    weights["linear.weight"] = (rng.standard_normal((classes, channels)) / math.sqrt(channels)).astype("f4")
    weights["linear.bias"] = np.zeros(classes, "f4")
    return weights


def scores(graph: Graph, x: Value, weights: Mapping[str, Value]) -> Value:
    """Appends the network: convolutions with batch norms, the mean over positions, a linear layer. (n, classes)."""
    y = x
    for i in range(len(_WIDTHS)):
        y = graph.conv2d(y, weights[f"conv{i}.weight"], padding=1, name=f"conv{i}")
        norm = [weights[f"norm{i}.{name}"] for name in ("mean", "variance", "weight", "bias")]
        y = graph.batch_norm(y, *norm, activation="relu", name=f"norm{i}")
        if i in _POOLED and min(y.shape[2:]) >= _LEAST_POOLED:
            y = graph.max_pool2d(y, 2, name=f"pool{i}")
    y = graph.flatten(graph.global_avg_pool(y, name="mean"), 1)
    result: Value = graph.linear(y, weights["linear.weight"], weights["linear.bias"], name="linear")
    return result


class Classifier:
    """Trains on one set of pictures and is judged on another. Equal settings give equal results, resumed or not."""

    def __init__(
        self, train: Pictures, test: Pictures, settings: Settings, *, device: str = "cpu", threads: int | None = None
    ) -> None:
        if len(train) < settings.batch:
            raise InvalidArgumentError(
                f"train: a batch is {settings.batch} pictures, expected at most {len(train)} (those to train on)"
            )
        self.train, self.test, self.settings = train, test, settings
        self.history = _History()
        self.steps = -(-len(train) // settings.batch)  # of an epoch; the last one may have fewer pictures
        self._classes = max(train.classes, test.classes)
        self._device, self._threads = device, threads
        channels = train.images.shape[1]
        self._weights = first_weights(channels, self._classes, settings.seed)
        self.plan = self._compile(self._training(), settings.math)
        self._judge = self._compile(self._judging(lambda graph, name: graph.state(name, self._weights[name])))

    @property
    def parameters(self) -> int:
        """The number of weights that are trained."""
        return sum(math.prod(state["shape"]) for state in self.plan.states if state["parameter"])

    def _compile(self, graph: Graph, math: str = "fp32") -> Plan:
        return compile(graph, device=self._device, threads=self._threads, deterministic=True, math=math)

    def _training(self) -> Graph:
        graph = Graph(sizes={"n": self.settings.batch})
        x = graph.input("images", ("n", *self.train.images.shape[1:]))
        weights = {name: graph.constant(value, name) for name, value in self._weights.items()}
        graph.output(scores(graph, x, weights), "scores")
        graph = graph.trainable(momentum=_MOMENTUM)
        loss = graph.cross_entropy(graph.outputs["scores"], graph.input("labels", ("n",), dtype="s64"))
        graph.output(loss, "loss")
        scale = training.LossScale() if self.settings.math == "fp16" else None
        training.adamw(graph, loss, lr=self.settings.lr, loss_scale=scale)
        return graph

    def _judging(self, weight: Callable[[Graph, str], Value]) -> Graph:
        """The network with running statistics, for any number of pictures."""
        graph = Graph(sizes={"n": min(len(self.test), _JUDGED_AT_ONCE)})
        x = graph.input("images", ("n", *self.train.images.shape[1:]))
        graph.output(scores(graph, x, {name: weight(graph, name) for name in self._weights}), "scores")
        return graph

    def trained(self) -> Plan:
        """A plan that gives scores, with the weights as they are now."""
        weights = {name: self.plan.state(name) for name in self._weights}
        return self._compile(self._judging(lambda graph, name: graph.constant(weights[name], name)))

    # ---- training ----

    def run(self, progress: Progress, checkpoint: str | os.PathLike[str] | None = None) -> None:
        """Train up to the last epoch; after each a checkpoint is written, if there is to be one."""
        while len(self.history.epochs) < self.settings.epochs:
            self._run_epoch(progress)
            if checkpoint is not None:
                self.save(checkpoint)

    def _rate(self, step: int) -> float:
        """Falls along half of a cosine from the first step to the last."""
        return 0.5 * self.settings.lr * (1 + math.cos(math.pi * step / (self.steps * self.settings.epochs)))

    def _run_epoch(self, progress: Progress) -> None:
        settings, number = self.settings, len(self.history.epochs)
        began = time.perf_counter()
        rng = np.random.default_rng([settings.seed, number])  # so that a resumed epoch is the same one
        order = rng.permutation(len(self.train))
        losses, counts = [], []
        place = [item["name"] for item in self.plan.outputs].index("loss")
        for i in range(self.steps):
            step = number * self.steps + i
            taken = order[i * settings.batch : (i + 1) * settings.batch]
            self.plan.set_state("lr", np.float32(self._rate(step)))
            results = self.plan.run(shifted(self.train.images[taken], rng), self.train.labels[taken])
            losses.append(float(results[place]))
            counts.append(len(taken))
            known = self.history.epochs
            judged = f", accuracy {100 * known[-1].accuracy:.1f}%" if known else ""
            label = f"epoch {number + 1} of {settings.epochs}: loss {losses[-1]:.3f}{judged}"
            progress(label, step + 1, self.steps * settings.epochs)
        if not np.isfinite(losses).all():
            raise InvalidArgumentError(f"train: the loss is not finite in epoch {number + 1}: expected a smaller lr")
        test_loss, accuracy = self.judge()
        self.history.losses += losses
        seconds = time.perf_counter() - began
        self.history.epochs.append(
            Epoch(number + 1, float(np.average(losses, weights=counts)), test_loss, accuracy, self._rate(step), seconds)
        )

    def judge(self) -> tuple[float, float]:
        """Cross entropy and accuracy on the pictures that are not trained on."""
        given = self._scores_of_test()
        largest = given.max(1, keepdims=True)
        logs = given - largest - np.log(np.exp(given - largest).sum(1, keepdims=True))
        of_labels = logs[np.arange(len(given)), self.test.labels]
        return float(-of_labels.mean()), float((given.argmax(1) == self.test.labels).mean())

    def guesses(self) -> NDArray[np.int64]:
        """The likeliest class of each picture that is not trained on."""
        likeliest: NDArray[np.int64] = self._scores_of_test().argmax(1)
        return likeliest

    def _scores_of_test(self) -> NDArray[np.float64]:
        for name in self._weights:
            self._judge.set_state(name, self.plan.state(name))
        images = self.test.images
        parts = [self._judge.run(images[i : i + _JUDGED_AT_ONCE])[0] for i in range(0, len(images), _JUDGED_AT_ONCE)]
        return np.concatenate(parts).astype(np.float64)

    # ---- checkpoints ----

    def _made_with(self) -> dict[str, Any]:
        """What a run that goes on must have in common with the one that began."""
        return {
            "batch": self.settings.batch,
            "lr": self.settings.lr,
            "seed": self.settings.seed,
            "math": self.settings.math,
            "pictures": self.train.fingerprint(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        training.save(path, self.plan, {**self._made_with(), "history": asdict(self.history)})

    def resume(self, path: str | os.PathLike[str]) -> int:
        """Go on from a checkpoint, if there is one; returns the number of its epochs.

        Raises InvalidArgumentError, and changes nothing, where it was made with other settings or pictures.
        """
        if not Path(path).exists():
            return 0
        saved = read(path)
        notes = saved.notes
        if not isinstance(notes, dict) or "history" not in notes:
            raise InvalidArgumentError(f"train: {path} is no checkpoint of `pylayout train`")
        for key, value in self._made_with().items():
            if notes.get(key) != value:
                raise InvalidArgumentError(
                    f"train: {path} was made with {key} {notes.get(key)}, here it is {value}; expected the same, or "
                    "another file"
                )
        history = notes["history"]
        epochs = [Epoch(**epoch) for epoch in history["epochs"]]
        saved.give(self.plan)
        self.history = _History(epochs, list(history["losses"]))
        return len(self.history.epochs)
