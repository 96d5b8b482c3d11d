"""The mechanism and the signature set that the options of a command ask for."""

import dataclasses
from typing import Any

from radoboost.errors import ArgumentError, RadoError


def complete_mechanism(incomplete: str) -> list[str]:
    """Mechanisms whose names begin with `incomplete`."""
    from radoboost.holder.mechanisms import MECHANISMS

    return [name for name in MECHANISMS if name.startswith(incomplete)]


def complete_columns(incomplete: str) -> list[str]:
    """Words for the columns of a release that begin with `incomplete`."""
    from radoboost.holder.feature_maps import WORDS

    return [word for word in WORDS if word.startswith(incomplete)]


def chosen_mechanism(name: str | None, options: dict[str, Any]) -> Any:
    """The mechanism that the options ask for, refusing options that it does not have."""
    from radoboost.holder.mechanisms import MECHANISMS

    if name is None:
        name = (
            "noisy-rados" if options["noise_std"] is not None else "plain" if options["epsilon"] is None else "moments"
        )
    if name not in MECHANISMS:
        raise ArgumentError(f"there is no mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    values = {key: value for key, value in options.items() if value is not None}
    fields = {field.name: field for field in dataclasses.fields(MECHANISMS[name])}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            option = "--protect" if key == "feature" else f"--{key.replace('_', '-')}"
            raise ArgumentError(f"the mechanism {name} has no {option}; leave it out, or choose another mechanism")
    for key, field in fields.items():
        if field.default is dataclasses.MISSING and key not in values:
            option = "--protect COL" if key == "feature" else f"--{key}"
            raise ArgumentError(f"the mechanism {name} needs {option}; add it{field.metadata.get('otherwise', '')}")
    return MECHANISMS[name](**values)


def chosen_signatures(support: str | None, tilted: int | None = None) -> Any:
    """The signature set that --support or --tilted asks for; None for all signatures."""
    from radoboost import FixedSupport, Tilted, next_theta

    if tilted is not None:
        if support is not None:
            raise ArgumentError("tilted rados have no prescribed support; leave --support or --tilted out")
        return Tilted(tilted, next_theta)
    if support is None:
        return None
    try:
        return FixedSupport(int(support) if support.isdecimal() else float(support))
    except ValueError as error:
        if isinstance(error, RadoError):
            raise
        raise ArgumentError(f"--support must be a count, or a fraction such as 0.5; it is {support!r}") from None


def check_together(mechanism: Any, signatures: Any) -> None:
    """Refuse what no schema would help: tilted rados with a promise."""
    from radoboost import Tilted

    if isinstance(signatures, Tilted) and not getattr(mechanism, "may_tilt", False):
        raise ArgumentError(
            f"no promise is proved for tilted rados, and the mechanism {mechanism.name} cannot have them; leave "
            "--tilted out, or craft plain rados"
        )
