"""Set-up of the tests: the frameworks are loaded here, in the one order that no machine minds."""

import gc

import bridges

bridges.load()
# The frameworks' own objects stay: without them a collection takes milliseconds, not a second.
gc.collect()
gc.freeze()


def pytest_report_header(config):
    found = [f"{name} {bridges.VERSIONS[name]}" for name in bridges.INSTALLED]
    missing = [f"{name} ({why})" for name, why in bridges.MISSING.items()]
    lines = ["frameworks: " + ", ".join(found)]
    if missing:
        lines.append("not tested: " + ", ".join(missing))
    return lines
