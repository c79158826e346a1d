"""Assertions of Python suites. python -O keeps them."""


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def check_equal(actual, expected, what):
    check(actual == expected, f"{what}: {actual!r}, expected {expected!r}")
