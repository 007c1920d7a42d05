import os

import pytest

from tests.fronts.console import browsing


@pytest.fixture(scope="module", autouse=True)
def chromium():
    """Without a browser nothing here can be seen."""
    if browsing.CHROMIUM is None or browsing.DRIVER is None:
        if os.environ.get("CI"):
            pytest.fail(browsing.MISSING)
        pytest.skip(browsing.MISSING)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    house = browsing.Served(tmp_path_factory.mktemp("console"))
    yield house
    house.close()


@pytest.fixture(scope="module")
def browser(served):
    window = browsing.Browser()
    window.driver.get(served.link)
    window.find("nav.side")
    yield window
    window.close()


@pytest.fixture
def window(request, served):
    """A browser of its own, in which the script `WATCHED` of the test's module runs before the
    page's own."""
    opened = browsing.Browser()
    try:
        script = {"source": request.module.WATCHED}
        opened.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
        opened.driver.get(served.new_link())
        opened.find("header.top")
        yield opened
        assert opened.errors() == []
    finally:
        opened.close()
