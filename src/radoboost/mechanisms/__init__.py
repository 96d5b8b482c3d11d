"""What is done to rados before they leave, one file a mechanism.

A mechanism is a frozen description. It says whether it makes a promise (`private`), how columns are scaled
unless the holder says otherwise, and what its statement may claim.
"""

from radoboost.mechanisms.contract import Circumstances, Mechanism
from radoboost.mechanisms.plain import Plain

MECHANISMS: dict[str, type[Mechanism]] = {Plain.name: Plain}

__all__ = ["MECHANISMS", "Circumstances", "Mechanism", "Plain"]
