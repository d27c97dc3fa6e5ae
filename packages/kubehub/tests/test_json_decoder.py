"""JSON numbers of any length decode to the values of msgspec."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubehub.json_decoder import OUT_OF_RANGE, decode_object, decode_value

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}e{}".format, st.integers(-(10**25), 10**25), st.integers(-400, 280)),
    st.builds("{}.{}".format, st.integers(), st.integers(0, 10**40)),
)


@settings(max_examples=100)
@given(NUMBERS)
def test_every_number_is_read_as_msgspec_reads_it(text: str) -> None:
    raw = f'{{"a":[{text}]}}'.encode()
    assert repr(decode_object(raw)) == repr(decode_value(raw)) == repr(msgspec.json.decode(raw))


@pytest.mark.parametrize("text", ["1e309", "-1e400", "1.8e308"])
def test_number_beyond_the_largest_is_refused(text: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=OUT_OF_RANGE):
        decode_value(f"[{text}]".encode())
