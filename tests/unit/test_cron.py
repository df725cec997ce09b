from datetime import UTC, datetime, timedelta

import pytest

from shared.runtime.cron import Schedule


def test_a_job_is_due_once_per_tick_and_missed_ticks_are_one() -> None:
    now = datetime.now(UTC)
    schedule = Schedule("* * * * *")
    assert not schedule.due(now)
    after_three_ticks = now + timedelta(minutes=3)
    assert schedule.due(after_three_ticks)
    assert not schedule.due(after_three_ticks)
    assert schedule.due(after_three_ticks + timedelta(minutes=1))


def test_a_schedule_that_cron_would_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match="Wrong number of fields"):
        Schedule("often")
