"""Access control over HTTP (Q1, Q2, Q4, Q6). No module here depends on the web framework.

    callers            a request as access control sees it, and the two results: a caller or a rejection
    admission          all checks in their order: the only entry point for a request
    headers, hosts, origins, proxies, rate_limits, sessions       the single checks
    rejections         every rejection, with its text
    local, peers       callers on this machine without a token, and which user they are
    listen_check       where a server may listen
    security_headers   the headers of every response

A route declares the scope that it needs. A route without a declaration is closed to all callers.
"""

from itinerary.web.access.admission import CSRF_FIELD, CSRF_HEADER, Admission
from itinerary.web.access.callers import PUBLIC, SAFE_METHODS, Caller, CallerSource, Need, Rejection, RequestHead
from itinerary.web.access.listen_check import check_listening
from itinerary.web.access.rate_limits import RateLimits, Slowdown
from itinerary.web.access.security_headers import security_headers

__all__ = [
    "CSRF_FIELD",
    "CSRF_HEADER",
    "PUBLIC",
    "SAFE_METHODS",
    "Admission",
    "Caller",
    "CallerSource",
    "Need",
    "RateLimits",
    "Rejection",
    "RequestHead",
    "Slowdown",
    "check_listening",
    "security_headers",
]
