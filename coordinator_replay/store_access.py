"""Detection of errors with which an object store refuses access.

The credentials are missing, wrong, expired, or lack a permission. The libraries of the stores word these errors in
different ways. A run ends at once after such an error, because a retry does not help.
"""

import re

from coordinator_replay.errors import COLOURS

ADVICE = (
    "give this process credentials that are right, not expired, and may read and write there "
    "(docs/cluster.md, Object stores)"
)
TASK_ADVICE = (
    "executors open stores themselves, and need credentials as the driver does "
    "(docs/cluster.md, Credentials for executors)"
)

_REFUSALS = re.compile(
    # pyarrow on S3; without a body the AWS SDK names 401 and 403 alike.
    r"AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|INVALID_SIGNATURE"
    r"|SIGNATURE_DOES_NOT_MATCH|MISSING_AUTHENTICATION_TOKEN|UNRECOGNIZED_CLIENT)"
    r"|AWS Error \w+ \(HTTP status 40[13]\)|ExceptionName: (?:ExpiredToken|InvalidToken|TokenRefreshRequired)\b"
    # pyarrow on Google's store.
    r"|google::cloud::Status\((?:PERMISSION_DENIED|UNAUTHENTICATED)\b|Could not create a OAuth2 access token"
    # pyarrow on Azure's store.
    r"|Azure Error: \[\w*\] 40[13] |AuthenticationException"
    # deltalake on any store: a refusal by the store itself, or by the service that gives tokens.
    r"|The operation lacked (?:the necessary privileges|valid authentication credentials)"
    r"|Error performing token request|Server returned non-2xx status code\W*40[13]\s"
    r"|<Code>(?:ExpiredToken|InvalidToken|TokenRefreshRequired)</Code>"
)
_MOST = 400


def refusal(problem: BaseException | None) -> str | None:
    """Return the error text with which an object store refused access; None if the problem is not such an error.

    Args:
        problem: an exception, whose causes are searched, too; None for no exception.
    """
    while problem is not None:
        text = str(problem)
        if _REFUSALS.search(COLOURS.sub("", text)):
            return shortened(text)
        problem = problem.__cause__ or problem.__context__
    return None


def shortened(text: str) -> str:
    r"""Return a library's text on one line, without colours, and cut if it is long.

    >>> shortened("When listing:\n  403 \x1b[31mForbidden\x1b[0m")
    'When listing: 403 Forbidden'
    """
    # Google's client repeats the message in fields after it.
    line = " ".join(COLOURS.sub("", text).partition(" error_info=")[0].split()).rstrip(".")
    return line if len(line) <= _MOST else f"{line[:_MOST]} …"
