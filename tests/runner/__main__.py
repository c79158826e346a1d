"""Runs the steps of tests/run in order and adds up their results."""

import argparse
import os
import re
import sys
import time

import results
import steps
import test_groups


def parse():
    parser = argparse.ArgumentParser(prog="tests/run", description="Builds and tests Tessera.")
    parser.add_argument("--slow", action="store_true", help="also suites marked slow")
    parser.add_argument("--large", action="store_true", help="also suites marked large: networks at full size")
    parser.add_argument("--lint", action="store_true", help="also clang-tidy, latest changes first")
    parser.add_argument("--group", nargs="?", const="by-commit", default="", choices=("by-commit", *test_groups.GROUPS),
                        help="also run a group of tests again, rebuilt with a sanitizer or on a host limited to AVX2; "
                             "without a name the commit selects the group")
    parser.add_argument("--avx2", action="store_true", help="all tests as on a host limited to AVX2")
    parser.add_argument("--within", type=float, metavar="MINUTES",
                        help="the group of --group and clang-tidy, which run last, use only the time that is left of so many minutes")
    parser.add_argument("--only", metavar="REGEX", help="only unit tests, lit tests and suites whose name matches")
    parser.add_argument("--no-build", action="store_true", help="test what is built already")
    parser.add_argument("--preset", default="release", help="CMake preset to build and test (default: release)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="parallel jobs (default: all cores)")
    return parser.parse_args()


def main():
    options = parse()
    begin = time.monotonic()
    if options.avx2:
        os.environ.update(test_groups.avx2_environment())
    selected = re.compile(options.only).search if options.only else lambda name: True
    sizes = frozenset(size for size in ("slow", "large") if getattr(options, size))
    context = steps.Context(preset=options.preset, jobs=options.jobs, sizes=sizes, selected=selected,
                            group=options.group, until=begin + 60 * options.within if options.within else None)
    plan = [steps.lint_packages] if options.lint else []
    if not options.no_build:
        plan += [steps.configure, steps.build]
    if not options.only:
        plan.append(steps.check_format)
    if options.lint:
        plan.append(steps.lint_plugin)
    plan += [steps.unit_tests, steps.lit_tests, steps.suites]
    if options.group:
        plan.append(test_groups.group_tests)
    if options.lint:
        plan.append(steps.lint)

    total = results.Result()
    for step in plan:
        start = time.monotonic()
        result = step(context)
        total += result
        print(f"== {step.__doc__.splitlines()[0]} {result} ({time.monotonic() - start:.0f} s)", flush=True)
        if result.fatal:
            break
    if total.skipped:
        print(f"skipped: {total.skipped}")
    if total.passed + total.failed == 0:
        total.fail(f"nothing matches --only {options.only}")
    if total.reports:
        print("\n".join(["found, and fails nothing here:", *map(str, total.reports)]))
    print("\n".join(map(str, total.failures)), end="\n" if total.failures else "")
    print(f"{time.monotonic() - begin:.0f} s in all, logs in {context.logs}")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
