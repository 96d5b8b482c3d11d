"""Noise that several holders add in shares: how large a share is, and what remains against whom.

Of K holders up to t may be lost, or tell others what they know. Noise of standard deviation s is wanted, so each adds a
share of s / sqrt(K - t): those of any K - t holders come to s. Labels are those of docs/proofs/shared-noise.md.
"""

from dataclasses import replace
from math import inf, nextafter, sqrt

from radoboost.errors import ArgumentError
from radoboost.privacy.events import Composed, Event, Gaussian, Repeated, SubsampledGaussian

LEAST_SHARE = 8.0  # grid steps: with less, a sum of rounded shares is not a rounded sum (D2)
LATTICE_VARIATION = 2.0**-180  # between a sum of rounded shares and a rounded sum, in each number (D4)
_UP = 1 + 2.0**-50  # for what is rounded on the way to a share


def noise_share(holders: int, tolerate: int) -> float:
    """Which part of a standard deviation each of so many holders adds, never below what is needed (D1)."""
    return _UP / sqrt(_least(holders, tolerate))


def noise_factor(present: int, holders: int, tolerate: int) -> float:
    """How many times the standard deviation that was wanted the shares of those who are present come to."""
    return sqrt(present / _least(holders, tolerate))


def shared_variation(variation: float, holders: int) -> float:
    """How far a number with the noise of so many holders may be from the Gaussian mechanism's (D5).

    `variation` is that of one share.
    """
    return variation if holders == 1 else nextafter(holders * variation + LATTICE_VARIATION, inf)


def against(event: Event, honest: int, holders: int, tolerate: int) -> Event:
    """An event whose noise is that of `honest` holders alone, where its own is that of K - t of them (D6, D7)."""
    if not 1 <= honest <= holders:
        raise ArgumentError(f"of {holders} holders 1 to {holders} are honest, not {honest}")
    return _with_noise(event, sqrt(honest / _least(holders, tolerate)))


def _least(holders: int, tolerate: int) -> int:
    if not 1 <= tolerate < holders:
        raise ArgumentError(f"of {holders} holders 1 to {holders - 1} may be lost or collude, not {tolerate}")
    return holders - tolerate


def _with_noise(event: Event, factor: float) -> Event:
    """The same event with so many times the noise, rounded down."""
    if isinstance(event, Repeated):
        return Repeated(_with_noise(event.event, factor), event.count)
    if isinstance(event, Composed):
        return Composed(tuple(_with_noise(part, factor) for part in event.events))
    if isinstance(event, Gaussian | SubsampledGaussian) and factor != 1.0:
        noise = event.noise_multiplier * factor
        return replace(event, noise_multiplier=nextafter(nextafter(nextafter(noise, 0.0), 0.0), 0.0))
    return event
