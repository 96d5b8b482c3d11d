"""ChaCha20 in NumPy, for machines on which `cryptography` is not installed, and for figures that check it."""

import sys
import types

import numpy as np


def chacha_blocks(key, nonce, blocks):
    """Blocks of the keystream by their numbers, 16 words of 32 bits each."""
    start = np.empty((16, len(blocks)), np.uint32)
    start[:4] = np.frombuffer(b"expand 32-byte k", "<u4")[:, None]
    start[4:12], start[13:] = np.frombuffer(key, "<u4")[:, None], np.frombuffer(nonce, "<u4")[:, None]
    start[12] = np.asarray(blocks).astype(np.uint32)
    x = list(start.copy())
    quarters = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]  # fmt: skip
    for _ in range(10):
        for a, b, c, d in quarters:
            for p, q, r, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[p] = x[p] + x[q]
                mixed = x[r] ^ x[p]
                x[r] = mixed << np.uint32(turn) | mixed >> np.uint32(32 - turn)
    return np.ascontiguousarray((np.array(x) + start).T)


def stand_in_for_cryptography():
    """The few names that radoboost takes from cryptography, in NumPy."""

    class Stream:
        def __init__(self, key, nonce):
            self._key = key
            self.reset_nonce(nonce)

        def reset_nonce(self, nonce):
            self._block, self._nonce, self._rest = int.from_bytes(nonce[:4], "little"), nonce[4:], b""

        def update(self, zeros):
            missing = -(-(len(zeros) - len(self._rest)) // 64)
            if missing > 0:
                numbers = np.arange(self._block, self._block + missing)
                self._rest += chacha_blocks(self._key, self._nonce, numbers).astype("<u4").tobytes()
                self._block += missing
            out, self._rest = self._rest[: len(zeros)], self._rest[len(zeros) :]
            return out

        def update_into(self, zeros, target):
            target[: len(zeros)] = self.update(zeros)

    ciphers, algorithms = types.ModuleType("ciphers"), types.ModuleType("algorithms")
    algorithms.ChaCha20 = lambda key, nonce: (key, nonce)
    ciphers.Cipher = lambda algorithm, mode: types.SimpleNamespace(encryptor=lambda: Stream(*algorithm))
    ciphers.CipherContext, ciphers.algorithms = Stream, algorithms
    path = "cryptography.hazmat.primitives.ciphers"
    for name in ("cryptography", "cryptography.hazmat", "cryptography.hazmat.primitives"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[path], sys.modules[f"{path}.algorithms"] = ciphers, algorithms
