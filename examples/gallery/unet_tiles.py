"""A network in PyTorch over tiles with a halo, written to one array."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 1e-5
TILE, HALO = 128, 16


def network():
    import torch
    from torch import nn

    torch.manual_seed(0)
    down = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    up = [nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Upsample(scale_factor=2)]
    return nn.Sequential(*down, *up, nn.Conv2d(8, 1, 3, padding=1), nn.Sigmoid()).eval()


def inputs():
    return (data.camera().astype("float32") / 255,)


def ours(image):
    import torch

    model = ab.torch(torch.inference_mode()(network()), output_type="numpy")
    padded = np.pad(image, HALO)
    result = np.empty_like(image)
    for y in range(0, image.shape[0], TILE):
        for x in range(0, image.shape[1], TILE):
            tile = padded[y : y + TILE + 2 * HALO, x : x + TILE + 2 * HALO]
            inner = model(tile[None, None])[0, 0, HALO:-HALO, HALO:-HALO]
            result[y : y + TILE, x : x + TILE] = inner
    return result[64:-64, 64:-64]


def reference(image):
    import torch

    with torch.inference_mode():
        return network()(torch.from_numpy(image)[None, None])[0, 0].numpy()[64:-64, 64:-64]


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from PyTorch")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
