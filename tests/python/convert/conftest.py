"""Frameworks as arguments of tests, which are skipped without them."""

import bridges
import pytest


@pytest.fixture
def torch():
    bridges.need("torch")
    import torch

    return torch


@pytest.fixture
def jax():
    bridges.need("jax")
    import jax

    return jax


@pytest.fixture
def tf():
    bridges.need("tensorflow")
    import tensorflow as tf

    return tf
