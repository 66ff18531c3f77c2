"""Maps of a matrix of standardized inputs to features: the part that is worth exchanging."""

import copy
import math
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro import checks, user_code
from cesaro.engines.local import decomposing_threads
from cesaro.errors import InputError

Float32 = NDArray[np.float32]

# Fourier features whose components are taken, per component, and rows that tell which lead.
FOURIER_PER_COMPONENT, LEADING_ROWS = 2, 10_000
# The variance of a component over that of the first: what is smaller is rounding of single precision.
SMALLEST_COMPONENT = 1e-8
# The smallest singular value of what comes before the components, over the largest: directions below are rounding.
SMALLEST_INPUT = 1e-7
# Vectors that features are multiplied with one by one: a product with a narrow matrix takes longer.
FEW = 5
# Numbers that a step of NumPy adds in one loop.
LOOP = 2**16


class Base(Protocol):
    """`[n, inputs]` to `[n, size]`."""

    size: int
    description: str

    def __call__(self, inputs: Float32) -> NDArray[np.floating]: ...


class Linear:
    """The inputs themselves, and a constant."""

    def __init__(self, sample: Float32) -> None:
        self.size = 1 + sample.shape[1]
        count = sample.shape[1]
        self.description = f"linear in {count} standardized input{'' if count == 1 else 's'}"

    def __call__(self, inputs: Float32) -> Float32:
        return np.concatenate([np.ones((len(inputs), 1), np.float32), inputs], axis=1)


