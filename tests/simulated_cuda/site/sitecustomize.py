"""Every Python that has this folder in its path, and `SIMULATED_CUDA` set, runs on the simulated
CUDA.
"""

import os
import sys
from pathlib import Path

if os.environ.get("SIMULATED_CUDA"):
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    import loader

    loader.install()
