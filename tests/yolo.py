"""A detector in the style of YOLOv8, with random weights: what breaks converters of detectors is all in here.

C2f blocks split and concatenate channels, SPPF pools with overlap, the DFL head takes a softmax over an inner axis,
and the boxes are multiplied by a ``(1, N)`` tensor of strides and by ``(1, C, 1, 1)`` constants: shapes that still
broadcast, to something else, where a converter changes the layout of one operand alone.
"""

import torch
from torch import Tensor, nn


class ConvBlock(nn.Sequential):
    """Convolution, BatchNorm, SiLU."""

    def __init__(self, inputs, outputs, kernel=1, stride=1):
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03),
            nn.SiLU(),
        )


class Bottleneck(nn.Module):
    def __init__(self, channels, shortcut):
        super().__init__()
        self.body = nn.Sequential(ConvBlock(channels, channels, 3), ConvBlock(channels, channels, 3))
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.shortcut else self.body(x)


class C2f(nn.Module):
    def __init__(self, inputs, outputs, depth=1, shortcut=True):
        super().__init__()
        self.half = outputs // 2
        self.first = ConvBlock(inputs, outputs)
        self.blocks = nn.ModuleList(Bottleneck(self.half, shortcut) for _ in range(depth))
        self.last = ConvBlock(outputs + depth * self.half, outputs)

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.first(x).split((self.half, self.half), 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class SPPF(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = ConvBlock(channels, channels // 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.last = ConvBlock(channels * 2, channels)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class DFL(nn.Module):
    """Each side of a box is the expectation of a distribution over ``bins`` distances."""

    def __init__(self, bins):
        super().__init__()
        self.bins = bins
        self.expectation = nn.Conv2d(bins, 1, 1, bias=False).requires_grad_(False)
        self.expectation.weight.copy_(torch.arange(bins, dtype=torch.float32).view(1, bins, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        batch, _, anchors = x.shape
        sides = x.view(batch, 4, self.bins, anchors).transpose(2, 1).softmax(1)
        return self.expectation(sides).view(batch, 4, anchors)


class Detect(nn.Module):
    """Boxes ``(x, y, w, h)`` in pixels and class scores: ``(batch, 4 + classes, anchors)``."""

    def __init__(self, classes, channels, strides, size, bins=16):
        super().__init__()
        self.classes, self.bins = classes, bins
        self.boxes = nn.ModuleList(self._branch(c, 16, 4 * bins) for c in channels)
        self.scores = nn.ModuleList(self._branch(c, channels[0], classes) for c in channels)
        self.dfl = DFL(bins)
        # A constant gain for each channel, as an exporter leaves of a folded normalisation.
        self.gains = nn.ParameterList(nn.Parameter(torch.rand(1, 4 * bins, 1, 1) + 0.5, requires_grad=False) for _ in strides)
        points, scales = [], []
        for stride in strides:
            rows, columns = size[0] // stride, size[1] // stride
            y, x = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
            points.append(torch.stack((x, y), -1).view(-1, 2))
            scales.append(torch.full((rows * columns,), float(stride)))
        self.register_buffer("anchors", torch.cat(points).T.contiguous())  # (2, N)
        self.register_buffer("strides", torch.cat(scales)[None])  # (1, N)

    @staticmethod
    def _branch(inputs, hidden, outputs):
        return nn.Sequential(ConvBlock(inputs, hidden, 3), ConvBlock(hidden, hidden, 3), nn.Conv2d(hidden, outputs, 1))

    def forward(self, features: list[Tensor]) -> Tensor:
        maps = [
            torch.cat((box(f) * gain, score(f)), 1).flatten(2)
            for f, box, score, gain in zip(features, self.boxes, self.scores, self.gains, strict=True)
        ]
        boxes, scores = torch.cat(maps, 2).split((4 * self.bins, self.classes), 1)
        left_top, right_bottom = self.dfl(boxes).chunk(2, 1)
        first, second = self.anchors - left_top, self.anchors + right_bottom
        boxes = torch.cat(((first + second) / 2, second - first), 1) * self.strides
        return torch.cat((boxes, scores.sigmoid()), 1)


class Yolo(nn.Module):
    """The whole detector.

    Args:
        classes: number of classes.
        width: channels of the first stage.
        size: height and width of the input, multiples of 32; the batch is free.
    """

    def __init__(self, classes=5, width=8, size=(64, 64)):
        super().__init__()
        a, b, c, d, e = (width * f for f in (1, 2, 4, 8, 16))
        self.stem = nn.Sequential(ConvBlock(3, a, 3, 2), ConvBlock(a, b, 3, 2), C2f(b, b))
        self.stage3 = nn.Sequential(ConvBlock(b, c, 3, 2), C2f(c, c, 2))
        self.stage4 = nn.Sequential(ConvBlock(c, d, 3, 2), C2f(d, d, 2))
        self.stage5 = nn.Sequential(ConvBlock(d, e, 3, 2), C2f(e, e), SPPF(e))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.top_down4 = C2f(e + d, d, shortcut=False)
        self.top_down3 = C2f(d + c, c, shortcut=False)
        self.down3 = ConvBlock(c, c, 3, 2)
        self.bottom_up4 = C2f(c + d, d, shortcut=False)
        self.down4 = ConvBlock(d, d, 3, 2)
        self.bottom_up5 = C2f(d + e, e, shortcut=False)
        self.head = Detect(classes, (c, d, e), (8, 16, 32), size)

    def forward(self, x: Tensor) -> Tensor:
        p3 = self.stage3(self.stem(x))
        p4 = self.stage4(p3)
        p5 = self.stage5(p4)
        n4 = self.top_down4(torch.cat((self.up(p5), p4), 1))
        n3 = self.top_down3(torch.cat((self.up(n4), p3), 1))
        m4 = self.bottom_up4(torch.cat((self.down3(n3), n4), 1))
        m5 = self.bottom_up5(torch.cat((self.down4(m4), p5), 1))
        return self.head([n3, m4, m5])
