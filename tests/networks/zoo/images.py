"""Convolutions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn

from zoo.parts import (
    LENGTH,
    VOCABULARY,
    Net,
    add,
    cross_entropy,
    labelled,
    normal,
    only,
    own_square,
    texts,
)

add(
    "lenet",
    lambda: nn.Sequential(
        *(nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(24, 10), nn.ReLU(), nn.Linear(10, 3)),
    ),
    *(cross_entropy, labelled(1, 16, 16), "The small classic of images."),
)
add(
    "resnet-groupnorm",
    lambda: nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.GroupNorm(2, 4), nn.ReLU()),
        *(_Residual(4, 4, 1), _Residual(4, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(2, 8, 8), "Skip connections, strides, 1 x 1 convolutions."),
)
add(
    "vgg",
    lambda: nn.Sequential(
        *(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.ReLU(True),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.ReLU(True),
        ),
        *(nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32, 16), nn.ReLU(True), nn.Linear(16, 3)),
    ),
    *(cross_entropy, labelled(2, 8, 8), "Convolutions in a row, activations in place."),
)
add(
    "convnext",
    lambda: nn.Sequential(
        *(nn.Conv2d(2, 4, 2, stride=2), _ConvNext(4), _ConvNext(4)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
    ),
    *(cross_entropy, labelled(2, 8, 8)),
    "Depthwise convolution, channels last, a parameter that scales a layer, its own response norm.",
)
add("unet", lambda: _UNet(), own_square, only(1, 8, 8), "Transposed convolutions, joined skips.")
add(
    "text-cnn",
    lambda: Net(
        lambda m, x: m.out(m.conv(m.embed(x).transpose(1, 2)).relu().amax(2)),
        embed=nn.Embedding(VOCABULARY, 6),
        conv=nn.Conv1d(6, 8, 3),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, texts(8), "The maximum over time sends a gradient to one place."),
)
add(
    "conv3d",
    lambda: nn.Sequential(
        *(nn.Conv3d(1, 3, 3), nn.ReLU(), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(24, 3)),
    ),
    *(cross_entropy, labelled(1, 6, 6, 6), "Volumes."),
)
add(
    "conv-grouped-dilated-strided",
    lambda: nn.Sequential(
        nn.Conv2d(4, 8, 3, groups=2, stride=2, padding=1),
        *(nn.Tanh(), nn.Conv2d(8, 8, 3, groups=8, dilation=2, padding=2)),
        *(
            nn.Tanh(),
            nn.Conv2d(8, 4, (1, 3), stride=(2, 1), groups=4),
            nn.Flatten(),
            nn.Linear(16, 3),
        ),
    ),
    *(cross_entropy, labelled(4, 8, 8), "Every argument of a convolution at once."),
)
add(
    "conv-padding-reflect-circular",
    lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"),
        *(nn.Tanh(), nn.Conv2d(4, 4, 3, padding=2, padding_mode="circular", dilation=2)),
        *(nn.Tanh(), nn.Conv2d(4, 3, 3, padding=1, padding_mode="replicate")),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    ),
    *(cross_entropy, labelled(2, 6, 6), "The layer's own padding is outside the convolution."),
)
add(
    "conv-padding-same",
    lambda: nn.Sequential(
        *(
            nn.Conv1d(2, 4, 4, padding="same", dilation=2),
            nn.ReLU(),
            nn.Conv1d(4, 3, 3, padding="valid"),
        ),
        *(nn.AdaptiveMaxPool1d(1), nn.Flatten()),
    ),
    *(cross_entropy, labelled(2, 9), "Padding by name, with an even filter."),
)
add(
    "conv-transposed-1d",
    lambda: nn.Sequential(
        *(nn.Conv1d(2, 4, 4, stride=2), nn.ReLU()),
        nn.ConvTranspose1d(4, 2, 4, stride=2, output_padding=1, groups=2),
    ),
    *(own_square, only(2, 9), "Transposed, strided, grouped, with an output padding."),
)
add(
    "conv-autoencoder-tied",
    lambda: Net(
        lambda m, x: F.conv_transpose2d(m.conv(x).tanh(), m.conv.weight, stride=2),
        conv=nn.Conv2d(1, 4, 2, stride=2),
    ),
    *(own_square, only(1, 6, 6), "The filters of a layer are used again by a function."),
)
add(
    "pixel-shuffle",
    lambda: nn.Sequential(
        *(
            nn.Conv2d(1, 4, 3, padding=1, stride=2),
            nn.PixelShuffle(2),
            nn.Conv2d(1, 4, 2, stride=2),
        ),
        *(nn.Tanh(), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4, 1, 3, padding=1)),
    ),
    *(own_square, only(1, 8, 8), "Channels become pixels; interpolation."),
)
add(
    "conv-of-frames",
    lambda: Net(_frames, conv=nn.Conv2d(1, 4, 3), out=nn.Linear(4, 3)),
    *(cross_entropy, labelled(4, 1, 6, 6), "A video's frames are folded into the batch."),
    may_refuse="a layer sees rows that are no examples",
)
add(
    "conv-of-one-image",
    lambda: Net(
        lambda m, x: m.out(x.flatten(1) * m.conv(m.image).flatten()),
        conv=nn.Conv2d(LENGTH, 1, 3, padding=1),
        image=normal(LENGTH, 4, 4),
        out=nn.Linear(16, 3),
    ),
    *(cross_entropy, labelled(4, 4), "A learned image without a batch goes through a layer."),
)
add(
    "weight-standardised",
    lambda: nn.Sequential(
        *(_StandardConv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
    ),
    *(cross_entropy, labelled(2, 6, 6), "The weight used is a function of the weight trained."),
)
add(
    "unfold",
    lambda: Net(
        lambda m, x: torch.einsum("nkl,lko->no", F.unfold(x, 2, stride=2), m.w), w=normal(9, 8, 3)
    ),
    *(cross_entropy, labelled(2, 6, 6), "A locally connected layer by hand: no shared filter."),
)
add(
    "spatial-transformer",
    lambda: Net(_transformed, where=nn.Linear(36, 6), conv=nn.Conv2d(1, 4, 3), out=nn.Linear(4, 3)),
    *(cross_entropy, labelled(1, 6, 6), "Samples each image at places that the network chooses."),
)


class _Residual(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.GroupNorm(2, out), nn.ReLU()),
            *(nn.Conv2d(out, out, 3, padding=1, bias=False), nn.GroupNorm(2, out)),
        )
        self.skip = nn.Conv2d(into, out, 1, stride) if into != out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class _ConvNext(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale = nn.Parameter(normal(width))
        self.response, self.shift = nn.Parameter(normal(2 * width)), nn.Parameter(normal(2 * width))

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.up(self.norm(self.depthwise(x).permute(0, 2, 3, 1))))
        size = h.square().sum((1, 2), keepdim=True).add(1e-6).sqrt()
        h = h + self.response * h * size / size.mean(-1, keepdim=True) + self.shift
        return x + (self.scale * self.down(h)).permute(0, 3, 1, 2)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, padding=1)
        self.deep = nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        top = self.down(x).relu()
        return self.out(torch.cat([top, self.up(self.deep(top).relu()).relu()], 1))


class _StandardConv2d(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        spread = self.weight.std((1, 2, 3), keepdim=True)
        return F.conv2d(x, (self.weight - mean) / (spread + 1e-5), self.bias)


def _frames(m: Any, x: Tensor) -> Tensor:
    frames = m.conv(x.flatten(0, 1)).relu().mean((2, 3))
    return m.out(frames.unflatten(0, x.shape[:2]).amax(1))


def _transformed(m: Any, x: Tensor) -> Tensor:
    plain = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=x.dtype)
    places = plain + 0.1 * m.where(x.flatten(1)).view(-1, 2, 3).tanh()
    grid = F.affine_grid(places, list(x.shape), align_corners=False)
    return m.out(m.conv(F.grid_sample(x, grid, align_corners=False)).relu().mean((2, 3)))
