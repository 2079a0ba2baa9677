"""The page has the same address after a restart, and another one only if the port is taken."""

import pytest

from clearhead.errors import SettingsError
from clearhead.explorer.server import PORT, bind, bind_next


def test_the_port_is_the_same_after_a_restart_and_the_next_free_one_if_it_is_taken():
    with bind(0) as taken:
        port = taken.getsockname()[1]
        with bind_next(port) as second:
            assert port < second.getsockname()[1] < port + 100
        with pytest.raises(SettingsError, match=f"--port {port}: .*; choose another, or 0 for any"):
            bind(port)
    with bind_next(port) as again:
        assert again.getsockname()[1] == port
    assert PORT == 8765
