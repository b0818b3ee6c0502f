"""Programs that mean harm, and a host that looks afterwards whether any was done."""

import pytest

pytest.register_assert_rewrite("attacks.ranges")
