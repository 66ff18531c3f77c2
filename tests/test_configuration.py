"""The suite runs under the strict settings that it claims to run under."""

from typing import Any

import hypothesis


def test_jax_is_strict_and_on_the_cpu() -> None:
    import jax

    settings: Any = jax.config
    assert settings.jax_numpy_rank_promotion == "raise"
    assert settings.jax_numpy_dtype_promotion == "strict"
    assert jax.default_backend() == "cpu"


def test_properties_are_reproducible() -> None:
    active = hypothesis.settings()
    assert active.derandomize
    assert active.deadline is None
