# SPDX-License-Identifier: Apache-2.0
# Programs that the tests and the demo profile. All compiled files go to
# $(BUILD)/targets; none are put beside the sources.

TARGETS_DIR := $(BUILD)/targets
OCAML_PKGS  := unix,threads.posix
OCAMLOPT    := ocamlfind ocamlopt -thread -package $(OCAML_PKGS)
OCAMLC      := ocamlfind ocamlc -thread -package $(OCAML_PKGS)

TARGET_NAMES := $(filter-out handshake assertions points domains domain_caches crowd heap_domains value_domains wait_domains reports report_domains own_tracker,$(patsubst tests/targets/%.ml,%,$(wildcard tests/targets/*.ml)))
# Variants of known_alloc: without debug information; static and stripped; static; bytecode. The
# source of many_sites is generated.
TARGET_VARIANTS := waits_alone nog_target static_target static_symbols bytecode_target tiny32 many_sites every_byte

.PHONY: targets
targets: $(addprefix $(TARGETS_DIR)/,$(TARGET_NAMES) $(TARGET_VARIANTS))

# The same with other OCamls, in $(BUILD)/targets-RELEASE: from other Debian releases, and
# built from source. Most of OF_OCAML5 need OCaml 5; forks needs OCaml 4.12. Tests also ask about the heap
# of demo_server in OCaml 5, and run seccomp with the C library of that release.
OTHER_NAMES    := known_alloc stacks busy_threads churn fragmented uses_memprof stops_memprof idle minor_heaps large_blocks heap_shapes heap_roots values waits wait_threads waking_threads
OF_OCAML5      := domains domain_caches crowd heap_domains ends execer forks growth leaks value_domains demo_server seccomp wait_domains own_tracker
OCAML5_RELEASES := trixie forky experimental
OTHER_RELEASES := bullseye 4.12 4.14 $(OCAML5_RELEASES)
OTHERS         := $(foreach release,$(OTHER_RELEASES),$(addprefix $(BUILD)/targets-$(release)/,$(OTHER_NAMES) nog_target)) \
	$(foreach release,$(OCAML5_RELEASES),$(addprefix $(BUILD)/targets-$(release)/,$(OF_OCAML5)))
.PHONY: $(addprefix targets-,$(OTHER_RELEASES))
$(foreach release,$(OTHER_RELEASES),$(eval targets-$(release): $(filter $(BUILD)/targets-$(release)/%,$(OTHERS))))
targets: $(filter $(BUILD)/targets-trixie/%,$(OTHERS))
# Programs of tests/e2e/test_newest_ocaml.py, if that OCaml is available (compile-with.sh).
NEWEST_NAMES := known_alloc large_blocks growth fragmented busy_threads domains domain_caches uses_memprof stops_memprof own_tracker demo_server heap_shapes heap_domains heap_roots values value_domains stacks fibers traced traced_fibers c_memory wait_domains waits waking_threads
targets: $(NEWEST_NAMES:%=$(BUILD)/targets-experimental/%) $(BUILD)/targets-experimental/nog_target
$(foreach name,$(OTHER_NAMES) $(OF_OCAML5),$(eval $(filter %/$(name),$(OTHERS)): tests/targets/$(name).ml))
COMPILE_WITH = $(addprefix tests/targets/,handshake.ml compile-with.sh debian-prefix.sh cache.sh ocaml-from-npm.sh)
$(filter-out %/nog_target,$(OTHERS)): $(BUILD)/targets-%: $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $(*D) $@ '$(filter %_stubs.c,$^) tests/targets/$(*F).ml' -g $(if $(filter demo_server leaks,$(*F)),-bin-annot)
$(filter %/nog_target,$(OTHERS)): $(BUILD)/targets-%: tests/targets/known_alloc.ml $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $(*D) $@ $<

# -o with -c puts all outputs of the compiler beside the named one.
# The .cmt files of demo_server and leaks contain the types of their sources.
$(addprefix $(TARGETS_DIR)/obj/,demo_server.cmx leaks.cmx): private OCAMLOPT += -bin-annot
$(TARGETS_DIR)/obj/handshake.cmx: tests/targets/handshake.ml
	$(call say,OCAML,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(OCAMLOPT) -g -c -o $@ $<
$(TARGETS_DIR)/obj/%.cmx: tests/targets/%.ml $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$<)
	$(Q)$(OCAMLOPT) -g -I $(@D) -c -o $@ $<
$(addprefix $(TARGETS_DIR)/,$(TARGET_NAMES)): $(TARGETS_DIR)/%: $(TARGETS_DIR)/obj/%.cmx
	$(call say,LINK,$@)
	$(Q)$(OCAMLOPT) -g -linkpkg $(<D)/handshake.cmx $< $(filter %.o,$^) -o $@

$(filter %/minor_heaps,$(OTHERS)): tests/targets/minor_heaps_stubs.c
$(filter %/seccomp,$(OTHERS)): tests/targets/seccomp_stubs.c
$(filter %/heap_shapes %/heap_domains,$(OTHERS)): tests/targets/heap_shapes_stubs.c
$(filter %/heap_roots,$(OTHERS)): tests/targets/heap_roots_stubs.c
$(filter %/waits,$(OTHERS)): tests/targets/waits_stubs.c
$(addprefix $(TARGETS_DIR)/,seccomp minor_heaps heap_shapes heap_roots waits): $(TARGETS_DIR)/%: $(TARGETS_DIR)/obj/%_stubs.o
$(TARGETS_DIR)/obj/%_stubs.o: tests/targets/%_stubs.c
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -I$(shell ocamlc -where) -c $< -o $@

MANY_DIR := $(TARGETS_DIR)/many
$(TARGETS_DIR)/many_sites: tests/targets/bare/many_sites.awk $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $(MANY_DIR) && awk -v out=$(MANY_DIR) -f $<
	$(Q)$(OCAMLOPT) -g -I $(TARGETS_DIR)/obj -I $(MANY_DIR) -linkpkg $(TARGETS_DIR)/obj/handshake.cmx $(MANY_DIR)/part_*.ml $(MANY_DIR)/many_sites.ml -o $@

# The same source and object names in a separate folder.
$(TARGETS_DIR)/nog/handshake.cmx: tests/targets/handshake.ml
	$(Q)mkdir -p $(@D)
	$(Q)$(OCAMLOPT) -c -o $@ $<
$(TARGETS_DIR)/nog/known_alloc.cmx: tests/targets/known_alloc.ml $(TARGETS_DIR)/nog/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)$(OCAMLOPT) -I $(@D) -c -o $@ $<
# A variant without the library of threads.
$(TARGETS_DIR)/waits_alone: tests/targets/waits_stubs.c tests/targets/handshake.ml tests/targets/waits.ml
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp $^ $@-source
	$(Q)cd $@-source && ocamlfind ocamlopt -package unix -linkpkg -g $(^F) -o $(abspath $@)
$(TARGETS_DIR)/nog_target: $(TARGETS_DIR)/nog/known_alloc.cmx
	$(call say,LINK,$@)
	$(Q)$(OCAMLOPT) -linkpkg $(<D)/handshake.cmx $< -o $@

# The linker warns about functions such as getpwnam in static programs.
$(TARGETS_DIR)/static_symbols: $(TARGETS_DIR)/obj/known_alloc.cmx
	$(call say,LINK,$@)
	$(Q)$(OCAMLOPT) -linkpkg -ccopt -static $(<D)/handshake.cmx $< -o $@ 2> $@.log || { cat $@.log; exit 1; }
$(TARGETS_DIR)/static_target: $(TARGETS_DIR)/static_symbols
	$(call say,STRIP,$@)
	$(Q)strip -o $@ $<

$(TARGETS_DIR)/bytecode_target: tests/targets/handshake.ml tests/targets/known_alloc.ml
	$(call say,OCAML,$@)
	$(Q)mkdir -p $(TARGETS_DIR)/byte
	$(Q)$(OCAMLC) -c -o $(TARGETS_DIR)/byte/handshake.cmo tests/targets/handshake.ml
	$(Q)$(OCAMLC) -I $(TARGETS_DIR)/byte -c -o $(TARGETS_DIR)/byte/known_alloc.cmo tests/targets/known_alloc.ml
	$(Q)$(OCAMLC) -linkpkg $(TARGETS_DIR)/byte/handshake.cmo $(TARGETS_DIR)/byte/known_alloc.cmo -o $@

$(TARGETS_DIR)/tiny32: tests/targets/bare/tiny32.S
	$(call say,AS,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -m32 -nostdlib -static -Wl,--build-id=none $< -o $@

$(TARGETS_DIR)/every_byte: tests/targets/bare/every_byte.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O1 $< -o $@

# known_alloc, linked with the agent through the findlib package.
targets: $(TARGETS_DIR)/linked_agent
$(TARGETS_DIR)/linked_agent: $(TARGETS_DIR)/obj/known_alloc.cmx $(BUILD)/findlib/memprof-agent/META
	$(call say,LINK,$@)
	$(Q)OCAMLPATH=$(abspath $(BUILD)/findlib) $(OCAMLOPT) -g -package memprof-agent -linkpkg $(<D)/handshake.cmx $< -o $@

# This program calls the agent's library.
targets: $(TARGETS_DIR)/points
$(TARGETS_DIR)/points: tests/targets/points.ml $(TARGETS_DIR)/obj/handshake.cmx $(BUILD)/findlib/memprof-agent/META
	$(call say,OCAML,$@)
	$(Q)cp $< $(TARGETS_DIR)/obj/
	$(Q)OCAMLPATH=$(abspath $(BUILD)/findlib) $(OCAMLOPT) -g -package memprof-agent -linkpkg -I $(TARGETS_DIR)/obj $(TARGETS_DIR)/obj/handshake.cmx $(TARGETS_DIR)/obj/points.ml -o $@

# Both with other OCamls, from the objects of the package's archive, which link with those of any C compiler.
LINKED_OTHER := $(foreach name,linked_agent points,$(OTHER_RELEASES:%=$(BUILD)/targets-%/$(name)))
targets: $(filter $(BUILD)/targets-trixie/% $(BUILD)/targets-experimental/%,$(LINKED_OTHER))
$(foreach release,$(OTHER_RELEASES),$(eval targets-$(release): $(filter $(BUILD)/targets-$(release)/%,$(LINKED_OTHER))))
$(LINKED_OTHER): $(BUILD)/libmemprof_agent.a agent-lib/findlib/memprof_agent.ml
$(filter %/linked_agent,$(LINKED_OTHER)): tests/targets/known_alloc.ml
$(filter %/points,$(LINKED_OTHER)): tests/targets/points.ml
$(LINKED_OTHER): $(BUILD)/targets-%: $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $(*D) $@ '$(filter-out $(COMPILE_WITH),$^)' -g

# This program has a parser that ocamlyacc generates.
CASES_DIR := $(TARGETS_DIR)/cases
targets: $(TARGETS_DIR)/case_studies
$(TARGETS_DIR)/case_studies: tests/targets/cases/case_studies.ml tests/targets/cases/case_parser.mly $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $(CASES_DIR) && cp $< $(CASES_DIR)/
	$(Q)ocamlyacc -b$(CASES_DIR)/case_parser tests/targets/cases/case_parser.mly
	$(Q)$(OCAMLOPT) -g -I $(TARGETS_DIR)/obj -I $(CASES_DIR) -linkpkg $(TARGETS_DIR)/obj/handshake.cmx $(CASES_DIR)/case_parser.mli $(CASES_DIR)/case_parser.ml $(CASES_DIR)/case_studies.ml -o $@
CASES_OTHER := $(OTHER_RELEASES:%=$(BUILD)/targets-%/case_studies)
targets: $(BUILD)/targets-trixie/case_studies
$(foreach release,$(OTHER_RELEASES),$(eval targets-$(release): $(BUILD)/targets-$(release)/case_studies))
$(CASES_OTHER): $(BUILD)/targets-%/case_studies: $(wildcard tests/targets/cases/*) $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && ocamlyacc -b$@-source/case_parser tests/targets/cases/case_parser.mly
	$(Q)tests/targets/compile-with.sh $* $@ '$@-source/case_parser.mli $@-source/case_parser.ml tests/targets/cases/case_studies.ml' -g
# Programs for questions about heaps, also with their .cmt files.
HEAP_NAMES  := leftovers large_heap secrets on_stack
HEAPS       := $(addprefix $(TARGETS_DIR)/,$(HEAP_NAMES))
HEAPS_OTHER := $(foreach name,leftovers secrets on_stack,$(addsuffix /$(name),$(OTHER_RELEASES:%=$(BUILD)/targets-%))) $(BUILD)/targets-trixie/large_heap
targets: $(HEAPS) $(filter $(BUILD)/targets-trixie/%,$(HEAPS_OTHER))
$(foreach release,$(OTHER_RELEASES),$(eval targets-$(release): $(filter $(BUILD)/targets-$(release)/%,$(HEAPS_OTHER))))
$(foreach name,$(HEAP_NAMES),$(eval $(filter %/$(name),$(HEAPS) $(HEAPS_OTHER)): tests/targets/heaps/$(name).ml))
$(HEAPS): $(TARGETS_DIR)/%: $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$(filter %.ml,$^))
	$(Q)mkdir -p $(TARGETS_DIR)/heaps && cp $(filter %.ml,$^) $(TARGETS_DIR)/heaps/
	$(Q)$(OCAMLOPT) -g -bin-annot -I $(TARGETS_DIR)/obj -linkpkg $(TARGETS_DIR)/obj/handshake.cmx $(TARGETS_DIR)/heaps/$*.ml -o $@
$(HEAPS_OTHER): $(BUILD)/targets-%: $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $(*D) $@ tests/targets/heaps/$(*F).ml -g -bin-annot
# A program with modules that have the names of modules of the compiler.
FOREIGN := $(TARGETS_DIR)/foreign $(OTHER_RELEASES:%=$(BUILD)/targets-%/foreign)
targets: $(TARGETS_DIR)/foreign $(BUILD)/targets-trixie/foreign
$(foreach release,$(OTHER_RELEASES),$(eval targets-$(release): $(BUILD)/targets-$(release)/foreign))
FOREIGN_SOURCES := $(addprefix tests/targets/foreign/,path.ml parser.ml foreign.ml)
$(FOREIGN): $(FOREIGN_SOURCES)
$(TARGETS_DIR)/foreign: $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-types && cp $(FOREIGN_SOURCES) $@-types/
	$(Q)cd $@-types && $(OCAMLOPT) -g -bin-annot -I ../obj -linkpkg ../obj/handshake.cmx $(notdir $(FOREIGN_SOURCES)) -o ../foreign
$(filter-out $(TARGETS_DIR)/%,$(FOREIGN)): $(BUILD)/targets-%/foreign: $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $* $@ '$(FOREIGN_SOURCES)' -g -bin-annot
# Programs for call traces.
TRACED  := $(addsuffix /traced,$(TARGETS_DIR) $(BUILD)/targets-trixie)
TRACED5 := $(foreach release,$(OCAML5_RELEASES),$(BUILD)/targets-$(release)/traced $(BUILD)/targets-$(release)/traced_fibers)
targets: $(TRACED) $(BUILD)/targets-trixie/traced_fibers
$(foreach release,$(OCAML5_RELEASES),$(eval targets-$(release): $(filter $(BUILD)/targets-$(release)/%,$(TRACED5))))
$(TARGETS_DIR)/traced: tests/targets/calls/traced.ml $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $(TARGETS_DIR)/calls && cp $< $(TARGETS_DIR)/calls/
	$(Q)$(OCAMLOPT) -g -I $(TARGETS_DIR)/obj -linkpkg $(TARGETS_DIR)/obj/handshake.cmx $(TARGETS_DIR)/calls/traced.ml -o $@
$(filter %/traced,$(TRACED5)): tests/targets/calls/traced.ml
$(filter %/traced_fibers,$(TRACED5)): tests/targets/calls/traced_fibers.ml
$(TRACED5): $(BUILD)/targets-%: $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $(*D) $@ tests/targets/calls/$(*F).ml -g
# A program that continuously replaces its structures, in threads or, with OCaml 5, domains.
TORN_RELEASES := 4.12 4.14 bullseye $(OCAML5_RELEASES)
TORN          := $(TORN_RELEASES:%=$(BUILD)/targets-%/torn)
targets: $(TARGETS_DIR)/torn $(BUILD)/targets-trixie/torn
$(foreach release,$(TORN_RELEASES),$(eval targets-$(release): $(BUILD)/targets-$(release)/torn))
$(TARGETS_DIR)/torn: $(wildcard tests/targets/torn/*) $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp tests/targets/torn/*.ml $@-source/ && cp tests/targets/torn/workers4.ml $@-source/workers.ml
	$(Q)tests/targets/torn/names.sh >$@-source/torn.ml
	$(Q)cd $@-source && $(OCAMLOPT) -g -I ../obj -linkpkg ../obj/handshake.cmx workers.ml kinds.ml torn.ml replacing.ml -o ../torn
$(TORN): $(BUILD)/targets-%/torn: $(wildcard tests/targets/torn/*) $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp tests/targets/torn/workers$(if $(filter $(OCAML5_RELEASES),$*),5,4).ml $@-source/workers.ml
	$(Q)tests/targets/torn/names.sh >$@-source/torn.ml
	$(Q)tests/targets/compile-with.sh $* $@ '$@-source/workers.ml tests/targets/torn/kinds.ml $@-source/torn.ml tests/targets/torn/replacing.ml' -g
# A program whose custom blocks own native memory.
C_OWNERS5 := $(OCAML5_RELEASES:%=$(BUILD)/targets-%/c_owners)
C_OWNERS  := $(TARGETS_DIR)/c_owners $(C_OWNERS5)
targets: $(addsuffix /c_owners,$(TARGETS_DIR) $(BUILD)/targets-trixie $(BUILD)/targets-experimental)
$(foreach release,$(OCAML5_RELEASES),$(eval targets-$(release): $(BUILD)/targets-$(release)/c_owners))
$(C_OWNERS): tests/targets/memory/c_owners_stubs.c
$(TARGETS_DIR)/c_owners: tests/targets/memory/c_owners.ml $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $(TARGETS_DIR)/memory && cp $(filter tests/%,$^) $(TARGETS_DIR)/memory/
	$(Q)cd $(TARGETS_DIR)/memory && $(CC) -O2 -I$(shell ocamlc -where) -c c_owners_stubs.c -o c_owners_stubs.o
	$(Q)$(OCAMLOPT) -g -I $(TARGETS_DIR)/obj -linkpkg $(TARGETS_DIR)/obj/handshake.cmx $(TARGETS_DIR)/memory/c_owners.ml $(TARGETS_DIR)/memory/c_owners_stubs.o -o $@
$(C_OWNERS5): $(BUILD)/targets-%/c_owners: tests/targets/memory/c_owners.ml $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $* $@ '$(filter %_stubs.c,$^) $<' -g
# A program whose C code allocates for known lines of OCaml code, and a library that it loads.
C_MEMORY_RELEASES := 4.12 4.14 $(OCAML5_RELEASES)
C_MEMORY          := $(C_MEMORY_RELEASES:%=$(BUILD)/targets-%/c_memory)
targets: $(TARGETS_DIR)/c_memory $(BUILD)/targets-trixie/c_memory $(TARGETS_DIR)/c_memory_library.so $(TARGETS_DIR)/c_memory_cxx.so
$(foreach release,$(C_MEMORY_RELEASES),$(eval targets-$(release): $(BUILD)/targets-$(release)/c_memory $(BUILD)/targets-$(release)/c_memory_library.so))
$(TARGETS_DIR)/c_memory: tests/targets/memory/c_memory.ml tests/targets/memory/within4.ml tests/targets/memory/c_memory_stubs.c $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp $(filter tests/%,$^) $@-source/ && mv $@-source/within4.ml $@-source/within.ml
	$(Q)cd $@-source && $(CC) -O2 -I$(shell ocamlc -where) -c c_memory_stubs.c -o c_memory_stubs.o
	$(Q)cd $@-source && $(OCAMLOPT) -g -I ../obj -linkpkg ../obj/handshake.cmx within.ml c_memory.ml c_memory_stubs.o -o ../c_memory
$(C_MEMORY): $(BUILD)/targets-%/c_memory: tests/targets/memory/c_memory.ml tests/targets/memory/c_memory_stubs.c $(wildcard tests/targets/memory/within*.ml) $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp tests/targets/memory/within$(if $(filter $(OCAML5_RELEASES),$*),5,4).ml $@-source/within.ml
	$(Q)tests/targets/compile-with.sh $* $@ '$(filter %_stubs.c,$^) $@-source/within.ml tests/targets/memory/c_memory.ml' -g
$(C_MEMORY_RELEASES:%=$(BUILD)/targets-%/c_memory_library.so): $(TARGETS_DIR)/c_memory_library.so
	$(Q)mkdir -p $(@D) && cp $< $@
include tests/targets/memory/memory.mk
# A program that leaks memory of C libraries.
targets: $(TARGETS_DIR)/c_leaks
$(TARGETS_DIR)/c_leaks: tests/targets/memory/c_leaks.ml tests/targets/memory/c_leaks_stubs.c $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp $(filter tests/%,$^) $@-source/
	$(Q)cd $@-source && $(CC) -O2 -I$(shell ocamlc -where) -c c_leaks_stubs.c -o c_leaks_stubs.o
	$(Q)cd $@-source && $(OCAMLOPT) -package ssl -g -I ../obj -linkpkg ../obj/handshake.cmx c_leaks.ml c_leaks_stubs.o -cclib -lz -o ../c_leaks
$(TARGETS_DIR)/c_memory_library.so: tests/targets/memory/c_memory_library.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -shared -fPIC $< -o $@
$(TARGETS_DIR)/c_memory_cxx.so: tests/targets/memory/c_memory_cxx.cc
	$(call say,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -std=c++20 -O0 -shared -fPIC $< -o $@
# Programs that publish values: built with the findlib package, and from its sources with OCaml 5.
REPORTS_OTHER  := $(foreach release,$(filter-out trixie,$(OCAML5_RELEASES)),$(addprefix $(BUILD)/targets-$(release)/,reports report_domains assertions))
REPORTS5       := $(addprefix $(BUILD)/targets-trixie/,reports report_domains assertions ways bench/says) $(REPORTS_OTHER)
VALUES_LIBRARY := $(wildcard agent-lib/values/*) agent-lib/include/memprof_values_abi.h
targets: $(TARGETS_DIR)/reports $(TARGETS_DIR)/assertions $(filter-out $(REPORTS_OTHER),$(REPORTS5)) $(TARGETS_DIR)/values_library.so
$(foreach release,$(OCAML5_RELEASES),$(eval targets-$(release): $(filter $(BUILD)/targets-$(release)/%,$(REPORTS_OTHER))))
$(TARGETS_DIR)/values_library.so: tests/targets/plugins/values_library.c
	$(call say,CC,$@)
	$(Q)$(CC) -O2 -shared -fPIC $< -o $@
$(TARGETS_DIR)/reports: tests/targets/reports.ml tests/targets/reports_stubs.c $(TARGETS_DIR)/obj/handshake.cmx $(FINDLIB)/META
	$(call say,OCAML,$@)
	$(Q)mkdir -p $(TARGETS_DIR)/reports-obj && cp tests/targets/reports.ml $(TARGETS_DIR)/reports-obj/
	$(Q)$(CC) -O2 -Wall -Werror -Iagent-lib/values -I$(shell ocamlc -where) -c tests/targets/reports_stubs.c -o $(TARGETS_DIR)/reports-obj/stubs.o
	$(Q)OCAMLPATH=$(abspath $(BUILD)/findlib) $(OCAMLOPT) -g -package memprof-agent.values -I $(TARGETS_DIR)/obj -linkpkg $(TARGETS_DIR)/obj/handshake.cmx $(TARGETS_DIR)/reports-obj/reports.ml $(TARGETS_DIR)/reports-obj/stubs.o -o $@
$(TARGETS_DIR)/assertions: tests/targets/assertions.ml $(TARGETS_DIR)/obj/handshake.cmx $(FINDLIB)/META
	$(call say,OCAML,$@)
	$(Q)mkdir -p $(TARGETS_DIR)/assertions-obj && cp tests/targets/assertions.ml $(TARGETS_DIR)/assertions-obj/
	$(Q)OCAMLPATH=$(abspath $(BUILD)/findlib) $(OCAMLOPT) -g -package memprof-agent.check -I $(TARGETS_DIR)/obj -linkpkg $(TARGETS_DIR)/obj/handshake.cmx $(TARGETS_DIR)/assertions-obj/assertions.ml -o $@
$(filter %/reports,$(REPORTS5)): tests/targets/reports_stubs.c tests/targets/reports.ml
$(filter %/report_domains,$(REPORTS5)): tests/targets/report_domains.ml
$(filter %/assertions,$(REPORTS5)): tests/targets/assertions.ml
$(BUILD)/targets-trixie/ways: agent-lib/examples/ways.ml
$(BUILD)/targets-trixie/bench/says: tests/targets/torn/workers5.ml tests/bench/programs/says_stubs.c tests/bench/programs/says.ml
# One with a runtime that reports unknown pointers out of the heap.
REPORTS_CHECKED := $(BUILD)/targets-4.14-checked/reports
targets-4.14: $(REPORTS_CHECKED)
$(REPORTS_CHECKED): tests/targets/reports_stubs.c tests/targets/reports.ml
$(REPORTS5) $(REPORTS_CHECKED): RELEASE = $(patsubst $(BUILD)/targets-%,%,$(@D:/bench=))
$(REPORTS5) $(REPORTS_CHECKED): $(VALUES_LIBRARY) $(wildcard agent-lib/findlib/memprof_values* agent-lib/findlib/memprof_check*) $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && for name in point tag; do cp agent-lib/findlib/memprof_values_$${name}$(if $(filter 4.%,$(RELEASE)),4,5).ml $@-source/memprof_values_$$name.ml; done
	$(Q)cp tests/targets/torn/workers5.ml $@-source/workers.ml
	$(Q)tests/targets/compile-with.sh $(RELEASE) $@ '$(VALUES_LIBRARY) $(filter %_stubs.c,$^) $@-source/memprof_values_point.ml agent-lib/findlib/memprof_values_store.ml $@-source/memprof_values_tag.ml agent-lib/findlib/memprof_values.mli agent-lib/findlib/memprof_values.ml $(if $(filter %/assertions,$@),agent-lib/findlib/memprof_check.mli agent-lib/findlib/memprof_check.ml) $(if $(filter %/workers5.ml,$^),$@-source/workers.ml) $(filter %/$(@F).ml,$^)' -g -ccopt -O2
# One of the package's examples; the other one is above.
targets: $(TARGETS_DIR)/ways
$(TARGETS_DIR)/ways: agent-lib/examples/ways.ml $(FINDLIB)/META
	$(call say,OCAML,$@)
	$(Q)mkdir -p $(TARGETS_DIR)/ways-obj && cp $< $(TARGETS_DIR)/ways-obj/
	$(Q)OCAMLPATH=$(abspath $(BUILD)/findlib) $(OCAMLOPT) -g -package memprof-agent.values -linkpkg $(TARGETS_DIR)/ways-obj/ways.ml -o $@

# A program whose C code allocates, for the agent's own stack walk; also with each other OCaml, in targets-RELEASE.
LATE := tests/targets/late/late_stacks.ml tests/targets/late/late_stacks_stubs.c
LATE_OTHERS := $(OTHER_RELEASES:%=$(BUILD)/targets-%/late_stacks)
targets: $(TARGETS_DIR)/late_stacks $(BUILD)/targets-trixie/late_stacks $(BUILD)/targets-experimental/late_stacks
$(foreach release,$(OTHER_RELEASES),$(eval targets-$(release): $(BUILD)/targets-$(release)/late_stacks))
$(TARGETS_DIR)/late_stacks: $(LATE) $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $(TARGETS_DIR)/late-obj && cp $(LATE) $(TARGETS_DIR)/late-obj/
	$(Q)cd $(TARGETS_DIR)/late-obj && $(OCAMLOPT) -g -I ../obj -linkpkg ../obj/handshake.cmx $(notdir $(LATE)) -o ../$(@F)
# Fibers of OCaml 5.
FIBERS := tests/targets/late/fibers.ml tests/targets/late/fibers_stubs.c
targets: $(BUILD)/targets-trixie/fibers
$(foreach release,$(OCAML5_RELEASES),$(eval targets-$(release): $(BUILD)/targets-$(release)/fibers))
$(OCAML5_RELEASES:%=$(BUILD)/targets-%/fibers): $(BUILD)/targets-%/fibers: $(FIBERS) $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $* $@ '$(FIBERS)' -g
$(LATE_OTHERS): $(BUILD)/targets-%/late_stacks: $(LATE) $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $* $@ '$(LATE)' -g

# Programs of make bench, with their own tracker for comparison; many_domains needs OCaml 5.
BENCH_DIR    := $(TARGETS_DIR)/bench
BENCH_OWN    := many_threads bursts depths
BENCH_COMMON := churn deep live_heap c_heavy
BENCH_NAMES  := $(BENCH_COMMON) $(BENCH_OWN)
PLAIN_TRACKER := tests/bench/programs/plain_tracker.ml
BENCH_OCAML5 := $(addprefix $(BUILD)/targets-trixie/bench/,many_domains depths c_heavy)
targets: $(addprefix $(BENCH_DIR)/,$(BENCH_NAMES) stack_walk) $(BENCH_OCAML5)
$(BENCH_DIR)/obj/%.cmx: tests/bench/programs/%.ml $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(OCAMLOPT) -g -I $(TARGETS_DIR)/obj -c -o $@ $<
$(addprefix $(BENCH_DIR)/,$(BENCH_OWN)): $(BENCH_DIR)/%: $(BENCH_DIR)/obj/%.cmx
$(addprefix $(BENCH_DIR)/,$(BENCH_COMMON)): $(BENCH_DIR)/%: $(TARGETS_DIR)/obj/%.cmx
$(addprefix $(BENCH_DIR)/,$(BENCH_NAMES)): $(BENCH_DIR)/obj/plain_tracker.cmx
	$(call say,LINK,$@)
	$(Q)$(OCAMLOPT) -g -linkpkg $(TARGETS_DIR)/obj/handshake.cmx $(BENCH_DIR)/obj/plain_tracker.cmx $(filter-out %/plain_tracker.cmx,$^) -o $@
$(filter %/many_domains %/depths,$(BENCH_OCAML5)): $(BUILD)/targets-trixie/bench/%: tests/bench/programs/%.ml
$(filter %/c_heavy,$(BENCH_OCAML5)): tests/targets/c_heavy.ml
$(BENCH_OCAML5): $(PLAIN_TRACKER) $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh trixie $@ '$(PLAIN_TRACKER) $(filter %/$(@F).ml,$^)' -g

# Programs for the cost of publishing values, and of watching 1,000 references.
targets: $(addprefix $(BENCH_DIR)/,says many_values) $(BUILD)/targets-trixie/bench/many_values
$(BENCH_DIR)/says: tests/bench/programs/says.ml tests/bench/programs/says_stubs.c tests/targets/torn/workers4.ml $(FINDLIB)/META
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp tests/bench/programs/says* $@-source/ && cp tests/targets/torn/workers4.ml $@-source/workers.ml
	$(Q)cd $@-source && OCAMLPATH=$(abspath $(BUILD)/findlib) $(OCAMLOPT) -g -package memprof-agent.values -ccopt '-O2 -I$(CURDIR)/agent-lib/values' -I ../../obj -linkpkg ../../obj/handshake.cmx says_stubs.c workers.ml says.ml -o ../says
MANY_VALUES := tests/bench/programs/many_values.ml tests/bench/programs/apart.sh
make_values = mkdir -p $@-source && seq 1000 | sed 's/.*/let value& = ref &/' >$@-source/thousand.ml && sh tests/bench/programs/apart.sh >$@-source/apart.ml
$(BENCH_DIR)/many_values: $(MANY_VALUES) $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)$(make_values) && cp $< $@-source/
	$(Q)cd $@-source && $(OCAMLOPT) -g -I ../../obj -linkpkg ../../obj/handshake.cmx thousand.ml apart.ml many_values.ml -o ../many_values
$(BUILD)/targets-trixie/bench/many_values: $(MANY_VALUES) $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)$(make_values)
	$(Q)tests/targets/compile-with.sh trixie $@ '$@-source/thousand.ml $@-source/apart.ml $<' -g

$(BENCH_DIR)/stack_walk: tests/bench/programs/stack_walk.ml tests/bench/programs/stack_walk_stubs.c agent-lib/walk/delta_walk.h
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp $(filter tests/%,$^) $@-source/
	$(Q)cd $@-source && $(OCAMLOPT) -g -ccopt '-O2 -I$(CURDIR)' -linkpkg stack_walk_stubs.c stack_walk.ml -o ../$(@F)

# An agent that records the runtime's own callstacks (tests/e2e/truth).
TRUTH_DIR := $(BUILD)/tests/truth
TRUTH_OBJ := $(patsubst agent-lib/%,$(TRUTH_DIR)/%.o,$(AGENT_SRC)) $(TRUTH_DIR)/truth.c.o
targets: $(BUILD)/tests/libmemprof_agent_truth.so
$(TRUTH_DIR)/%.o: agent-lib/% $(AGENT_HEADERS) tests/e2e/truth/truth.h
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_CFLAGS) $(if $(filter %.c,$<),-include tests/e2e/truth/truth.h) -c $< -o $@
$(TRUTH_DIR)/truth.c.o: tests/e2e/truth/truth.c tests/e2e/truth/truth.h
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_CFLAGS) -I. -c $< -o $@
$(BUILD)/tests/libmemprof_agent_truth.so: $(TRUTH_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-z,nodelete -Wl,-z,now $^ -o $@

# An agent that compares its own stack walk with the runtime's (tests/agent/stack_check.h).
CHECKED_DIR := $(BUILD)/tests/checked
CHECKED_OBJ := $(filter-out %/tracker.c.o,$(AGENT_OBJ)) $(CHECKED_DIR)/tracker.c.o $(CHECKED_DIR)/stack_check.c.o
targets: $(BUILD)/tests/libmemprof_agent_checked.so
$(CHECKED_DIR)/tracker.c.o: agent-lib/tracker.c $(AGENT_HEADERS) tests/agent/stack_check.h
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_CFLAGS) -include tests/agent/stack_check.h -c $< -o $@
$(CHECKED_DIR)/stack_check.c.o: tests/agent/stack_check.c tests/agent/stack_check.h $(AGENT_HEADERS)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_CFLAGS) -I. -c $< -o $@
$(BUILD)/tests/libmemprof_agent_checked.so: $(CHECKED_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-z,nodelete -Wl,-z,now $^ -o $@

# Programs that load code at run time, with the host's OCaml and with others in targets-RELEASE.
PLUGIN_HOSTS := $(foreach folder,$(TARGETS_DIR) $(BUILD)/targets-trixie,$(folder)/plugins/plugin_host)
targets: $(PLUGIN_HOSTS)
$(PLUGIN_HOSTS): $(wildcard tests/targets/plugins/*) tests/targets/handshake.ml
	$(call say,OCAML,$@)
	$(Q)tests/targets/plugins/build.sh $(patsubst $(BUILD)/targets-%/plugins,%,$(@D:$(TARGETS_DIR)/%=host)) $(@D)
