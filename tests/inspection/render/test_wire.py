"""The sheet: what goes in comes out, laid out as the view expects it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.inspection.render.payload import coarse, half, pack, unpack


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "weights": random.random((2, 3, 5), np.float32),
        "small": random.random(7).astype(np.float16),
        "seen": random.random((3, 3)) > 0.5,
        "nothing": np.zeros((0, 4), np.float32),
        "number": np.asarray(3.5, np.float32),
    }


def test_what_goes_in_comes_out():
    meta = {"word": "été ≠ 雪 </script>", "keys": ["a", None], "agree": True}
    sheet = unpack(pack(meta, arrays()))
    assert sheet.meta == meta
    assert list(sheet.arrays) == list(arrays())
    for name, values in arrays().items():
        assert sheet.arrays[name].dtype == np.float32
        assert np.array_equal(sheet.arrays[name], values.astype(np.float32))


def test_minus_infinity_stays_in_an_array():
    values = np.array([1.0, -np.inf, np.nan])
    assert np.array_equal(unpack(pack({}, {"masked": values})).arrays["masked"], values, equal_nan=True)


@given(st.text(max_size=20), st.integers(0, 40))
def test_every_array_starts_at_a_multiple_of_eight(word, length):
    message = pack({"word": word}, {"one": np.zeros(length, np.uint8), "two": np.ones(3, np.float32)})
    size = int.from_bytes(message[:4], "little")
    header = json.loads(message[4 : 4 + size])
    assert (4 + size) % 8 == 0
    assert [each["offset"] % 8 for each in header["arrays"]] == [0, 0]
    assert [each["dtype"] for each in header["arrays"]] == ["uint8", "float32"]
    start = 4 + size + header["arrays"][1]["offset"]
    assert message[start : start + 12] == np.ones(3, "<f4").tobytes()
    assert unpack(message).meta == {"word": word}


def test_a_byte_each_is_close_enough():
    values = np.random.default_rng(1).random((4, 50)) * 0.3
    found = unpack(pack({}, {"coarse": coarse(values)})).arrays["coarse"]
    assert np.abs(found - values).max() <= values.max() / 255 / 2 + 1e-7
    assert found.max() == pytest.approx(values.max())


def test_a_byte_each_of_nothing_and_of_no_numbers():
    assert unpack(pack({}, {"x": coarse(np.zeros((2, 2)))})).arrays["x"].sum() == 0
    assert unpack(pack({}, {"x": coarse(np.array([np.nan, 0.5]))})).arrays["x"].tolist() == [0, 0.5]


def test_half_where_it_fits():
    assert half(np.array([1.0, -65504.0])).dtype == np.float16
    assert half(np.array([1.0, 70000.0])).dtype == np.float32


def test_what_json_cannot_say_is_not_said():
    with pytest.raises(ValueError, match="JSON"):
        pack({"loss": float("nan")}, {})


@pytest.mark.parametrize("message", [b"", b"\x05\0\0\0{", b"\x02\0\0\0{}", pack({}, arrays())[:-40]])
def test_a_damaged_sheet_is_refused(message):
    with pytest.raises(DataError, match="the sheet is damaged"):
        unpack(message)


def test_an_unknown_kind_of_number_is_refused():
    with pytest.raises(DataError, match="the sheet is damaged"):
        unpack(pack({}, arrays()).replace(b'"float16"', b'"complex"'))
