"""The slow twin of crafting: plain loops over ints and fractions, nothing from the package.

Written from DESIGN.md ("The grid", "The keystream", labels in "Public face") and from section 2 of
the paper, never from the code it checks. Only `Plain` rados over `AllSignatures` are crafted here.
"""

import hashlib
import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from numbers import Integral

TILE, TILES_PER_SLAB, MAX_RADOS = 64, 65536, 524_288
GRID_BITS, MASK32 = 22, 0xFFFFFFFF

Limit = float | None
Vector = Sequence[float]
Rows = Sequence[Sequence[float]]
Bounds = Sequence[tuple[float, float] | None]


# ---- the keystream


def _quarter_round(state: list[int], a: int, b: int, c: int, d: int) -> None:
    """RFC 8439, 2.1: four additions modulo 2**32, each followed by XOR and a left rotation."""
    for target, addend, mixed, shift in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[target] = (state[target] + state[addend]) & MASK32
        word32 = state[mixed] ^ state[target]
        state[mixed] = ((word32 << shift) | (word32 >> (32 - shift))) & MASK32


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439, 2.3: 64 bytes from a 32-byte key, a 32-bit block counter and a 12-byte nonce."""
    if len(key) != 32 or len(nonce) != 12 or not 0 <= counter < 2**32:
        raise ValueError("ChaCha20 takes a 32-byte key, a 32-bit counter and a 12-byte nonce")
    constants = struct.unpack("<4I", b"expand 32-byte k")
    start = [*constants, *struct.unpack("<8I", key), counter, *struct.unpack("<3I", nonce)]
    state = list(start)
    for _ in range(10):
        for turn, i in itertools.product((0, 1), range(4)):  # four columns, then four diagonals
            b, c, d = (4 * row + (i + row * turn) % 4 for row in (1, 2, 3))
            _quarter_round(state, i, b, c, d)
    return struct.pack("<16I", *((x + y) & MASK32 for x, y in zip(state, start, strict=True)))


_cached_block = lru_cache(maxsize=1 << 16)(chacha20_block)


def key_from_seed(seed: int) -> bytes:
    """`seed=k` means key = SHA-256 of the bytes `radoboost/seed/` followed by k in decimal."""
    return hashlib.sha256(b"radoboost/seed/" + str(int(seed)).encode("ascii")).digest()


def word(key: bytes, n: int, tile: int, rado: int, plane: int = 0) -> int:
    """The little-endian uint64 at byte ((t % 65536) * n + j) * 8, nonce plane || slab."""
    if not (1 <= n <= MAX_RADOS and 0 <= rado < n and tile >= 0 and 0 <= plane < 2**32):
        raise ValueError(f"no such word: n={n}, tile={tile}, rado={rado}, plane={plane}")
    slab = tile // TILES_PER_SLAB
    nonce = plane.to_bytes(4, "little") + slab.to_bytes(8, "little")
    counter, offset = divmod(((tile % TILES_PER_SLAB) * n + rado) * 8, 64)
    block = _cached_block(key, counter, nonce)
    return int.from_bytes(block[offset : offset + 8], "little")


def bit(key: bytes, n: int, row: int, rado: int, plane: int = 0) -> int:
    """Example i is in rado j iff bit `i % 64` of word(t, j) is 1, with tile t = i // 64."""
    return (word(key, n, row // TILE, rado, plane) >> (row % TILE)) & 1


def signature_bits(key: bytes, m: int, n: int, first_row: int = 0) -> list[list[int]]:
    """Row i (global, from 0), rado j (from 0): the bits of m rows from first_row, n to a row."""
    rows = range(first_row, first_row + m)
    return [[bit(key, n, row, j) for j in range(n)] for row in rows]


# ---- the grid


def label_sign(label: int) -> int:
    """1 / True is +1 and 0 / -1 / False is -1."""
    if label not in (1, 0, -1):
        raise ValueError(f"label {label!r} is none of 1, 0, -1")
    return 1 if label == 1 else -1


def as_float64(x: float) -> float:
    """Every input is first float64 (an integer beyond 2**53 is refused)."""
    if isinstance(x, Integral) and abs(int(x)) > 2**53:
        raise ValueError(f"integer {x} is beyond 2**53")
    value = float(x)
    if not math.isfinite(value):
        raise ValueError(f"{x!r} is not finite")
    return value


def exact_statistics(values: Vector) -> tuple[float, float, float]:
    """Mean and variance: the float64 nearest to the exact one; std = sqrt(variance), 1 where 0."""
    m = len(values)
    total = sum((Fraction(x) for x in values), Fraction(0))
    squares = sum((Fraction(x) ** 2 for x in values), Fraction(0))
    mean = float(total / m)
    variance = float(squares / m - (total / m) ** 2)
    return mean, variance, math.sqrt(variance) if variance != 0.0 else 1.0


def clipped(x: float, low: Limit, high: Limit) -> float:
    """With bounds: x is clipped to [low, high]."""
    if low is not None and x < low:
        return low
    return high if high is not None and x > high else x


def scaled_value(x: float, scale: str | None, low: Limit, high: Limit, mean: float = 0.0, std: float = 1.0) -> float:
    """x, or (x - mean) / std, or clip(2 (x - low) / (high - low) - 1, -1, 1), in that order."""
    if scale is None:
        return clipped(x, low, high)
    if scale == "standard":
        return (clipped(x, low, high) - mean) / std
    if scale != "bounds":
        raise ValueError(f"no such scale: {scale!r}")
    if low is None or high is None or not low < high:
        raise ValueError(f"scale='bounds' needs low < high, got ({low}, {high})")
    return clipped(2.0 * (x - low) / (high - low) - 1.0, -1.0, 1.0)


def scaling_constants(values: Vector, scale: str | None, low: Limit = None, high: Limit = None) -> tuple[float, float]:
    """Mean and std of a column for "standard", where given bounds clip first; else (0, 1)."""
    if scale != "standard":
        return 0.0, 1.0
    mean, _, std = exact_statistics([clipped(x, low, high) for x in values])
    return mean, std


def column_bound(values: Vector, scale: str | None, low: Limit = None, high: Limit = None) -> float:
    """Feature k has a bound b_k: largest |x| or |bound|; 1; from the smallest and largest x."""
    if scale == "bounds":
        return 1.0
    if scale is None and low is not None and high is not None:
        return max(abs(low), abs(high))
    mean, std = scaling_constants(values, scale, low, high)
    ends = (min(values), max(values))
    return max(abs(scaled_value(x, scale, low, high, mean, std)) for x in ends)


def grid_step(bound: float) -> float:
    """2**e is the smallest power of two >= b_k; step = 2**(e - 22); b_k = 0 has step 1."""
    if bound == 0.0:
        return 1.0
    if not 2.0**-900 <= bound <= 2.0**900:
        raise ValueError(f"a bound of {bound} is outside 2**-900 .. 2**900")
    exact = Fraction(bound)
    e = exact.numerator.bit_length() - exact.denominator.bit_length() - 1  # 2**e < bound
    while Fraction(2) ** e < exact:
        e += 1
    return float(Fraction(2) ** (e - GRID_BITS))


def grid_integer(value: float, step: float) -> int:
    """The integer is rint(value / step), ties to even."""
    quotient = Fraction(value) / Fraction(step)
    floor = quotient.numerator // quotient.denominator
    rest = quotient - floor
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1)
    return floor + 1 if up else floor


# ---- crafting


def edge_integers(
    rows: Rows, labels: Sequence[int], scale: str | None, bounds: Bounds | None, intercept: bool
) -> tuple[list[list[int]], list[float]]:
    """Integers rint(value / step) times the label, by row, and steps; the constant is last."""
    signs = [label_sign(label) for label in labels]
    edges: list[list[int]] = [[] for _ in rows]
    steps: list[float] = []
    for k in range(len(rows[0])):
        values = [as_float64(row[k]) for row in rows]
        pair = bounds[k] if bounds is not None else None
        low, high = (None, None) if pair is None else (as_float64(pair[0]), as_float64(pair[1]))
        mean, std = scaling_constants(values, scale, low, high)
        steps.append(grid_step(column_bound(values, scale, low, high)))
        for edge, x, sign in zip(edges, values, signs, strict=True):
            value = scaled_value(x, scale, low, high, mean, std)
            edge.append(sign * grid_integer(value, steps[k]))
    if intercept:
        steps.append(grid_step(1.0))
        for edge, sign in zip(edges, signs, strict=True):
            edge.append(sign * grid_integer(1.0, steps[-1]))
    return edges, steps


def craft(
    rows: Rows,
    labels: Sequence[int],
    n: int,
    key: bytes,
    scale: str | None,
    bounds: Bounds | None = None,
    intercept: bool = True,
    first_row: int = 0,
) -> tuple[list[list[int]], list[float], list[list[float]]]:
    """Integer sums over the examples in each rado, steps, and integer * step; zero is +0.0."""
    edges, steps = edge_integers(rows, labels, scale, bounds, intercept)
    bits = signature_bits(key, len(rows), n, first_row)
    integers = [[0] * len(steps) for _ in range(n)]
    for i, j, k in itertools.product(range(len(rows)), range(n), range(len(steps))):
        if bits[i][j] == 1:
            integers[j][k] += edges[i][k]
    rados = [[float(s * Fraction(q)) for s, q in zip(r, steps, strict=True)] for r in integers]
    return integers, steps, rados


# ---- the paper, section 2


def rado(rows: Rows, labels: Sequence[int], signature: Sequence[int]) -> list[float]:
    """The Rademacher observation with signature sigma is (1/2) sum_i (sigma_i + y_i) x_i."""
    halves = [(s + y) // 2 for s, y in zip(signature, labels, strict=True)]
    columns = zip(*rows, strict=True)
    return [math.fsum(h * x for h, x in zip(halves, xs, strict=True)) + 0.0 for xs in columns]


def _dot(theta: Vector, x: Vector) -> float:
    return math.fsum(a * b for a, b in zip(theta, x, strict=True))


def logistic_risk(rows: Rows, labels: Sequence[int], theta: Vector) -> float:
    """Eq. deflogloss: (1/m) sum_i log(1 + exp(-y_i theta^T x_i))."""
    margins = [y * _dot(theta, x) for x, y in zip(rows, labels, strict=True)]
    return math.fsum(max(-z, 0.0) + math.log1p(math.exp(-abs(z))) for z in margins) / len(margins)


def rado_risk(rados: Rows, theta: Vector) -> float:
    """Eq. defExp: (1/n) sum over the given rados of exp(-theta^T rado)."""
    return math.fsum(math.exp(-_dot(theta, r)) for r in rados) / len(rados)


def choose_feature(edges: Vector, oracle: str, cap: float = 1.0) -> int:
    """Strongest; Median at (d - 1) // 2 of ascending |r|; Prudential under its cap; ties to the lower index."""
    order = sorted(range(len(edges)), key=lambda k: (abs(edges[k]), k))
    if oracle == "median":
        return order[(len(edges) - 1) // 2]
    allowed = [k for k in range(len(edges)) if oracle == "strongest" or abs(edges[k]) <= cap]
    return max(allowed, key=lambda k: (abs(edges[k]), -k)) if allowed else -1


def radoboost(
    rows: Rows,
    n_rounds: int,
    oracle: str = "strongest",
    cap: float = 1.0,
    kappa: float = 1.0,
    exponential: bool = False,
    clamp: float = 0.0,
) -> tuple[list[float], list[tuple[int, float, float]], list[list[float]]]:
    """Algorithm 1 as printed, with kappa: theta, (feature, edge, leverage) of each round, weights after each round."""
    n, d = len(rows), len(rows[0])
    star = [max(abs(row[k]) for row in rows) for k in range(d)]
    weights, theta, rounds, history = [1.0 / n] * n, [0.0] * d, [], []
    for _ in range(n_rounds):
        edges = [
            math.fsum(w * row[k] for w, row in zip(weights, rows, strict=True)) / star[k] if star[k] else 0.0
            for k in range(d)
        ]
        k = choose_feature(edges, oracle, cap)
        if k < 0 or abs(edges[k]) < 1e-12:
            break
        r = math.copysign(min(max(abs(edges[k]), clamp), 1 - 1e-12), edges[k])
        leverage = math.log((1 + r) / (1 - r)) / (2 * kappa * star[k])
        theta[k] += leverage
        for j, row in enumerate(rows):
            weights[j] *= math.exp(-leverage * row[k]) if exponential else (1 - r * row[k] / star[k]) / (1 - r * r)
        total = math.fsum(weights)
        weights = [w / total for w in weights]
        rounds.append((k, r, leverage))
        history.append(list(weights))
    return theta, rounds, history


def regularised_boosting(
    rows: Rows, slopes: Vector, bends: Rows, centred: bool, n_rounds: int
) -> list[tuple[int, float, float]]:
    """Boosting with a penalty by halving intervals: (column, step of theta, log risk with the penalty) of each round.

    The penalty is sum slopes_k |theta_k| + theta' bends theta / 2. Every bound of L6 is minimised over a step by a
    search that knows nothing but that it is convex.
    """
    n, d = len(rows), len(rows[0])
    low, high = [min(row[k] for row in rows) for k in range(d)], [max(row[k] for row in rows) for k in range(d)]
    middle = [(low[k] + high[k]) / 2 if centred else 0.0 for k in range(d)]
    half = [(high[k] - low[k]) / 2 if centred else max(-low[k], high[k]) for k in range(d)]
    theta: list[float] = [0.0] * d
    found: list[tuple[int, float, float]] = []

    def amount(weights: Vector) -> float:
        quadratic = math.fsum(weights[k] * _dot(bends[k], weights) for k in range(d))
        return math.fsum(s * abs(w) for s, w in zip(slopes, weights, strict=True)) + quadratic / 2

    for _ in range(n_rounds):
        margins = [_dot(theta, row) for row in rows]
        weights = [math.exp(min(margins) - z) for z in margins]
        total, best = math.fsum(weights), (-1e-13, -1, 0.0)
        for k in range(d):
            if half[k] == 0:
                continue
            edge = math.fsum(w * (row[k] - middle[k]) / half[k] for w, row in zip(weights, rows, strict=True)) / total
            edge = min(max(edge, -(1 - 1e-12)), 1 - 1e-12)

            def bound(a: float, k: int = k, edge: float = edge) -> float:
                moved = [weight + a / half[k] * (place == k) for place, weight in enumerate(theta)]
                toward = edge if a > 0 else -edge
                first = abs(a) + math.log(((1 - toward) + (1 + toward) * math.exp(-2 * abs(a))) / 2)
                return first - a * middle[k] / half[k] + amount(moved) - amount(theta)

            step = _least(bound)
            candidates = [step, -theta[k] * half[k]]
            value, step = min((bound(a), a) for a in candidates)
            if value < best[0]:
                best = (value, k, step)
        if best[1] < 0:
            break
        _, k, step = best
        theta[k] += step / half[k]
        risk = math.log(math.fsum(math.exp(-_dot(theta, row) + min(_dot(theta, r) for r in rows)) for row in rows) / n)
        found.append((k, step / half[k], risk - min(_dot(theta, r) for r in rows) + amount(theta)))
    return found


def _least(function: Callable[[float], float]) -> float:
    """Where a convex function is least: by golden sections, within a reach that is doubled until it is inside."""
    reach, ratio = 1.0, (math.sqrt(5) - 1) / 2
    while min(function(-reach), function(reach)) < min(function(-reach / 2), function(reach / 2)) and reach < 1e12:
        reach *= 2
    low, high = -reach, reach
    for _ in range(70):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if function(left) <= function(right):
            high = right
        else:
            low = left
    return (low + high) / 2


# ---- noise


class LazyUniform:
    """A uniform number in [0, 1), of which 64-bit digits are drawn only when they are asked for."""

    def __init__(self, stream: Iterator[int]) -> None:
        self.stream = stream
        self.digits = [next(stream)]

    def digit(self, place: int) -> int:
        """The digit at this place, from 0; earlier ones must have been drawn."""
        if place == len(self.digits):
            self.digits.append(next(self.stream))
        return self.digits[place]

    def less(self, other: "LazyUniform") -> bool:
        """Compare first words; where they tie the other's second word and then this one's; a second tie is a no."""
        if self.digits[0] != other.digits[0]:
            return self.digits[0] < other.digits[0]
        theirs = other.digit(1)
        return self.digit(1) < theirs


def trial_exp_half(stream: Iterator[int]) -> bool:
    """Is the longest run 1/2 > u_1 > u_2 > ... > u_n of even length? Yes with probability exp(-1/2)."""
    previous = LazyUniform(stream)
    if previous.digits[0] >= 2**63:
        return True
    length = 1
    while (fresh := LazyUniform(stream)).less(previous):
        previous, length = fresh, length + 1
    return length % 2 == 0


def uniform_below(stream: Iterator[int], bound: int) -> int:
    """floor(a * bound / 2**32) for the top 32 bits a of a word, skipping those with a remainder below 2**32 % bound."""
    while True:
        quotient, remainder = divmod((next(stream) >> 32) * bound, 2**32)
        if remainder >= 2**32 % bound:
            return quotient


def trial_of_x(stream: Iterator[int], k: int, x: LazyUniform) -> bool:
    """Yes with probability exp(-x (2k + x) / (2k + 2)): a run below x, each step kept with odds (2k + x) / (2k + 2)."""
    previous, length = x, 0
    while True:
        fresh = LazyUniform(stream)
        if not fresh.less(previous):
            break
        part = uniform_below(stream, 2 * k + 2)
        if part == 2 * k + 1 or (part == 2 * k and not LazyUniform(stream).less(x)):
            break
        previous, length = fresh, length + 1
    return length % 2 == 0


def rounded_normal(stream: Iterator[int], scale: Fraction) -> int:
    """round(scale * Z) by Karney's algorithm N for |Z| < 15; StopIteration where the words run out."""
    while True:
        k = 0
        while k < 15 and trial_exp_half(stream):
            k += 1
        if k == 15 or not all(trial_exp_half(stream) for _ in range(k * (k - 1))):
            continue
        x = LazyUniform(stream)
        if all(trial_of_x(stream, k, x) for _ in range(k + 1)):
            break
    sign = -1 if next(stream) >= 2**63 else 1
    places, low = 0, Fraction(k)
    while True:
        places += 1
        low += Fraction(x.digit(places - 1), 2 ** (64 * places))
        high = low + Fraction(1, 2 ** (64 * places))  # itself out of reach
        nearest = math.floor(scale * low + Fraction(1, 2))
        if math.ceil(scale * high + Fraction(1, 2)) - 1 == nearest:
            return sign * nearest


def noise_words(key: bytes, row: int, n_columns: int, plane: int, per_number: int, per_row: int) -> Iterator[int]:
    """The words of a row: its own ones among those of 1024 rows, then those of its overflow stream."""
    own = per_number * n_columns + per_row
    first = row % 1024 * own
    yield from _words_of(key, plane, row // 1024, first, first + own)
    yield from _words_of(key, plane + 2**31, row, 0, 2**35)


def _words_of(key: bytes, plane: int, number: int, start: int, stop: int) -> Iterator[int]:
    nonce = plane.to_bytes(4, "little") + number.to_bytes(8, "little")
    for at in range(start, stop):
        counter, place = divmod(at, 8)
        yield struct.unpack_from("<Q", _cached_block(key, counter, nonce), 8 * place)[0]


# ---- the rows of moments, from docs/exactness.md


def float32(x: float) -> float:
    """The nearest float32; products and sums of two are right if they are rounded from float64 once more."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def _truncated(numbers: Vector, most: int) -> list[int]:
    """Towards zero, or all zero if anything is no number or the result is longer than `most`."""
    if not all(math.isfinite(x) for x in numbers):
        return [0] * len(numbers)
    whole = [math.trunc(x) for x in numbers]
    return whole if sum(x * x for x in whole) <= most * most else [0] * len(numbers)


def _norm(numbers: Vector) -> float:
    squares = 0.0
    for x in numbers:
        squares += x * x
    return math.sqrt(squares)


def on_sphere(
    row: Vector, sign: int, low: Vector, high: Vector, constant: float | None, grid: int
) -> tuple[list[int], bool]:
    """A row on the sphere, and whether it is good."""
    good = sign != 0 and all(math.isfinite(x) for x in row)
    scaled = [
        ((min(max(x, a), b) - a) * 2.0) / (b - a) - 1.0 if good else 0.0 for x, a, b in zip(row, low, high, strict=True)
    ]
    scaled += [] if constant is None else [constant]
    factor = grid / max(_norm(scaled), 2.0**-500)
    return _truncated([x * factor for x in scaled], grid) if good else [0] * len(scaled), good


def exact_moments(rows: Sequence[Sequence[int]], places: Sequence[int], slots: int) -> tuple[list, list]:
    """The sums of integer rows by slot, and of their products; of one slot, places are signs."""
    d = len(rows[0])
    sums, products = [[0] * d for _ in range(slots)], [[0] * d for _ in range(d)]
    for row, place in zip(rows, places, strict=True):
        for j in range(d):
            sums[0 if slots == 1 else place][j] += row[j] * (place if slots == 1 else 1)
            for k in range(d):
                products[j][k] += row[j] * row[k]
    return sums, products


def whitened(q: Sequence[int], a: Rows, sign: int, grid: int) -> list[int]:
    image = [0.0] * len(q)
    for k, value in enumerate(q):
        for j in range(len(q)):
            image[j] += a[k][j] * value
    norm = _norm(image)
    factor = grid / norm if norm > 0 else 0.0
    return [sign * e for e in _truncated([x * factor for x in image], grid)]


def exponential(x: float) -> float:
    """By its series, with float64 operations alone."""
    x = x if x < 64.0 else 64.0
    x = x if x > -64.0 else -64.0
    t = x * float.fromhex("0x1.71547652b82fep+0") + float.fromhex("0x1.8p+52")
    k = t - float.fromhex("0x1.8p+52")
    r = (x - k * float.fromhex("0x1.62e42feep-1")) - k * float.fromhex("0x1.a39ef35793c76p-33")
    p = float(Fraction(1, math.factorial(13)))
    for n in range(12, -1, -1):
        p = p * r + float(Fraction(1, math.factorial(n)))
    bits, shift = struct.unpack("<QQ", struct.pack("<dd", p, t))
    return float(struct.unpack("<d", struct.pack("<Q", (bits + (shift << 52)) % 2**64))[0])


# ---- feature maps, from the section "Feature maps" of docs/exactness.md


def bits_of(x: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def float_of(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def _half_square(f: float) -> tuple[float, float]:
    upper = float_of(bits_of(f) & ~(2**27 - 1))
    return 0.5 * (upper * upper), 0.5 * ((f - upper) * (f + upper))


def log1p(x: float) -> float:
    """log(1 + x), for x >= 0."""
    if not x < math.inf:
        return x
    root = float.fromhex("0x1.6a09e667f3bcdp-1")
    u = 1.0 + x
    rest = x - (u - 1.0) if x < 1.0 else 1.0 - (u - x)
    i = bits_of(u) + (bits_of(1.0) - bits_of(root))
    k = (i >> 52) - 1023
    f = x if k == 0 else float_of(i % 2**52 + bits_of(root)) - 1.0
    h, g = _half_square(f)
    s = f / (2.0 + f)
    z = s * s
    p = float(Fraction(2, 23))
    for n in range(21, 1, -2):
        p = p * z + float(Fraction(2, n))
    small = s * ((h + g) + p * z) - g
    small = small + (k * float.fromhex("0x1.ef35793c7673p-45") + (0.0 if k == 0 else rest / u))
    a = k * float.fromhex("0x1.62e42fefa38p-1")
    b = a + f
    d = b - h
    small = small + (((a - b) + f) + ((b - d) - h))
    return d + small


def map_input(x: float, entry: dict) -> float:
    """The number of one input, described as in a release."""
    if not math.isfinite(x):
        return math.nan
    x = min(max(x, entry.get("low", -math.inf)), entry.get("high", math.inf))
    v = (x + 0.0 - entry.get("shift", 0.0)) * entry.get("factor", 1.0)
    v = v / entry.get("divisor", 1.0) - entry.get("offset", 0.0)
    if entry.get("log", False):
        v = math.copysign(log1p(abs(v)), v)
    if "limit" in entry:
        v = min(max(v, -entry["limit"]), entry["limit"])
    if "levels" in entry:
        levels = entry["levels"]
        t = (v + 1.0) * ((len(levels) - 1) / 2)
        k = min(math.trunc(max(t, 0.0)), len(levels) - 2)
        v = levels[k] + (t - k) * (levels[k + 1] - levels[k])
    return v


def legendre(v: float, degree: int) -> float:
    """The Legendre polynomial of this degree, from those of the two degrees before it."""
    before, last = 1.0, v
    for k in range(1, degree):
        before, last = last, (((2 * k + 1) * v) * last - k * before) / (k + 1)
    return last


def mapped_row(row: dict, feature_map: dict) -> list[float]:
    """The outputs of one row of raw values by name, for a map described as in a release."""
    numbers = {}
    for entry in feature_map["inputs"]:
        label = f"log({entry['name']})" if entry.get("log") else entry["name"]
        label = f"rank({entry['name']})" if "levels" in entry else label
        numbers[label] = map_input(row[entry["name"]], entry)
    outputs = []
    for term in feature_map["terms"]:
        of = [numbers[label] for label in term["inputs"]]
        if term["kind"] == "linear":
            outputs.append(of[0])
        elif term["kind"] == "product":
            outputs.append(of[0] * of[1])
        else:
            total = legendre(of[0], term["degrees"][0])
            for v, degree in zip(of[1:], term["degrees"][1:], strict=True):
                total *= legendre(v, degree)
            outputs.append(total * term.get("factor", 1.0))
    return outputs


def tilted(e: Sequence[int], theta: Vector, grid: int, cap: float) -> list[int]:
    """The part of one row in a mean rado."""
    score = 0.0
    for value, coefficient in zip(e, theta, strict=True):
        score += value * coefficient
    weight = float32(min(1.0 / (1.0 + exponential(score * (1.0 / grid))), cap))
    return _truncated([float32(float32(value) * weight) for value in e], int(cap * grid))


def class_weights(row: Sequence[int], thetas: Sequence[Vector], grid: int, unit: int, most: int) -> list[int]:
    """Whole class weights of one row, whose last integer is its class, from 1 on."""
    place, scores = row[-1] - 1, []
    for theta in thetas:
        score = 0.0
        for value, coefficient in zip(row[:-1], theta, strict=True):
            score += value * coefficient
        scores.append(score * (1.0 / grid))
    top = scores[0]
    for score in scores[1:]:
        top = score if score > top else top
    powers = [exponential(score - top) for score in scores]
    total = 0.0
    for power in powers:
        total += power
    parts = [(1.0 if k == place else 0.0) - power / total for k, power in enumerate(powers)]
    square = 0.0
    for part in parts:
        square += part * part
    length, reach = math.sqrt(square), (math.sqrt(most) - math.sqrt(len(thetas)) / 2) / unit
    factor = unit * (reach / length) if length > reach else float(unit)
    whole = [round(part * factor) for part in parts]  # halves to even
    sound = 0 <= place < len(thetas) and sum(value * value for value in whole) <= most
    return whole if sound else [0] * len(whole)


# ---- signature sets of prescribed sizes


def start_bit(key: bytes, n: int, row: int, rado: int, quarters: int) -> int:
    """Rate 1/2 is plane 0; 1/4 is plane 0 AND plane 1; 3/4 is plane 0 OR plane 1."""
    first, second = bit(key, n, row, rado), bit(key, n, row, rado, plane=1)
    return {1: first & second, 2: first, 3: first | second}[quarters]


def nearest_quarters(support: int, m: int) -> int:
    """1/4, 1/2 or 3/4, whichever is nearest to support / m; ties go to 1/2."""
    rate = Fraction(support, m)
    return min((2, 1, 3), key=lambda quarters: (abs(rate - Fraction(quarters, 4)), abs(quarters - 2)))


def slab_bytes(key: bytes, plane: int, slab: int, first: int, count: int) -> bytes:
    """Bytes of the keystream under the nonce plane || slab, from byte `first`."""
    nonce = plane.to_bytes(4, "little") + slab.to_bytes(8, "little")
    blocks = range(first // 64, (first + count - 1) // 64 + 1)
    stream = b"".join(_cached_block(key, counter, nonce) for counter in blocks)
    return stream[first % 64 : first % 64 + count]


def subset_of_size(key: bytes, m: int, n: int, rado: int, size: int, quarters: int) -> list[int]:
    """Start bits; then candidate rows from plane 2**32 - 1, slab j, are switched until the size is exact."""
    bits = [start_bit(key, n, row, rado, quarters) for row in range(m)]
    wanted, position = int(sum(bits) < size), 0
    while sum(bits) != size:
        candidate = int.from_bytes(slab_bytes(key, 2**32 - 1, rado, position, 8), "little")
        position += 8
        if candidate < 2**64 - 2**64 % m and bits[candidate % m] != wanted:
            bits[candidate % m] = wanted
    return bits


def size_of_interval(key: bytes, m: int, n: int, rado: int, low: int, high: int) -> int:
    """The number of start bits if it fits; else K by inversion of weights, from 384 bits of plane 2**32 - 2, slab j."""
    at_start = sum(start_bit(key, n, row, rado, 2) for row in range(m))
    if low <= at_start <= high:
        return at_start
    centre = min(range(low, high + 1), key=lambda k: abs(2 * k - m))
    weights = {centre: 2**256}
    for k in range(centre, high):
        weights[k + 1] = math.floor(Fraction(weights[k] * (m - k), k + 1))
    for k in range(centre, low, -1):
        weights[k - 1] = math.floor(Fraction(weights[k] * k, m - k + 1))
    uniform = int.from_bytes(slab_bytes(key, 2**32 - 2, rado, 0, 48), "little")
    left = uniform * sum(weights.values()) >> 384
    for k in range(low, high + 1):
        left -= weights[k]
        if left < 0:
            return k
    raise AssertionError("a uniform integer below the total lies below the sum of all weights")


# ---- privacy: the same figures by enumeration, exact fractions and quadrature


def column_pair(m: int, low: int, high: int) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """K ~ Binomial(m, 1/2) kept in [low, high], and K + 1: what two neighbours show of one column."""
    total = sum(math.comb(m, k) for k in range(low, high + 1))
    here = {k: Fraction(math.comb(m, k), total) for k in range(low, high + 1)}
    return here, {k + 1: mass for k, mass in here.items()}


def column_delta(m: int, low: int, high: int, count: int, epsilon: float) -> float:
    """Largest over both directions of sum max(0, P(z) - e^epsilon Q(z)) over all z of `count` rados together."""
    growth = Fraction(math.exp(epsilon))
    deltas = []
    pair = column_pair(m, low, high)
    for p, q in (pair, pair[::-1]):
        # Outcomes with the same two probabilities are one; the number of them is what grows.
        joint = {(Fraction(1), Fraction(1)): 1}
        for _ in range(count):
            longer: dict[tuple[Fraction, Fraction], int] = {}
            for (a, b), times in joint.items():
                for k, mass in p.items():
                    key = (a * mass, b * q.get(k, Fraction(0)))
                    longer[key] = longer.get(key, 0) + times
            joint = longer
        deltas.append(sum(times * max(Fraction(0), a - growth * b) for (a, b), times in joint.items()))
    return float(max(deltas))


def _upper_tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2))


def sampled_delta(noise: float, q: float, epsilon: float, adding: bool, count: int = 1) -> float:
    """Poisson-subsampled Gaussian, one direction, one or two uses: closed form, then the mean of it over the first."""
    s = 1 / noise

    def loss(y: float) -> float:
        return math.log((1 - q) + q * math.exp(s * y - s * s / 2))

    def cut(level: float) -> float:
        inside = (math.exp(level) - (1 - q)) / q
        return (math.log(inside) + s * s / 2) / s if inside > 0 else -math.inf

    def one(e: float) -> float:
        if adding:  # the normal against the mixture: outcomes below the cut speak for the normal
            x = cut(-e)
            mixture = (1 - q) * _upper_tail(-x) + q * _upper_tail(s - x)
            return _upper_tail(-x) - math.exp(e) * mixture
        x = cut(e)
        return (1 - q) * _upper_tail(x) + q * _upper_tail(x - s) - math.exp(e) * _upper_tail(x)

    if count == 1:
        return one(epsilon)
    width, total = 0.005, []
    for i in range(int((24 + s) / width)):
        y = -12 + i * width
        density = math.exp(-y * y / 2) / math.sqrt(2 * math.pi)
        if not adding:
            density = (1 - q) * density + q * math.exp(-((y - s) ** 2) / 2) / math.sqrt(2 * math.pi)
        total.append(density * one(epsilon - (-loss(y) if adding else loss(y))))
    return width * math.fsum(total)


# ---- a total set in advance


def filtered(costs: Sequence[tuple[Fraction, Fraction, Fraction]], total: tuple[Fraction, ...]) -> list[bool]:
    """Which of these bookings, in their order, a total lets in: each of the three sums stays within its own."""
    spent = [Fraction(0)] * 3
    accepted = []
    for cost in costs:
        after = [spent[k] + cost[k] for k in range(3)]
        fits = all(after[k] <= total[k] for k in range(3))
        accepted.append(fits)
        if fits:
            spent = after
    return accepted


def total_delta(spent: tuple[float, float, float], epsilon: float) -> float:
    """delta at epsilon of Gaussians with this sum of mu squared, with delta0 and total variation on top."""
    mu = math.sqrt(spent[0])
    gaussian = _upper_tail(epsilon / mu - mu / 2) - math.exp(epsilon) * _upper_tail(epsilon / mu + mu / 2) if mu else 0
    return gaussian + spent[1] + (1 + math.exp(epsilon)) * spent[2]


# ---- rows of persons


def person_hash(key: bytes, person: bytes) -> bytes:
    """Whose rows go together."""
    return hashlib.blake2b(person, key=key, digest_size=16, person=b"ids").digest()


def row_hash(key: bytes, person: bytes, values, label: int | None) -> int:
    """63 bits of whose row it is and what it holds, by SplitMix64's finaliser, one word at a time.

    Without a label it is left out.
    """
    start, step = struct.unpack("<QQ", hashlib.blake2b(key=key, digest_size=16, person=b"rows").digest())
    words = [struct.unpack("<Q", person_hash(key, person)[8:])[0]]
    words += [struct.unpack("<Q", struct.pack("<d", value + 0.0))[0] for value in values]
    words += [] if label is None else [int(label > 0)]
    state, full = start, 2**64 - 1
    for word in words:
        state = ((state ^ word) + step) & full
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & full
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & full
        state ^= state >> 31
    return state >> 1


def chosen_rows(people, values, labels, most: int, key: bytes, *, with_label: bool) -> list[int]:
    """The rows that contribute: of each person the first `most`, good ones first, then by hash, then by number.

    People are bytes, or None where a row has no person; a label is -1, 1, or 0 if it is of no declared class.
    """
    rows_of: dict[bytes, list[tuple[bool, int, int]]] = {}
    for number, (person, row, label) in enumerate(zip(people, values, labels, strict=True)):
        if person is None:
            continue
        spoiled = label == 0 or not all(math.isfinite(value) for value in row)
        order = 0 if spoiled else row_hash(key, person, row, label if with_label else None)
        rows_of.setdefault(person_hash(key, person), []).append((spoiled, order, number))
    return sorted(number for rows in rows_of.values() for _, _, number in sorted(rows)[:most])
