"""A PyTorch data set whose worker processes call a declared function."""

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


@ab.numpy(output_type="torch", dtype_conversion="native")
def cropped(image):
    return image[16:-16:2, 16:-16:2].astype("float32") / 4096


class Patches:
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return cropped(self.images[index])


def ours(images):
    from torch.utils.data import DataLoader

    batches = DataLoader(Patches(images), batch_size=3, num_workers=2)
    return np.concatenate([ab.convert(batch, "numpy") for batch in batches])


def reference(images):
    return images[:, 16:-16:2, 16:-16:2].astype("float32") / 4096


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from NumPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
