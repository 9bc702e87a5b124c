"""Who may do what over HTTP (Q1, Q2, Q4, Q6). Nothing in here knows the framework that serves it.

    callers         a request as it is seen here, and the two answers: a caller, or a rejection
    door            all questions in their order: the one thing to call for each request
    heads, hosts, origins, proxies, limits, sessions       the questions, each by itself
    rejections      every no, with its words
    local, peers    callers of this machine that bring no token, and which user they are
    listening       where a server may listen at all
    shielding       the headers that every response carries

A route says which scope it needs. One that says nothing is open to nobody.
"""

from itinerary.web.access.admission import CSRF_FIELD, CSRF_HEADER, Door
from itinerary.web.access.callers import PUBLIC, SAFE_METHODS, Caller, Came, Need, Rejection, Visit
from itinerary.web.access.listen_check import check_listening
from itinerary.web.access.rate_limits import RateLimits, Slowdown
from itinerary.web.access.security_headers import security_headers

__all__ = [
    "CSRF_FIELD",
    "CSRF_HEADER",
    "PUBLIC",
    "SAFE_METHODS",
    "Caller",
    "Came",
    "Door",
    "Need",
    "RateLimits",
    "Rejection",
    "Slowdown",
    "Visit",
    "check_listening",
    "security_headers",
]
