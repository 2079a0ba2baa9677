"""A run leaves held-out images for the explorer."""

import numpy as np
from PIL import Image

import clearhead
from clearhead.tasks.samples import COUNT

from .conftest import SIZE


def test_a_captioning_run_writes_held_out_images(trained):
    samples = clearhead.load(trained).samples
    assert 0 < len(samples) <= COUNT
    assert all(np.array(Image.open(path)).shape == (SIZE, SIZE, 3) for path in samples.values())
    assert all(path.parent == trained / "samples" for path in samples.values())
