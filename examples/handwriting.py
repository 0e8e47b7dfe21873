"""Data to train on: real handwritten digits on real photographs, and where their ink is.

Both come with scikit-learn. The digits that are tested on are not among those that are trained on.
"""

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images

HEIGHT, WIDTH = 144, 256
DIGITS = load_digits().images
TRAIN, TEST = DIGITS[:1400], DIGITS[1400:]
PHOTOGRAPHS = load_sample_images().images


def scenes(count: int, digits: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures ``(count, 144, 256, 3)`` in [0, 1] and masks ``(count, 144, 256, 1)`` that are 1 where there is ink."""
    rng = np.random.default_rng(seed)
    pictures, masks = zip(*(_scene(rng, digits) for _ in range(count)), strict=True)
    return np.stack(pictures), np.stack(masks)[..., None]


def _scene(rng: np.random.Generator, digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    picture, mask = _crop(rng), np.zeros((HEIGHT, WIDTH), np.float32)
    for _ in range(rng.integers(1, 4)):
        size = int(rng.integers(40, 100))
        top, left = rng.integers(0, HEIGHT - size), rng.integers(0, WIDTH - size)
        image = Image.fromarray((digits[rng.integers(len(digits))] * (255 / 16)).astype(np.uint8))
        ink = np.asarray(image.resize((size, size), Image.Resampling.BICUBIC)) > 115
        picture[top : top + size, left : left + size][ink] = rng.uniform(0, 1, 3)
        mask[top : top + size, left : left + size][ink] = 1
    return picture, mask


def _crop(rng: np.random.Generator) -> np.ndarray:
    photograph = PHOTOGRAPHS[rng.integers(len(PHOTOGRAPHS))]
    height = int(rng.integers(160, 340))
    width = height * WIDTH // HEIGHT
    top, left = rng.integers(0, photograph.shape[0] - height), rng.integers(0, photograph.shape[1] - width)
    crop = Image.fromarray(photograph[top : top + height, left : left + width])
    return np.array(crop.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR), np.float32) / 255
