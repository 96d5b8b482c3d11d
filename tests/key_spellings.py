"""How a key might be written by somebody who should not have it, and which of these ways are in some text."""

import base64
import hashlib
import json

KEY = hashlib.sha256(b"a key that workers may know").digest()  # looks random, and is the same in every run
PLANTED = hashlib.sha256(b"a key that is logged").digest()
_SIGNS = dict(zip(b"\a\b\t\n\v\f\r\"'\\", "abtnvfr\"'\\", strict=True))  # that have an escape of their own


def spellings(key):
    """The ways, by name; each as the bytes of a file in UTF-8."""
    key = bytes(bytearray(key))  # neither mute nor anything else that is ours
    text = key.decode("latin-1")
    signed = [byte - 256 if byte > 127 else byte for byte in key]
    ways = {
        "latin-1 in UTF-8": text,
        "hex": key.hex(),
        "hex in capitals": key.hex().upper(),
        "hex with spaces": key.hex(" "),
        "hex with colons": key.hex(":"),
        "numbers": str(list(key))[1:-1],
        "numbers without spaces": ",".join(map(str, key)),
        "numbers of Java": str(signed)[1:-1],
        "JSON": json.dumps(text)[1:-1],
        "JSON of UTF-8": json.dumps(text, ensure_ascii=False)[1:-1],
        "repr": repr(key)[2:-1],
        "octal of Protobuf": _octal(key),
        "octal of Protobuf in JSON": json.dumps(_octal(key))[1:-1],
    }
    for name, encode in (("base64", base64.b64encode), ("base64 for addresses", base64.urlsafe_b64encode)):
        for skip in range(3):  # within something else, whose bytes before it are of any number
            whole = encode(bytes(skip) + key + bytes(3)).decode()
            ways[f"{name}, {skip}"] = whole[-(-8 * skip // 6) : (len(key) + skip) * 8 // 6]
    return {"raw": key, **{name: way.encode() for name, way in ways.items()}}


def _octal(key):
    """As Spark Connect shows bytes of plans."""
    signs = {byte: chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in range(256)}
    signs |= {byte: f"\\{sign}" for byte, sign in _SIGNS.items()}
    return "".join(signs[byte] for byte in key)


def found(said, key):
    """Which ways to write the key are in what was said, as bytes."""
    return [name for name, way in spellings(key).items() if way in said]
