"""make test-mutants takes its time; that its changes still find their places is seen at once."""

import pytest

from infra.native.stack import PROJECT
from tests.mutants.table import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_the_source_of_today(mutant: Mutant) -> None:
    source = (PROJECT / mutant.file).read_text()
    assert mutant.applied(source) != source
