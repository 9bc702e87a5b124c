"""What all tests share: property tests that never depend on elapsed time, and are the same each time in CI."""

import os

from hypothesis import settings

settings.register_profile("project", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "project")
