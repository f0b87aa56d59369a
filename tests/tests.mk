# SPDX-License-Identifier: Apache-2.0
# Tests. Included by the top Makefile; each kind has its own target, `test` runs all.

# Test code is compiled for speed of the compiler; what it tests is compiled as it ships, or with
# sanitizers. The tests of a folder are compiled together, as the daemon's sources are.
TEST_CXXFLAGS    = $(filter-out -O%,$(CXXFLAGS)) -O0
TEST_UNIT_LINES := 1200
test_units       = $(shell deploy/batches.py --tests $(BUILD)/units $(TEST_UNIT_LINES) $(1))
$(foreach folder,unit plain bpf kernel,$(eval $(BUILD)/obj/tests/$(folder)/%.o: private CXXFLAGS := $(TEST_CXXFLAGS)))
$(BUILD)/units/tests/%.o: private CXXFLAGS := $(TEST_CXXFLAGS)

# $(call test_program,OBJECTS): links $@ with what the tests are of.
test_program = $(call link,$(1),$(LIBS) -lncursesw -ltinfo -lgmock -lgtest -lgtest_main)

# All unit tests are one program. Tests of bpf compile the walk, each in its own way.
UNIT_SRC := $(sort $(shell find tests/unit tests/bpf -name '*_test.cc'))
ifeq ($(SANITIZE),thread)
  # Those that have threads, or are of what has.
  THREADS  := \bMutex\b|std::j?thread\b|std::async\b
  UNIT_SRC := $(sort $(shell grep -lE '$(THREADS)' $(UNIT_SRC)) \
                $(filter $(UNIT_SRC),$(patsubst daemon/%,tests/unit/%_test.cc,$(basename $(shell grep -rlE '$(THREADS)' daemon)))))
  ifneq ($(PLAIN),)
    TEST_UNIT_LINES := 100000
    UNIT_SRC := $(filter $(WATCHED:%=tests/unit/%%),$(UNIT_SRC))
  endif
endif
ifeq ($(UNITY),0)
  UNIT_OBJ := $(call obj,$(UNIT_SRC))
else
  UNIT_OBJ := $(call obj,$(filter tests/bpf/%,$(UNIT_SRC))) $(patsubst %.cc,%.o,$(call test_units,$(filter tests/unit/%,$(UNIT_SRC))))
endif
$(BUILD)/tests/unit_tests: $(UNIT_OBJ) $(LIBRARIES) | $(VERSION_OBJ)
	$(call test_program,$(UNIT_OBJ))

