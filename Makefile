# make          builds build/bin/dsrv and build/bin/dcli
# make demo     crawls a web site of this machine with a durable crawler; KEEP=1 leaves its server running
# make test     builds everything and runs all tests
# make clients  builds the libraries for Python, Go and TypeScript into build/clients, and tests them
# make clients_long  the same at length: ROUNDS=60 kills, and their throughput
# make console  builds the pages of dsrv/console/src into dsrv/console/dist; console-check compares, and tests them
# make console_figures  measures the pages in a browser, with INSTANCES=1000000 in a store that is kept
# make deb      builds the Debian packages into build-release; make deb_test installs, upgrades and purges them
# make fuzz     looks for inputs that break the code: TARGET=name, SECONDS=n for each target
# make tsan     looks for data races in the engine, the loop and the feed
# make tidy     lets clang and clang-tidy read the programs: locks, and a short list of mistakes
# make sim      runs the simulator for SECONDS=600; SEED=7 replays one seed with its trace
# make mutants  breaks the server in many ways; the simulator must notice each
# make cluster_demo  three servers over a database with a standby: killed, stopped, replaced, failed over, audited
# make clusterlong   the same at length: ROUNDS=100, 1,000 take-overs
# make oracle   compares CASES=100000 random schedules with an interpreter in Python; SEED=n
# make crash    kills a server ROUNDS=300 times under load, and audits it
# make overload ten times the load, and clients that misbehave; make soak: MINUTES=60 at 70 % of it
# Those that need more than a compiler install the Debian packages that are missing (make deps).
.PHONY: programs deps test_deps demo test unit e2e console console-check console_figures clients clients_long deb deb_test chaos chaos_program crash overload soak bench sim mutants oracle cluster_demo cluster-demo clusterlong asan tsan tidy fuzz format clean
.NOTPARALLEL:

programs: build/build.ninja
	cmake --build --preset dev --target dsrv dcli

build/build.ninja:
	cmake --preset dev

deps:
	@.ci/deps

demo: deps programs
	machines/crawler/demo $(if $(KEEP),--keep)

test: deps unit e2e console-check clients chaos

# What tests need besides, and nobody else should find on their machine: a database server.
test_deps:
	@.ci/deps postgresql

unit: test_deps build/build.ninja
	cmake --build --preset dev
	ctest --preset dev

E2E = /usr/bin/python3 -m pytest tests/e2e -q
e2e: test_deps programs
	cmake --build --preset dev --target bad_disk
	$(E2E) -m "not slow and not timed" -n 3 --dist loadgroup
	$(E2E) -m "timed and not slow"

console:
	dsrv/console/check build

# Without npm it is skipped with a line, except where DFSMR_CONSOLE is set, as in .ci/run.
console-check:
	dsrv/console/check

# HEAP_MINUTES=60 measures an hour of the live overview, which else is extrapolated from two minutes.
console_figures: deps programs
	dsrv/console/check install
	node tests/bench/console/figures.mjs --instances $(or $(INSTANCES),1000000) --heap-minutes $(or $(HEAP_MINUTES),2)

# A language whose tools are missing is skipped, except where DFSMR_ALL_CLIENTS is set, as in .ci/run.
CLIENTS = /usr/bin/python3 -m pytest tests/clients -q
clients: programs
	$(CLIENTS)

clients_long: deps programs
	ROUNDS=$(or $(ROUNDS),60) $(CLIENTS) -m "" -s

# BUILD: the folder of a build that is there already.
BUILD = build-release
deb: deps
	@.ci/deps lowdown dpkg-dev file
	[ -e $(BUILD)/build.ninja ] || cmake --preset release
	cmake --build $(BUILD) --target deb_files
	rm -f $(BUILD)/dfsmr*.deb
	cpack -G DEB --config $(BUILD)/CPackConfig.cmake -B $(BUILD) > /dev/null
	@ls -l $(BUILD)/*.deb

# In a bare system of its own, which boots systemd in a container: as root.
deb_test: deb
	@.ci/deps lintian debootstrap systemd-container
	BUILD=$(abspath $(BUILD)) /usr/bin/python3 -m pytest tests/debian -q

# Real servers, broken in real ways: briefly in make test, at length by hand.
CHAOS = build/bin/chaos --dir build
chaos_program: build/build.ninja
	cmake --build --preset dev --target chaos dsrv

chaos: chaos_program
	$(CHAOS) kill --rounds 20
	$(CHAOS) linear --operations 30000
	$(CHAOS) overload --brief --seconds 5

ROUNDS = 300
crash: deps programs chaos_program
	$(CHAOS) kill --rounds $(ROUNDS)
	$(CHAOS) linear --operations 1000000
	ROUNDS=$(ROUNDS) /usr/bin/python3 -m pytest tests/e2e/test_agent_chaos.py -q

overload: deps chaos_program
	$(CHAOS) overload

MINUTES = 60
soak: deps chaos_program
	$(CHAOS) soak --minutes $(MINUTES)

bench: deps test_deps build/build.ninja
	cmake --build --preset dev --target bench_programs dsrv
	$(if $(filter cluster%,$(CASE)),,build/bin/bench --dir build --json build/bench.json $(if $(CASE),--case '$(CASE)',--figure tests/bench/profile.svg))
	$(if $(filter-out cluster%,$(CASE)),,tests/bench/cluster.py)

sim: deps build/build.ninja
	cmake --build --preset dev --target sim sim_cluster
	build/bin/sim $(if $(SEED),--seed $(SEED) --trace,--from $(or $(FROM),$$(date +%s)) --seconds $(or $(SECONDS),600))
	build/bin/sim_cluster $(if $(SEED),--seed $(SEED) --trace,--from $(or $(FROM),$$(date +%s)) --seconds $(or $(SECONDS),600))

mutants: deps
	tests/sim/mutants

# A database with a standby and three servers that share it, broken in turn under load.
cluster_demo: deps test_deps programs
	tests/e2e/cluster_demo.py
cluster-demo: cluster_demo

clusterlong: ROUNDS = 100
clusterlong: deps test_deps programs
	ROUNDS=$(ROUNDS) /usr/bin/python3 -m pytest tests/e2e/test_cluster_chaos.py -q -s -k kills

CASES = 100000
oracle: deps build/build.ninja
	cmake --build --preset dev --target calendar_times
	tests/fsm/when/oracle/oracle.py build/bin/calendar_times --cases $(CASES) --seed $(or $(SEED),1)

asan: deps
	cmake --preset asan
	cmake --build --preset asan
	ctest --preset asan

tsan: deps
	cmake --preset tsan
	cmake --build --preset tsan
	ctest --preset tsan

tidy: deps
	@.ci/deps clang-14 clang-tidy-14
	cmake --preset tidy
	cmake --build --preset tidy

fuzz: deps
	tests/fuzz/run $(or $(TARGET),all) $(or $(SECONDS),60)

format:
	clang-format -i $$(find fsm storage dsrv dcli tests -name '*.cc' -o -name '*.h')

clean:
	rm -rf build build-release build-asan build-tsan build-tidy build-fuzz
