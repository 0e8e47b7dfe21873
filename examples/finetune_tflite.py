"""Fine-tune a deployed TFLite model in PyTorch and put it back into its own file.

The model finds people in pictures. It learns to find handwriting instead, and the app that runs it sees the same
names, shapes, dtypes and operators as before.

    python examples/finetune_tflite.py
"""

from pathlib import Path

import torch
from handwriting import TEST, TRAIN, scenes
from real_models import selfie_segmentation
from torch import nn
from torch.nn import functional as F

from mlconverter import Converter

STEPS, BATCH = 120, 6


def loss_of(prediction: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The network ends in a sigmoid."""
    return F.binary_cross_entropy(prediction.clamp(1e-6, 1 - 1e-6), mask)


def train(model: nn.Module, steps: int = STEPS) -> None:
    """An ordinary training loop."""
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        pictures, masks = map(torch.from_numpy, scenes(BATCH, TRAIN, seed=step))
        optimiser.zero_grad()
        loss_of(model(pictures), masks).backward()
        optimiser.step()
    model.eval()


def test_loss(model: nn.Module) -> float:
    """The loss on digits that nobody has trained on."""
    pictures, masks = map(torch.from_numpy, scenes(16, TEST, seed=1_000_000))
    with torch.no_grad():
        return loss_of(model(pictures), masks).item()


def main() -> None:
    converter = Converter(model_path=selfie_segmentation())
    model = converter.to_torch()
    print(f"loss before: {test_loss(model):.3f}")
    train(model)
    print(f"loss after:  {test_loss(model):.3f}")
    folder = Path("build")
    folder.mkdir(exist_ok=True)
    print("written:", converter.to_origin_type(model).save(folder / "tuned.tflite"))
    print(converter.report)


if __name__ == "__main__":
    main()
