"""The archives and the environment that the tests of the package share. Made once: they take seconds."""

from __future__ import annotations

import pytest

from tests.support.package import Archives, Installed, build, install

EXTRAS = "atlas,docker,mcp,service,ui"


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installed(archives: Archives, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(archives.wheel, EXTRAS, tmp_path_factory.mktemp("installed"))
