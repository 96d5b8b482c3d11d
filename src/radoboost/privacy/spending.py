"""What a failure leaves spent: whatever ends a release after its booking says what stays booked.

The ledger itself is asked, so that this is true also where the process was interrupted in the middle of a booking.
"""

from dataclasses import dataclass

from radoboost.errors import LedgerError, RadoError, what_is_spent
from radoboost.privacy.events import Event
from radoboost.privacy.ledger import Ledger


@dataclass(frozen=True)
class Account:
    """One release, or score, and the ledgers on which it is booked; there may be none."""

    ledgers: tuple[Ledger, ...] = ()
    release: str = ""
    purpose: str = "release"

    def book(self, event: Event) -> list[str]:
        """Book on every ledger; the ids of the bookings."""
        return [ledger.book(event, release=self.release, purpose=self.purpose) for ledger in self.ledgers]

    def add_to(self, error: BaseException) -> None:
        """Say once, in the line of an expected failure or in a note of any other, what stays booked."""
        parts = [] if what_is_spent(error) else [part for part in map(self._part, self.ledgers) if part is not None]
        if not parts:
            return
        line = f"{' and '.join(parts)}; no {self.purpose} was written"
        error.__dict__["spent"] = line
        if isinstance(error, RadoError):
            error.args = (f"{error.args[0]}; {line}", *error.args[1:])
        else:
            error.add_note(line)

    def _part(self, ledger: Ledger) -> str | None:
        try:
            return ledger.stays_booked(self.release)
        except LedgerError:
            return f"whatever was booked on {ledger.path} stays booked"
