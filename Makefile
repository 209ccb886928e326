# make          builds build/bin/dsrv and build/bin/dcli
# make demo     crawls a web site of this machine with a durable crawler
# make test     builds everything and runs all tests
# demo, test, bench and asan install the Debian packages that are missing (make deps).
.PHONY: programs deps demo test unit e2e bench asan format clean
.NOTPARALLEL:

programs: build/build.ninja
	cmake --build --preset dev --target dsrv dcli

build/build.ninja:
	cmake --preset dev

deps:
	@.ci/deps

demo: deps programs
	machines/crawler/demo

test: deps unit e2e

unit: build/build.ninja
	cmake --build --preset dev
	ctest --preset dev

e2e: programs
	/usr/bin/python3 -m pytest tests/e2e -q

bench: deps build/build.ninja
	cmake --build --preset dev --target bench_programs dsrv
	build/bin/bench --dir build --json build/bench.json --figure tests/bench/profile.svg

asan: deps
	cmake --preset asan
	cmake --build --preset asan
	ctest --preset asan

format:
	clang-format -i $$(find fsm storage dsrv dcli tests -name '*.cc' -o -name '*.h')

clean:
	rm -rf build build-release build-asan