# Unit tests that sanitizers would disturb: they count allocations, are of a relocated program, or take
# many simulated programs to find out what they are about, of which sanitizers see nothing that the other
# tests do not show them.
PLAIN_SRC = $(sort $(wildcard tests/plain/*_test.cc))
PLAIN_OBJ = $(call obj,$(PLAIN_SRC))
# These take some seconds, half of it in the test's own code.
$(patsubst %,$(BUILD)/obj/tests/plain/%_test.o,calibration leak_calibration losses): private CXXFLAGS := $(TEST_CXXFLAGS) -O1
# The agent's own sampler of C's memory.
C_SAMPLER = $(BUILD)/agent/native_heap/sampler.c.o
$(BUILD)/tests/plain_tests: $(PLAIN_OBJ) $(C_SAMPLER) $(LIBRARIES) | $(VERSION_OBJ)
	$(call test_program,$(PLAIN_OBJ) $(C_SAMPLER))

# While developing: make unit UNIT=pairing builds and runs tests/unit/ingest/pairing_test.cc only.
.PHONY: unit
UNIT_FILE = $(shell find tests -name '$(UNIT)_test.cc')
unit: $(if $(filter unit,$(MAKECMDGOALS)),$(if $(UNIT_FILE),$(BUILD)/tests/$(UNIT)_test,unit-names))
	$(Q)$(BUILD)/tests/$(UNIT)_test
.PHONY: unit-names
unit-names:
	$(Q)tests/kit/unit_names.py '$(UNIT)' $(UNIT_SRC) $(PLAIN_SRC) >&2; exit 1
ifneq ($(UNIT),)
$(BUILD)/tests/$(UNIT)_test: $(call obj,$(UNIT_FILE)) $(LIBRARIES) | $(VERSION_OBJ)
	$(call test_program,$(filter %.o,$^))
endif

# libFuzzer, of clang, drives what gcc has compiled: the product's own code. All targets are one unit.
FUZZ_SRC  := $(sort $(wildcard tests/fuzz/*_fuzz.cc))
FUZZ_OBJ  := $(patsubst %.cc,%.o,$(shell deploy/batches.py --tests $(BUILD)/units 100000 $(FUZZ_SRC)))
LIBFUZZER  = $(shell $(CLANG) -print-resource-dir)/lib/linux/libclang_rt.fuzzer_no_main-$(ARCH).a
$(BUILD)/obj/tests/fuzz/%.o: private CXXFLAGS := $(PLAIN_CXXFLAGS) -O2
$(BUILD)/tests/fuzz_targets: $(FUZZ_OBJ) $(BUILD)/obj/tests/fuzz/fuzz_targets.o $(LIBRARIES) | $(VERSION_OBJ)
	$(call test_program,$(filter %.o,$^) $(LIBFUZZER))

# The kernel side against the real kernel; needs root to run.
KERNEL_SRC = $(sort $(wildcard tests/kernel/*_test.cc))
KERNEL_OBJ = $(call obj,$(KERNEL_SRC))

$(BUILD)/tests/kernel_tests: $(KERNEL_OBJ) $(BUILD)/libmemprofd.a | $(VERSION_OBJ)
	$(call test_program,$(KERNEL_OBJ))

# The example client, with nothing of the daemon's.
$(BUILD)/tests/watch_events: $(BUILD)/obj/proto/examples/watch_events.o $(filter $(BUILD)/gen/memprof/%,$(PB_OBJ))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(LDFLAGS) $^ $(LIBS) -o $@

# ---------------------------------------------------------------- suites

# A Python that has Debian's python3-grpcio, whatever else is in PATH.
RUN_TESTS   = /usr/bin/python3 tests/run.py --build $(BUILD)
ASAN_MAKE   = $(SUBMAKE) BUILD=$(BUILD)/asan WEB=$(WEB) SANITIZE=address,undefined
ASAN_TESTS  = $(ASAN_MAKE) $(BUILD)/asan/tests/unit_tests
FUZZ_BINARY = $(BUILD)/asan/tests/fuzz_targets
TSAN_MAKE   = $(SUBMAKE) WEB=$(WEB) SANITIZE=thread
TSAN_TESTS  = $(TSAN_MAKE) BUILD=$(BUILD)/tsan PLAIN=$(BUILD) $(BUILD)/tsan/tests/unit_tests
TSAN_WHOLE  = $(BUILD)/tsan-whole

# Programs that e2e tests start.
E2E_PROGRAMS = $(addprefix $(BUILD)/tests/,watch_events history_bench heap_walk heap_copy heap_image open_load step_calls libfaults.so libchange_user.so)
$(BUILD)/tests/step_calls: tests/e2e/programs/step_calls.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O1 $(WARN) $< -o $@
$(BUILD)/tests/libchange_user.so: tests/e2e/programs/change_user.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O1 -fPIC $(WARN) -shared $< -o $@
# Programs that tests of the page start.
PAGE_PROGRAMS = $(BUILD)/tests/day_server

# The form of the sources is checked first, the types of the page (tsc) where it is built.
# Unit tests run with sanitizers, which see more than a test asserts; `make unit-test` is the
# quicker loop while developing.
.PHONY: test unit-test test-asan kernel-test agent-test e2e-test dashboards-test pictures
test:
	$(Q)deploy/install-deps.sh build checks run dist
	$(Q)$(SUBMAKE) format-check
	$(Q)$(call make_goals,test-packages all targets dist-files $(BUILD)/tests/plain_tests $(BUILD)/tests/kernel_tests $(E2E_PROGRAMS) $(PAGE_PROGRAMS))
	$(Q)deploy/progress.py $(ASAN_TESTS) $(FUZZ_BINARY) -j$(JOBS)
	$(Q)deploy/progress.py $(TSAN_TESTS) -j$(JOBS)
	$(Q)$(RUN_TESTS)
# What only running tests needs is installed while the programs compile.
.PHONY: test-packages
test-packages:
	$(Q)deploy/install-deps.sh test

unit-test: $(BUILD)/tests/unit_tests $(BUILD)/tests/plain_tests
	$(Q)$(RUN_TESTS) --lanes 5 unit plain
test-asan:
	$(Q)$(ASAN_TESTS)
	$(Q)$(RUN_TESTS) unit-asan
# ThreadSanitizer. unit-tsan is a short form: unit tests of the folders where threads share data
# (WATCHED in daemon/daemon.mk). tsan compiles everything for it: unit tests of all that has threads,
# and memprofd and memprofctl with real programs. The rest of that folder comes from the usual build.
.PHONY: unit-tsan tsan
unit-tsan: $(LIBRARIES)
	$(Q)$(TSAN_TESTS) -j$(JOBS)
	$(Q)$(RUN_TESTS) unit-tsan
tsan: all targets $(E2E_PROGRAMS)
	$(Q)$(TSAN_MAKE) BUILD=$(TSAN_WHOLE) $(addprefix $(TSAN_WHOLE)/,memprofd memprofctl tests/unit_tests) -j$(JOBS)
	$(Q)mkdir -p $(TSAN_WHOLE)/tests
	$(Q)for path in $(BUILD)/*.so $(BUILD)/targets* $(BUILD)/tests/*; do \
	  there=$(TSAN_WHOLE)/$${path#$(BUILD)/}; [ -e "$$there" ] || ln -s "$$(realpath $$path)" "$$there"; done
	$(Q)$(RUN_TESTS) --lanes 2 unit-tsan-whole tsan
# Each fuzz target for so long, one after the other. What was found stays in build/fuzz, and is where
# the next run begins. make fuzz FUZZ_SECONDS=60 FUZZ_TARGETS='elf state'
.PHONY: fuzz
FUZZ_SECONDS ?= 3600
FUZZ_TARGETS ?=
fuzz:
	$(Q)$(ASAN_MAKE) -j$(JOBS) $(FUZZ_BINARY)
	$(Q)/usr/bin/python3 tests/fuzz/fuzz.py --build $(BUILD) --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)
# make soak SOAK_ARGS='--minutes 1440 --seed 7'
.PHONY: soak
$(BUILD)/tests/libfaults.so: tests/kit/faults.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(HOSTILE_CFLAGS) -fvisibility=default -shared $< -o $@
soak: all targets $(BUILD)/tests/libfaults.so
	$(Q)PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/soak/soak.py --build $(BUILD) $(SOAK_ARGS)
# make soak-snapshots SOAK_ARGS='--snapshots 1000 --seed 7'
.PHONY: soak-snapshots
soak-snapshots: all targets $(E2E_PROGRAMS)
	$(Q)PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/soak/snapshot_soak.py --build $(BUILD) $(SOAK_ARGS)
# Copies of programs that wait and that work: make waiting-copies TRIES=1000
.PHONY: waiting-copies
TRIES ?= 300
waiting-copies: all targets $(E2E_PROGRAMS)
	$(Q)WAITING_TRIES=$(TRIES) $(RUN_TESTS) heaps/test_waiting
# make large-snapshots SOAK_ARGS='--millions 100 --ocaml 5'
.PHONY: large-snapshots
large-snapshots: all targets
	$(Q)PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/soak/large_snapshots.py --build $(BUILD) $(SOAK_ARGS)
# Reads of a program that replaces what is read, on OCaml 4.14 and 5.3 (threads, domains). make torn-reads READS=100000
.PHONY: torn-reads
READS ?= 10000000
torn-reads: all $(BUILD)/tests/kernel_tests $(BUILD)/targets-4.14/torn $(BUILD)/targets-trixie/torn
	$(Q)MEMPROFD_BUILD=$(BUILD) MEMPROFD_TARGETS=$(BUILD)/targets-4.14 TORN_READS=$(READS) $(BUILD)/tests/kernel_tests --gtest_filter='TornReads.*'
# Callstacks of C's memory beside what a full unwinding finds. make c-stacks STACKS=1000000
.PHONY: c-stacks
STACKS ?= 100000
C_STACKS_VERSIONS = targets:ocaml4 targets-4.14:ocaml4 targets-trixie:ocaml5 targets-forky:ocaml5 targets-experimental:ocaml5
c-stacks: all $(BUILD)/tests/kernel_tests $(BUILD)/targets/c_stacks $(BUILD)/targets-4.14/c_stacks $(foreach release,trixie forky experimental,$(addprefix $(BUILD)/targets-$(release)/,domains c_stacks))
	$(Q)for version in $(C_STACKS_VERSIONS); do MEMPROFD_BUILD=$(BUILD) MEMPROFD_TARGETS=$(BUILD)/$${version%:*} C_STACKS=$(STACKS) \
		$(BUILD)/tests/kernel_tests --gtest_brief=1 --gtest_filter="CStackTruth.*/$${version#*:}" || exit 1; done
kernel-test: $(BUILD)/tests/kernel_tests
	$(Q)$(RUN_TESTS) kernel
agent-test: all targets
	$(Q)$(RUN_TESTS) agent
# make e2e-test MODULE=test_attach runs one module.
e2e-test: all targets $(E2E_PROGRAMS)
	$(Q)$(RUN_TESTS) e2e$(addprefix /,$(MODULE))
dashboards-test: all targets $(PAGE_PROGRAMS)
	$(Q)$(RUN_TESTS) dashboards
# The page's pictures in docs; make pictures PICTURES='--only page-sites' makes one.
pictures: all targets $(PAGE_PROGRAMS)
	$(Q)MEMPROFD_BUILD=$(BUILD) tests/dashboards/pictures.py $(PICTURES)

BENCH_SRC = $(wildcard tests/bench/*.cc)
TEST_OBJ  = $(UNIT_OBJ) $(PLAIN_OBJ) $(KERNEL_OBJ) $(patsubst %.cc,$(BUILD)/obj/%.o,$(BENCH_SRC))
FUZZ_DEP  = $(FUZZ_OBJ:.o=.d) $(BUILD)/obj/tests/fuzz/fuzz_targets.d
BENCH_DEP = $(patsubst tests/bench/%.cc,$(BUILD)/obj/tests/bench/%.d,$(wildcard tests/bench/*.cc))
-include $(BUILD)/obj/tests/calibrate/calibrate.d
-include $(UNIT_OBJ:.o=.d) $(PLAIN_OBJ:.o=.d) $(KERNEL_OBJ:.o=.d) $(BENCH_DEP) $(FUZZ_DEP) $(BUILD)/obj/proto/examples/watch_events.d

include tests/targets/targets.mk
include tests/hostile/hostile.mk

# Every OCaml and every real program: hours of programs' time, tens of minutes of ours.
# make test-matrix MATRIX='4.12 5.4 programs' runs a part.
MATRIX         ?=
MATRIX_TARGETS = $(addprefix targets-,$(OTHER_RELEASES))
.PHONY: test-matrix
test-matrix:
	$(Q)deploy/install-deps.sh build checks run test matrix
	$(Q)$(SUBMAKE) -j$(JOBS) all targets $(MATRIX_TARGETS) $(addprefix $(BUILD)/tests/,heap_walk heap_copy heap_image kernel_tests unit_tests plain_tests)
	$(Q)/usr/bin/python3 tests/matrix.py --build $(BUILD) $(MATRIX)

# Kernels of other Debian releases, each in a virtual machine: ten minutes, emulated.
# make test-kernels KERNELS='bullseye trixie' runs some.
KERNELS ?=
.PHONY: test-kernels
test-kernels:
	$(Q)deploy/install-deps.sh build checks run test kernels
	$(Q)$(SUBMAKE) -j$(JOBS) all targets $(BUILD)/tests/kernel_tests
	$(Q)/usr/bin/python3 tests/vm/kernels.py --build $(BUILD) $(KERNELS)

# The release on Debian 11, where it is refused, to forky: a download of 40 MB, once.
.PHONY: test-dist
test-dist:
	$(Q)deploy/install-deps.sh build checks run test dist
	$(Q)$(SUBMAKE) -j$(JOBS) all dist-files $(BUILD)/targets/known_alloc $(BUILD)/targets-trixie/known_alloc
	$(Q)MEMPROFD_MATRIX=1 $(RUN_TESTS) runner/test_dist e2e/test_dist

# ---------------------------------------------------------------- benchmarks

$(BUILD)/tests/ingest_bench: $(BUILD)/obj/tests/bench/ingest_bench.o $(BUILD)/libmemprofd.a | $(VERSION_OBJ)
	$(call link,$(filter %.o,$^),$(LIBS) -lbenchmark -lbenchmark_main)

$(BUILD)/tests/history_bench: $(BUILD)/obj/tests/bench/history_bench.o $(BUILD)/libmemprofd.a | $(VERSION_OBJ)
	$(call link,$(filter %.o,$^),$(LIBS))

$(addprefix $(BUILD)/tests/,heap_walk heap_copy heap_image open_load): $(BUILD)/tests/%: $(BUILD)/obj/tests/bench/%.o $(BUILD)/libmemprofd.a | $(VERSION_OBJ)
	$(call link,$(filter %.o,$^),$(LIBS))

$(BUILD)/tests/day_server: $(BUILD)/obj/tests/bench/day_server.o $(BUILD)/libmemprofd.a | $(VERSION_OBJ)
	$(call link,$(filter %.o,$^),$(LIBS))

# Simulates many programs whose every block is known (a minute). Writes the tables of docs/internals/accuracy.md.
# With CALIBRATE_RUNS=1000 they are twice as sharp; the unit tests have a short form.
CALIBRATE_RUNS ?= 200
$(BUILD)/tests/calibrate: $(BUILD)/obj/tests/calibrate/calibrate.o $(C_SAMPLER) $(BUILD)/libmemprofd.a | $(VERSION_OBJ)
	$(call link,$(filter %.o,$^),$(LIBS))
.PHONY: calibrate
calibrate: $(BUILD)/tests/calibrate
	$(Q)sed '/^<!-- make calibrate/q' docs/internals/accuracy.md >$(BUILD)/accuracy.md && echo >>$(BUILD)/accuracy.md
	$(Q)$(BUILD)/tests/calibrate $(CALIBRATE_RUNS) >>$(BUILD)/accuracy.md
	$(Q)mv $(BUILD)/accuracy.md docs/internals/accuracy.md

# BENCHMARKS.md describes them. make bench BENCH_ARGS='--pairs 20 --only overhead'
BENCH_PROGRAMS = $(addprefix $(BUILD)/tests/,ingest_bench history_bench open_load) $(PAGE_PROGRAMS)
RUN_BENCH      = $(Q)MEMPROFD_BUILD=$(BUILD) /usr/bin/python3 tests/bench
.PHONY: bench bench-programs bench-report bench-compare bench-test
bench-programs:
	$(Q)deploy/install-deps.sh build checks run test matrix bench
	$(Q)$(SUBMAKE) -j$(JOBS) all targets $(BENCH_PROGRAMS)
bench: bench-programs
	$(RUN_BENCH)/bench.py $(BENCH_ARGS)
# A file of tests/bench/results, of the last make bench or of BENCH_JSON='FILE...'.
bench-report:
	$(RUN_BENCH)/report.py $(BENCH_JSON)
# make bench-compare BASE=main BENCH_ARGS='--pairs 20 --only overhead'
bench-compare:
	$(Q)test -n '$(BASE)' || { echo 'bench-compare: give the revision to compare with: BASE=main' >&2; exit 1; }
	$(Q)$(SUBMAKE) bench-programs
	$(RUN_BENCH)/compare.py $(BASE) --jobs $(JOBS) $(BENCH_ARGS)
bench-test: all targets $(BUILD)/tests/open_load
	$(Q)$(RUN_TESTS) bench
