"""Removal of secret keys from URIs, so that the URIs may be shown and stored. Some people write keys into URIs."""

import re

HIDDEN = "***"

# ``s3://KEY:SECRET@bucket`` and the like: the text between the scheme and the last @ of the authority. A key may have
# an unescaped slash. So a part that looks like a path belongs to the key if a colon comes before it and an @ after it,
# unless the colon begins a port.
_USER_INFO = re.compile(r"(?<=://)[^\s/@:,'\"]*:(?!//|\d{1,5}(?:/|$))[^\s@,'\"]*@(?=[^\s@])")
_PARAMETER = re.compile(
    r"([?&;](?:[\w.-]*(?:secret|password|passwd|token|access[_-]?key|account[_-]?key|credential|signature)[\w.-]*|sig)=)"
    r"[^&;#\s'\"]+",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Return a text with users' keys and passwords removed from its URIs.

    >>> without_secrets("s3://AKIA:abc/def@bucket/dump: can't be read")
    "s3://***@bucket/dump: can't be read"
    """
    if "://" not in text:
        return text
    return _PARAMETER.sub(rf"\1{HIDDEN}", _USER_INFO.sub(f"{HIDDEN}@", text))
