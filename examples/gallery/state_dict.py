"""The parameters of a network in PyTorch, converted as a tree for the same network in JAX."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 1e-4


def model():
    import torch

    torch.manual_seed(3)
    first, second = torch.nn.Conv2d(1, 8, 5, padding=2), torch.nn.Conv2d(8, 1, 5, padding=2)
    return torch.nn.Sequential(first, torch.nn.ReLU(), second)


def inputs():
    return ((data.camera() / 255).astype("float32"),)


@ab.jax(output_type="numpy")
def network(image, weights):
    import jax

    x = image[None, None]
    for layer in ("0", "2"):
        kernel, bias = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME") + bias[:, None, None]
        x = jax.nn.relu(x) if layer == "0" else x
    return x[0, 0]


def ours(image):
    weights = model().state_dict()
    converted = ab.convert_tree(weights, "jax")
    assert list(converted) == list(weights)
    return network(image, converted)


def reference(image):
    import torch

    with torch.no_grad():
        return model()(torch.from_numpy(image)[None])[0].numpy()


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from PyTorch")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
