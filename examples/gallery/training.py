"""Training in PyTorch. Gradients flow through declared functions of PyTorch."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 1e-4


def inputs():
    image = data.camera()[:64, :64].astype("float32") / 255
    return image, image * 0.5 + 0.25


@ab.torch
def adjusted(image, gain, offset):
    return image * gain + offset


def trained(image, target, function):
    import torch

    gain, offset = (torch.tensor(x, requires_grad=True) for x in (1.0, 0.0))
    optimizer = torch.optim.Adam([gain, offset], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(function(image, gain, offset), target).backward()
        optimizer.step()
    return torch.stack([gain, offset]).detach().numpy()


def ours(image, target):
    return trained(ab.convert(image, "torch"), ab.convert(target, "torch"), adjusted)


def reference(image, target):
    import torch

    return trained(torch.from_numpy(image), torch.from_numpy(target), adjusted.__wrapped__)


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from PyTorch")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