class Fourier:
    """Random Fourier features of a Gaussian kernel (Rahimi and Recht, 2007): `√2 cos(Ωᵀz + β)`.

    The kernel's width is `bandwidth` times the median distance between sampled inputs. A larger map with the same seed begins
    with this one.
    """

    def __init__(self, sample: Float32, size: int, random_state: int, bandwidth: float = 1.0) -> None:
        self.width = bandwidth * median_distance(sample, np.random.default_rng([random_state, 1]))
        self.size = size
        frequencies = np.random.default_rng([random_state, 2]).standard_normal((size, sample.shape[1]))
        self.frequencies = (frequencies.T / self.width).astype(np.float32)
        self.phases = np.random.default_rng([random_state, 3]).uniform(0, 2 * np.pi, size).astype(np.float32)
        self.description = f"{size} random Fourier features of width {self.width:.3g}"

    def __call__(self, inputs: Float32) -> Float32:
        return self.in_tiles(inputs, max(1, len(inputs)))

    def in_tiles(self, inputs: Float32, tile: int) -> Float32:
        """The features that so many rows at a time would have: in single precision, products round by the rows beside them."""
        angles = np.empty((len(inputs), self.size), np.float32)
        even = len(inputs) // tile * tile
        if even:
            tiles = inputs[:even].reshape(-1, tile, inputs.shape[1])
            np.matmul(tiles, self.frequencies, out=angles[:even].reshape(-1, tile, self.size))
        if even < len(inputs):
            np.matmul(inputs[even:], self.frequencies, out=angles[even:])
        self._shift(angles)
        np.cos(angles, out=angles)
        angles *= np.float32(np.sqrt(2))
        return angles

    def _shift(self, angles: Float32) -> None:
        """Add the phases, to as many rows together as are a long loop: row by row takes twice the time."""
        repeated = _repeated(self.phases.tobytes(), max(1, LOOP // self.size))
        even = angles.size // len(repeated) * len(repeated)
        flat = angles.reshape(-1)
        together, rest = flat[:even].reshape(-1, len(repeated)), flat[even:]
        together += repeated
        rest += repeated[: len(rest)]


@lru_cache(16)
def _repeated(phases: bytes, rows: int) -> Float32:
    """The phases of so many rows, one after the other."""
    return np.tile(np.frombuffer(phases, np.float32), rows)


class Polynomial:
    """All products of at most `degree` inputs, the constant included."""

    def __init__(self, sample: Float32, degree: int) -> None:
        inputs = range(sample.shape[1])
        self.terms = [term for d in range(degree + 1) for term in combinations_with_replacement(inputs, d)]
        self.size = len(self.terms)
        count = sample.shape[1]
        self.description = f"polynomials of degree {degree} in {count} standardized input{'' if count == 1 else 's'}"

    def __call__(self, inputs: Float32) -> Float32:
        columns, first = np.ascontiguousarray(inputs.T), 1
        result = np.empty((self.size, len(inputs)), np.float32)
        result[0] = 1.0
        with np.errstate(over="ignore", invalid="ignore"):  # few steps: threads wait for the interpreter in each
            for before, factor in product_steps(tuple(self.terms)):
                np.multiply(result.take(before, 0), columns.take(factor, 0), out=result[first : first + len(before)])
                first += len(before)
        if not np.isfinite(result).all():
            raise InputError(
                f"The {self.description} overflow: an input is {np.abs(inputs).max():.3g} standard deviations from its mean; "
                "take a lower degree, or correct or leave out that row."
            )
        return np.ascontiguousarray(result.T)


@lru_cache(100)
def product_steps(terms: tuple[tuple[int, ...], ...]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """How products of inputs are made degree by degree, from a one: of which of those before each is, times which input."""
    places = {term: place for place, term in enumerate(terms)}
    degrees = ([term for term in terms if len(term) == degree] for degree in range(1, len(terms[-1]) + 1))
    return [(np.array([places[term[:-1]] for term in own]), np.array([term[-1] for term in own])) for own in degrees]


class Splines:
    """Cubic splines of each input by itself, linear beyond the sample; inputs with few values have none.

    Args:
        knots: quantiles of the sample that pieces meet at.
    """

    def __init__(self, sample: Float32, knots: int = 6) -> None:
        levels = np.quantile(sample, np.linspace(0, 1, knots), axis=0)
        self.inputs = np.flatnonzero((np.diff(levels, axis=0) > 0).all(axis=0))
        self.knots = levels[:, self.inputs]
        self.size = len(self.inputs) * (knots + 1)
        count = len(self.inputs)
        self.description = f"cubic splines of {count} input{'' if count == 1 else 's'}"

    def __call__(self, inputs: Float32) -> Float32:
        lefts, cubics = spline_pieces(self.knots.tobytes(), self.knots.shape[1])
        own = inputs.T[self.inputs].astype(np.float64)
        piece = (own[:, None] >= lefts[:, 1:, None]).sum(axis=1)
        beyond = own - np.take_along_axis(lefts, piece, axis=1)
        places, rows = np.arange(len(own))[:, None], np.arange(len(inputs))
        powers = np.zeros((*own.shape, 4, lefts.shape[1]))
        powers[places, rows, 0, piece] = 1.0
        powers[places, rows, 1, piece] = beyond
        powers[places, rows, 2, piece] = beyond * beyond
        powers[places, rows, 3, piece] = beyond * beyond * beyond
        found = powers.reshape(*own.shape, -1) @ cubics
        return found.transpose(1, 0, 2).astype(np.float32).reshape(len(inputs), self.size)


@lru_cache(100)
def spline_pieces(knots: bytes, curves: int) -> tuple[checks.Array, checks.Array]:
    """Pieces of scikit-learn's splines at knots `[knots, curves]`: where each begins, and its powers of the distance from there.

    `[curves, pieces]` and `[curves, 4 · pieces, splines]`; the first piece, which ends where the second begins, and the last one
    are lines. The transformer itself checks its input once for each spline, and takes four times as long.
    """
    from sklearn.preprocessing import SplineTransformer

    lefts, cubics = [], []
    for levels in np.frombuffer(knots, np.float64).reshape(-1, curves).T:
        column = np.ascontiguousarray(levels)[:, None]
        made = SplineTransformer(degree=3, knots=column, extrapolation="linear", include_bias=False)
        spline = made.fit(column).bsplines_[0]
        left = np.concatenate([levels[:1], levels])
        powers = np.stack([spline(left, nu=power)[:, :-1] / math.factorial(power) for power in range(4)])
        powers[2:, [0, -1]] = 0.0
        lefts.append(left)
        cubics.append(powers.reshape(4 * len(left), -1))
    return np.stack(lefts), np.stack(cubics)


class Smooth:
    """Polynomials of degree 2, splines of each input, and the leading components of Fourier features beyond these.

    Components are ordered by the variance that the first ones leave of the Fourier features in the sample: slow changes come
    first. A map of fewer components is the beginning of this one.

    Args:
        components: as many, if there are so many.
        most: features before the components, at most; where there would be more, splines are left out, then products.
    """

    def __init__(self, sample: Float32, components: int, random_state: int, most: int) -> None:
        degrees = [degree for degree in (2, 1) if math.comb(sample.shape[1] + degree, degree) <= most]
        self.polynomial = Polynomial(sample, degrees[0] if degrees else 1)
        splines = Splines(sample)
        self.splines = splines if 0 < splines.size <= most - self.polynomial.size else None
        self.first = self.polynomial.size + (self.splines.size if self.splines is not None else 0)
        self.fourier = Fourier(sample, FOURIER_PER_COMPONENT * components, random_state) if components else None
        self.loadings = self._leading(sample[:LEADING_ROWS], components)
        self._describe()

    def _leading(self, sample: Float32, components: int) -> NDArray[np.float32]:
        """From core and Fourier features to components, `[first + fourier, components]`."""
        if self.fourier is None:
            return np.empty((self.first, 0), np.float32)
        waves = self.fourier(sample).astype(np.float64)
        told, along = _regressed(self._core(sample).astype(np.float64), waves)
        waves -= along
        square = waves.T @ waves / len(waves)
        with decomposing_threads(len(square)):
            values, vectors = np.linalg.eigh(square)
        leading = np.argsort(values)[::-1][:components]
        leading = leading[values[leading] > SMALLEST_COMPONENT * max(values[-1], np.finfo(np.float64).tiny)]
        chosen = vectors[:, leading] / np.sqrt(values[leading])
        return np.concatenate([-told @ chosen, chosen]).astype(np.float32)

    @property
    def components(self) -> int:
        return int(self.loadings.shape[1])

    @property
    def functions(self) -> int:
        """The number of functions that features are made of."""
        return self.first + (0 if self.fourier is None or not self.components else self.fourier.size)

    def with_components(self, components: int) -> "Smooth":
        """The beginning of this map."""
        other = copy.copy(self)
        other.loadings = self.loadings[:, :components]
        if not components:
            other.loadings, other.fourier = np.empty((self.first, 0), np.float32), None
        other._describe()
        return other

    def _describe(self) -> None:
        self.size = self.first + self.components
        parts = [self.polynomial.description, *([self.splines.description] if self.splines is not None else [])]
        if self.components:
            parts.append(f"{self.components} leading Fourier components")
        self.description = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)

    def _core(self, inputs: Float32) -> Float32:
        polynomial = self.polynomial(inputs)
        return polynomial if self.splines is None else np.concatenate([polynomial, self.splines(inputs)], axis=1)

    def __call__(self, inputs: Float32) -> Float32:
        core = self._core(inputs)
        if self.fourier is None:
            return core
        leading = self.fourier(inputs) @ self.loadings[self.first :]
        leading += core @ self.loadings[: self.first]
        return np.concatenate([core, leading], axis=1)

    def on_functions(self, vectors: checks.Array) -> checks.Array:
        """What gives of the functions what these vectors `[m, size]` give of the features, `[m, functions]`."""
        found = vectors[:, self.first :] @ self.loadings.T.astype(np.float64)
        found[:, : self.first] += vectors[:, : self.first]
        return found

    def products(self, inputs: Float32, on_functions: checks.Array) -> checks.Array:
        """Functions times vectors, `[m, n]`: for few vectors far less work than the components."""
        found = times(self._core(inputs), on_functions[:, : self.first])
        if self.fourier is not None:
            found += times(self.fourier(inputs), on_functions[:, self.first :])
        return found


def times(features: NDArray[np.floating] | sp.csr_array, vectors: checks.Array) -> checks.Array:
    """Features times vectors `[m, size]`, computed in double precision, `[m, n]`."""
    if isinstance(features, sp.csr_array):
        return np.stack([np.asarray(features @ vector) for vector in vectors])
    matrix = np.asarray(features, np.float64)
    if len(vectors) > FEW:
        return np.asarray(np.dot(vectors, matrix.T))
    return np.stack([np.dot(matrix, vector) for vector in vectors])


def _regressed(inputs: checks.Array, outputs: checks.Array) -> tuple[checks.Array, checks.Array]:
    """Coefficients of outputs on inputs, of least norm, and what they give: least squares for many outputs, in products."""
    basis, triangle = np.linalg.qr(inputs)
    left, values, right = np.linalg.svd(triangle, full_matrices=False)
    kept = values > SMALLEST_INPUT * values[0]
    basis = basis @ left[:, kept]
    along = basis.T @ outputs
    return right[kept].T @ (along / values[kept, None]), basis @ along


class Transformer:
    """A scikit-learn transformer or pipeline, fitted on the sample."""

    def __init__(self, transformer: Any, sample: Float32, random_state: int) -> None:
        self.description = f"{user_code.type_name(transformer)} on {sample.shape[1]} inputs"
        self._called(self._fit, transformer, sample, random_state)
        self.size = self(sample[:2]).shape[1]

    def _fit(self, transformer: Any, sample: Float32, random_state: int) -> None:
        from sklearn.base import clone

        self._transformer = clone(transformer)
        unset = {
            name: random_state
            for name, value in self._transformer.get_params().items()
            if name.split("__")[-1] == "random_state" and value is None
        }
        self._transformer.set_params(**unset)
        self._transformer.fit(sample)

    def __call__(self, inputs: Float32) -> checks.Array:
        return self._checked(self._called(self._transform, inputs), len(inputs))

    def _transform(self, inputs: Float32) -> NDArray[Any]:
        result = self._transformer.transform(np.ascontiguousarray(inputs))
        if hasattr(result, "toarray"):
            result = result.toarray()
        return result if type(result) is np.ndarray else self._checked(result, len(inputs))

    def _checked(self, result: Any, rows: int) -> checks.Array:
        name, shape = f"The output of {self.description}", (rows, None)
        return checks.float_array(name, result, ("row", "feature"), shape, largest=checks.LARGEST)

    def _called(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return user_code.call(lambda error: f"{self.description} failed with {error}.", function, *arguments)


def median_distance(sample: Float32, rng: np.random.Generator, pairs: int = 10_000) -> float:
    """Between random rows; one where all are alike."""
    first, second = rng.integers(len(sample), size=(2, pairs))
    distances = np.linalg.norm(sample[first] - sample[second], axis=1)
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0
