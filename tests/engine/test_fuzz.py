"""Random shapes: the native engine agrees with torch at every processor level of the machine."""

import pytest

from regard.engine.native_stepper import NotNative, library
from tests.engine import fuzz


@pytest.mark.parametrize("seeds", [range(24), range(1000, 1024)])
def test_random_models_agree_with_torch(seeds):
    try:
        library()
    except NotNative as reason:
        pytest.skip(str(reason))
    trials = [fuzz.draw(seed) for seed in seeds]
    assert {trial.level for trial in trials} == {*fuzz.levels()}
    assert {trial.config.family for trial in trials} == {"encoder-decoder", "decoder-only", "encoder-only"}
    for trial in trials:
        assert fuzz.run(trial) <= fuzz.TOLERANCE[trial.dtype], trial
