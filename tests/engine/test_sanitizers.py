"""The native engine is clean under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer."""

import pytest

from tests.engine.sanitizers import SANITIZERS, compiler, is_present, run_stress


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_sessions_beams_threads_and_wrong_arguments(sanitizer, tmp_path):
    if not is_present(sanitizer, tmp_path):
        pytest.skip(f"the compiler has no {sanitizer} sanitizer")
    done = run_stress(sanitizer)
    assert (done.returncode, done.stdout) == (0, "all right\n"), done.stderr[-2000:]
