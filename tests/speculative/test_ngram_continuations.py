"""What follows n-grams, against searches through the whole text."""

from hypothesis import given
from hypothesis import strategies as st

from spectui.speculative.ngram_map import Continuations


@given(
    text=st.lists(st.integers(0, 2), max_size=60),
    size_n=st.integers(1, 3),
    size_m=st.integers(1, 4),
    bounds=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_occurrences_and_what_follows_them_are_those_of_the_text(
    text: list[int], size_n: int, size_m: int, bounds: tuple[int, int]
) -> None:
    found = Continuations(size_n, size_m)
    for end in range(0, len(text), 7):
        found.grow(text[:end])
    found.grow(text)
    whole = range(len(text) - size_n - size_m + 1)
    for ngram in {tuple(text[at : at + size_n]) for at in whole}:
        wanted = [at for at in whole if tuple(text[at : at + size_n]) == ngram]
        places, codes = found.of(ngram, *bounds)
        assert places == [at for at in wanted if bounds[0] <= at <= bounds[1]]
        said = [tuple(text[at + size_n : at + size_n + size_m]) for at in places]
        # As many different codes as continuations, and each with its own.
        assert len(set(zip(codes, said, strict=True))) == len(set(codes)) == len(set(said))
