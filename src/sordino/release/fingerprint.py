"""A fingerprint of the records that tells the owner which they were, and nobody else anything.

A plain digest of the records would be no secret. Whoever knows all records but one (whom
differential privacy assumes) could try every candidate for the last one against it, and no
epsilon survives that. The same holds for a digest with a salt that is published. So the salt is a
secret key, drawn afresh for each release: it stays in the ledger.
Without it a fingerprint is as good as random, and two certificates cannot be linked.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from sordino import checks

SALT_BYTES = 32


def new_salt() -> str:
    """A fresh secret, in hex, from the operating system."""
    return secrets.token_hex(SALT_BYTES)


def salted(digest_hex: str, salt_hex: str) -> str:
    """HMAC-SHA256 of a digest of the records, keyed by a salt that stays SECRET; all in hex.

    Publish the result, never the salt: see the top of this file.
    """
    if not is_sha256(digest_hex):
        checks.fail("digest", "[...]", "to be a SHA-256 digest in hex")
    if not isinstance(salt_hex, str) or not re.fullmatch(r"[0-9a-f]{64}", salt_hex):
        # The value itself stays out of the sentence: it is secret.
        checks.fail("salt", "[...]", f"to be {SALT_BYTES} bytes in hex", "Use new_salt().")
    key, content = bytes.fromhex(salt_hex), bytes.fromhex(digest_hex)
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def is_sha256(text: object) -> bool:
    """Whether `text` is a SHA-256 digest in lower-case hex."""
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{64}", text) is not None
