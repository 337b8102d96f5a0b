"""Coroutines with policies of their own, whose work is done in threads."""

import asyncio

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 0


def stack():
    """Eight parts of a photo with 12 of 16 bits, uint16, 8 x 128 x 128."""
    photo = data.camera().astype("uint16") * 16
    return np.stack([photo[at : at + 128, at : at + 128] for at in range(0, 384, 48)])


def inputs():
    return (stack(),)


@ab.torch(output_type="numpy")
async def halved(image):
    return await asyncio.to_thread(lambda: image / 2)


async def with_policy(image, conversion):
    with ab.dtype_policy(dtype_conversion=conversion):
        await asyncio.sleep(0)
        return await halved(image)


async def gathered(images):
    policies = ["preserve", "float64"] * 4
    tasks = [with_policy(*pair) for pair in zip(images, policies, strict=True)]
    return await asyncio.gather(*tasks)


def ours(images):
    results = asyncio.run(gathered(images))
    assert [str(image.dtype) for image in results] == ["uint16", "float64"] * 4
    return np.stack(results)


def reference(images):
    halves = images / 2
    halves[::2] = np.rint(halves[::2])
    return halves


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from NumPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
