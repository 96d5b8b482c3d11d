"""The attack on `moments` in a room, from the view of holders who put together what they know.

Colluders know their own rows, and their own shares of the noise, and take both away from every total. What is left has
the shares of the honest holders, each drawn as a holder draws it: by its own `Run`, under its own key, of a pool's
share. The rest is the attack on `moments` (`moments_audit`). That masks hide all but totals is no part of it: see the
tests of secure sums.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radoboost.errors import ArgumentError
from radoboost.holder.run import Run
from radoboost.privacy import Event
from radoboost.privacy.shared_noise import noise_share

Share = Callable[[int, int], float]


class _Seat:
    """The pool of one honest holder, as far as its noise goes: sums are taken elsewhere."""

    noise_factor = 1.0

    def __init__(self, share: float) -> None:
        self.noise_share = share

    def begin(self, event: Event) -> None:
        pass

    def total(self, arrays: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        return list(arrays)

    def agreed(self, compute: Callable[[], Any], read: Callable[[Any], Any] = lambda value: value) -> Any:
        return read(compute())


def view_of_colluders(
    holders: int, tolerate: int, colluders: int, *, silent: int = 0, share: Share = noise_share
) -> type[Run]:
    """Runs whose noise is what colluders see of a room's: the shares of all other holders, but of `silent` ones.

    `share` and `silent` let tests attack a faulty room.
    """
    honest = holders - colluders - silent
    if honest < 1 or colluders < 0 or silent < 0:
        raise ArgumentError(f"of {holders} holders, {colluders} collude and {silent} are silent: nobody is left")

    class View(Run):
        def __init__(self, source: Any, engine: Any, runner: Any, noise_key: bytes | None = None) -> None:
            super().__init__(source, engine, runner, noise_key)
            seat = _Seat(share(holders, tolerate))
            keys = [None if noise_key is None else _key(noise_key, k) for k in range(honest)]
            self._others = [Run(source, engine, runner, key, pool=seat) for key in keys]

        def book(self, event: Event) -> None:
            super().book(event)
            for other in self._others:
                other.book(event)

        def noise(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
            total = np.zeros(shape, dtype=np.int64)
            for other in self._others:
                total += other.noise(scale, shape)
            return total

    return View


def _key(key: bytes, holder: int) -> bytes:
    return hashlib.sha256(b"radoboost/audit/room/" + holder.to_bytes(8, "little") + key).digest()
