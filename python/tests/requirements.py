"""What tests need that may be missing."""

import os

import pytest


def needs(is_there, name, reason):
    """Skips aloud, or fails where ``ROWLOOM_REQUIRE`` says that the named thing is there."""
    if is_there:
        return
    if name in os.environ.get("ROWLOOM_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)
