"""A PyTorch network that learns to remove noise, by a structural similarity (SSIM) in JAX."""

from functools import cache

import arraybridge as ab
import numpy as np
from skimage import data

# The loss of each of 50 steps, and the image that the network makes in the end.
TOLERANCE = 1e-5
STEPS, SIZE = 50, 7


def inputs():
    image = data.camera()[64:128, 208:272].astype("float32") / 255
    noise = np.random.default_rng(0).normal(0, 0.15, image.shape).astype("float32")
    return image + noise, image


def similarity(x, y, mean, c1=0.01**2, c2=0.03**2):
    """The mean structural similarity of two images. ``mean`` is that of a window around a pixel."""
    x_mean, y_mean = mean(x), mean(y)
    x_var, y_var = mean(x * x) - x_mean**2, mean(y * y) - y_mean**2
    covariance = mean(x * y) - x_mean * y_mean
    over = (2 * x_mean * y_mean + c1) * (2 * covariance + c2)
    return (over / ((x_mean**2 + y_mean**2 + c1) * (x_var + y_var + c2))).mean()


@cache
def jax_loss():
    import jax

    def mean(x):
        window, ones = (SIZE, SIZE), (1, 1)
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, window, ones, "VALID") / SIZE**2

    return ab.jax(differentiable=True)(jax.jit(lambda x, y: 1 - similarity(x, y, mean)))


def torch_loss(x, y):
    import torch

    def mean(x):
        return torch.nn.functional.avg_pool2d(x[None, None], SIZE, 1)[0, 0]

    return 1 - similarity(x, y, mean)


def trained(noisy, image, loss):
    import torch

    torch.manual_seed(0)
    noisy, image = torch.from_numpy(noisy), torch.from_numpy(image)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, 1, 3, padding=1)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        result = noisy - network(noisy[None, None])[0, 0]
        value = loss(result, image)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert losses[-1] < losses[0] * 0.6
    return result.detach().numpy(), np.array(losses)


def ours(noisy, image):
    return trained(noisy, image, jax_loss())


def reference(noisy, image):
    return trained(noisy, image, torch_loss)


if __name__ == "__main__":
    arrays = inputs()
    results = ours(*arrays)
    for result, expected in zip(map(np.asarray, results), reference(*arrays), strict=True):
        difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
        print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from PyTorch")
        assert difference <= TOLERANCE and result.dtype.kind == np.asarray(expected).dtype.kind
