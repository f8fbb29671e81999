"""Trains a small BERT by Hugging Face's Trainer, on cpu, cuda or ocl: the device is a word on the command line.

    pip install transformers accelerate
    python examples/train_bert.py --device ocl

It learns to tell from which half of the dictionary most words of a sentence are, from sentences that it draws itself.
"""

import argparse
import os
import tempfile

import torch


class Sentences(torch.utils.data.Dataset):
    """Sentences of 32 words from 200, seven in eight of one half of them, and which half that is."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(0, 2, (count,), generator=generator)
        from_other = torch.rand((count, 32), generator=generator) < 1 / 8
        half = self.labels[:, None] ^ from_other.long()
        self.words = torch.randint(1, 100, (count, 32), generator=generator) + 100 * half

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = self.words[index]
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": self.labels[index]}


def losses(device: str, steps: int = 50, batch: int = 16, dropout: float = 0.1, workers: int = 0) -> list[float]:
    """Of each step."""
    os.environ["ACCELERATE_TORCH_DEVICE"] = (
        device  # of the Trainer's library, which does not look for devices of others
    )
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

    set_seed(0)
    config = BertConfig(
        vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=32, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            BertForSequenceClassification(config),
            TrainingArguments(
                folder,
                max_steps=steps,
                per_device_train_batch_size=batch,
                learning_rate=1e-3,
                warmup_steps=5,
                logging_steps=1,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                dataloader_num_workers=workers,
            ),
            train_dataset=Sentences(steps * batch),
        )
        if str(trainer.args.device).split(":")[0] != device.split(":")[0]:
            raise RuntimeError(
                f"the Trainer took {trainer.args.device}, expected {device}; PartialState is kept by a process"
            )
        trainer.train()
    return [each["loss"] for each in trainer.state.log_history if "loss" in each]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ocl, ocl:1, ...")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    if given.device.startswith("ocl") and not hasattr(torch, "ocl"):  # not installed, or PyTorch drives a GPU itself
        import pylayout.ocl

        pylayout.ocl.load()
    made = losses(given.device, given.steps, given.batch, given.dropout, given.workers)
    for step in range(9, len(made), 10):
        print(f"steps {step - 8:3} to {step + 1:3}: loss {sum(made[step - 9 : step + 1]) / 10:.4f}")
    if given.device.startswith("ocl"):
        for each in torch.ocl.fallbacks():
            print(f"on the CPU: {each.op}, {each.count} times ({each.reason})")


if __name__ == "__main__":
    main()
