"""`pylayout train`: a small network learns to tell pictures apart."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import asdict
from typing import Any

from .common import add_device, add_threads, apply_threads, check_device, check_folder, positive, seed, writing
from .errors import UsageError
from .progress import Progress
from .terminal import Table, style

__all__ = ["add", "run"]

_TEST_SHARE = 0.2  # of the pictures
_ROWS = 10  # of the table of epochs

_DESCRIPTION = """\
Train a small convolutional network on labelled pictures: forward, backward and update as one plan. Without a file: on
the 1,797 handwritten digits that come with scikit-learn (pip install '.[train]' in the clone). A fifth of the
pictures is kept apart to test with."""

_EPILOG = """\
examples:
  pylayout train
  pylayout train --checkpoint digits.checkpoint --report training.html
  pylayout train pictures.npz --epochs 10 --batch 128 --lr 0.001 --plan classifier.plan
A file has the arrays `images`, (n, h, w) or (n, c, h, w), and `labels`, (n), classes from 0 on: numpy.savez writes it.
With --checkpoint each epoch is kept; the same command after it was ended, at any moment, goes on and gives the same
weights. How such a program is written: docs/howto/train.md."""


def _rate(text: str) -> float:
    """A finite number above zero, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return value


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="train a small network on pictures: handwritten digits, or your own",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("pictures", nargs="?", metavar="FILE.npz", help="pictures and labels (default: digits)")
    add_device(parser)
    add_threads(parser)
    parser.add_argument("--epochs", type=positive, default=30, metavar="N", help="passes (default 30)")
    parser.add_argument("--batch", type=positive, default=64, metavar="N", help="pictures a step (default 64)")
    parser.add_argument(
        "--lr", type=_rate, default=0.003, metavar="X", help="the first learning rate; it falls to 0 (default 0.003)"
    )
    parser.add_argument(
        "--math",
        choices=("fp32", "tf32", "fp16", "bf16"),
        default="fp32",
        help="what values of a step may be held as, or factors of products rounded to (default fp32)",
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of weights, order and split (default 0)")
    parser.add_argument("--checkpoint", metavar="FILE", help="kept after each epoch; where it exists, training goes on")
    parser.add_argument("--plan", metavar="FILE", help="write the trained network for pylayout.load_plan")
    parser.add_argument("--report", metavar="FILE.html", help="write an HTML report: curves, what went wrong")
    parser.set_defaults(run=run)


def _print_epochs(epochs: list[Any]) -> None:
    table = Table(("epoch", "loss", "test loss", "accuracy", "lr", "s"), right=("loss", "test loss", "accuracy", "s"))
    every = max(1, -(-len(epochs) // _ROWS))
    for i, epoch in enumerate(epochs):
        if i % every == every - 1 or i in (0, len(epochs) - 1):
            table.add(
                epoch.number,
                f"{epoch.loss:.4f}",
                f"{epoch.test_loss:.4f}",
                f"{100 * epoch.accuracy:.2f}%",
                f"{epoch.lr:.2g}",
                f"{epoch.seconds:.2f}",
            )
    table.print()


def run(options: argparse.Namespace) -> dict[str, Any]:
    for option in ("checkpoint", "plan", "report"):
        check_folder(f"--{option}", getattr(options, option))
    check_device(options.device)
    apply_threads(options)
    from .. import pictures
    from ..classifier import Classifier, Settings

    known = pictures.read(options.pictures) if options.pictures else pictures.digits()
    train, test = known.split(_TEST_SHARE, options.seed)
    if options.batch > len(train):
        raise UsageError(f"--batch {options.batch}: expected at most {len(train)}, the pictures to train on")
    settings = Settings(options.epochs, options.batch, options.lr, options.seed, options.math)
    with Progress(options.progress) as progress:
        progress.update("compiling", 0, 0)
        began = time.perf_counter()
        classifier = Classifier(train, test, settings, device=options.device, threads=options.threads)
        compiled = time.perf_counter() - began
        resumed = classifier.resume(options.checkpoint) if options.checkpoint else 0
        classifier.run(progress.update, options.checkpoint)
    epochs = classifier.history.epochs
    seconds = sum(epoch.seconds for epoch in epochs)
    size = " x ".join(map(str, train.images.shape[1:]))
    print(style(f"{known.name} on {options.device}", "bold") + f": {known.classes} classes, pictures of {size}")
    print(f"{len(train)} pictures to train on, {len(test)} to test with, {classifier.parameters} parameters")
    if resumed:
        print(f"resumed after epoch {resumed}, from {options.checkpoint}")
    print()
    _print_epochs(epochs)
    accuracy = f"{100 * epochs[-1].accuracy:.2f}%"
    print(f"\n{accuracy} of the test pictures right after {len(epochs)} epochs, {seconds:.1f} s of training")
    print(f"compiled in {compiled:.1f} s; {len(classifier.history.losses)} steps of {options.batch} pictures")
    if options.plan:
        classifier.trained().save(options.plan)
        print(f"plan: {options.plan}")
    if options.report:
        from ..report.training import Results, write_training

        facts = {
            "device": options.device,
            "pictures": f"{len(train)} and {len(test)}",
            "batch": str(options.batch),
            "parameters": str(classifier.parameters),
        }
        results = Results(
            f"Training on {known.name}",
            facts,
            [asdict(epoch) for epoch in epochs],
            classifier.history.losses,
            test.images,
            test.labels,
            classifier.guesses(),
        )
        with writing("--report", options.report):
            write_training(options.report, results)
        print(f"report: {options.report}")
    return {
        "pictures": {"name": known.name, "train": len(train), "test": len(test), "classes": known.classes},
        "device": options.device,
        "batch": options.batch,
        "seed": options.seed,
        "math": options.math,
        "parameters": classifier.parameters,
        "accuracy": epochs[-1].accuracy,
        "test_loss": epochs[-1].test_loss,
        "seconds": seconds,
        "compile_s": compiled,
        "resumed_after": resumed,
        "epochs": [asdict(epoch) for epoch in epochs],
        "losses": classifier.history.losses,
    }
