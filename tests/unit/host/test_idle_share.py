"""The share of time in which a loop waits is that of the last seconds."""

from __future__ import annotations

from barnabas.host.process.idle_share import WINDOW_S, IdleShare


def test_the_share_is_that_of_the_last_windows() -> None:
    idle = IdleShare(100.0, 40.0)
    assert idle.share(100.0, 40.0) == 1.0
    assert idle.share(110.0, 45.0) == 0.5
    now_s, busy_s = 110.0, 45.0
    for _ in range(4):  # the loop does nothing for two windows
        now_s += WINDOW_S / 2
        quiet = idle.share(now_s, busy_s)
    assert quiet > 0.9
    for _ in range(8):  # it does nothing else for four
        now_s, busy_s = now_s + WINDOW_S / 2, busy_s + WINDOW_S / 2
        busy = idle.share(now_s, busy_s)
    assert busy == 0.0


def test_times_that_were_reset_begin_again() -> None:
    idle = IdleShare(100.0, 40.0)
    assert idle.share(200.0, 1.0) == 1.0
    assert idle.share(210.0, 6.0) == 0.5
