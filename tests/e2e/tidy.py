"""A test's folder goes when the test has passed."""
import shutil

import pytest


@pytest.fixture
def tmp_path(tmp_path, request):
    """A server that was killed leaves some 70 MB of disk set aside for its log. A whole run of tests
    would fill 30 GB."""
    failed = request.session.testsfailed
    yield tmp_path
    if request.session.testsfailed == failed:
        shutil.rmtree(tmp_path, ignore_errors=True)
