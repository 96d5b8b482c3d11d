"""The paper's encrypted route, real: rows that a crafter sums without being able to read them.

The learner makes a pair of keys and gives out the public one; senders encrypt rows; a crafter sums them over signatures
that it forgets; the learner decrypts the sums, and has the plain release, to the last bit. It needs gmpy2, of the extra
`secure`. Two servers with shares of rows (`rado share`) rest on the same assumption, that two parties keep apart, and
are far faster: see docs/encrypted.md.

- `encrypted_rows`: encrypt, craft, open_sums, load_rows: senders, ciphertext products over tiles, packing
- `paillier`: keygen, PublicKey, PrivateKey, load_key: Paillier's arithmetic

>>> from radoboost import secure
>>> keys = secure.keygen()                                                         # the learner
>>> rows = secure.encrypt([[1.0], [2.0], [3.0]], keys.public, y=[0, 1, 1])         # a sender
>>> sums = secure.craft(rows, n_rados=5)                                           # the crafter
>>> release = secure.open(sums, keys.private)                                      # the learner
>>> release.rados.shape, release.statement.epsilon
((5, 2), inf)
"""

from radoboost.encrypted.encrypted_rows import EncryptedRows, EncryptedSums, craft, encrypt, load_rows, load_sums
from radoboost.encrypted.encrypted_rows import open_sums as open
from radoboost.encrypted.paillier import Keys, PrivateKey, PublicKey, keygen, load_key

__all__ = [
    "EncryptedRows",
    "EncryptedSums",
    "Keys",
    "PrivateKey",
    "PublicKey",
    "craft",
    "encrypt",
    "keygen",
    "load_key",
    "load_rows",
    "load_sums",
    "open",
]
