# SPDX-License-Identifier: Apache-2.0
# memprofd: build, test, install. `make help` lists what there is.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

BUILD    ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
V        ?= 0
SANITIZE ?=
JOBS     ?= $(shell nproc)

ifeq ($(V),1)
  Q :=
  say = @:
else
  Q := @
  say = @printf '  %-8s %s\n' $(1) $(2)
endif

CCACHE  := $(shell command -v ccache 2>/dev/null)
CC      := gcc
CXX     := g++
CLANG   := clang
BPFTOOL := $(shell command -v bpftool 2>/dev/null || echo /usr/sbin/bpftool)
ARCH    := $(shell uname -m)
VERSION := $(shell sed -n 's/^## \[\([0-9][0-9.]*\)\].*/\1/p' CHANGELOG.md 2>/dev/null | head -1)
VERSION := $(or $(VERSION),0.0.0)

WARN     := -Wall -Wextra -Werror
CPPFLAGS := -I. -I$(BUILD)/gen
CPPFLAGS += -DSPDLOG_SHARED_LIB -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL
# gcc 12 sees overlaps and overflows inside std::string that are not there.
CXXFLAGS := -std=c++20 -O2 -g1 -fno-omit-frame-pointer $(WARN) -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-missing-field-initializers -MMD -MP
LDFLAGS  := -Wl,--as-needed
# By name: asking pkg-config for grpc++ takes seconds.
ABSL     := status statusor synchronization strings str_format_internal hash raw_hash_set throw_delegate \
            cord base time raw_logging_internal
LIBS     := -lgrpc++_reflection -lgrpc++ -lgrpc -lgpr -lprotobuf -lprometheus-cpp-core -lmicrohttpd -lgnutls -lre2 -lyaml-cpp -lbpf -lelf -lspdlog -lfmt -lsqlite3 -lzstd \
            $(addprefix -labsl_,$(ABSL)) -lz -lcrypt -lpthread
comma    := ,
# Whoever types a command waits for memprofctl to start, which takes twice as long where the dynamic
# linker has gRPC to look up. Where its static libraries are not installed, it has.
STATICS  := $(dir $(shell $(CXX) -print-file-name=libgrpc++_unsecure.a))
STATICS  := $(if $(SANITIZE),,$(filter-out ./,$(STATICS)))
CTL_LIBS := $(if $(STATICS),-Wl$(comma)-Bstatic -Wl$(comma)--start-group -lgrpc++_unsecure -lgrpc_unsecure -lgpr -lprotobuf -lupb -lre2 -lcares \
              -laddress_sorting $(patsubst $(STATICS)lib%.a,-l%,$(wildcard $(STATICS)libabsl_*.a)) -lz -Wl$(comma)--end-group -Wl$(comma)-Bdynamic) $(LIBS)
ifneq ($(SANITIZE),)
  # -O1 takes twice as long to compile, and leaves out what it proves harmless before it is checked.
  CXXFLAGS := $(subst -O2,-O0,$(CXXFLAGS)) -fsanitize=$(SANITIZE) -fno-sanitize-recover=all
  # The sanitizer's own crypt would make the linker leave the real one out.
  LDFLAGS  += -fsanitize=$(SANITIZE) -Wl,--no-as-needed -lcrypt -Wl,--as-needed
  # Who parses what others choose tells libFuzzer where it has been; tests/fuzz/coverage.cc hears it.
  GUIDED   := $(addprefix daemon/,discover/ ingest/ rss/ snapshot/ state/ symbolize/ trace/ values/ util/)
  LDFLAGS  += -Wl,--wrap=__sanitizer_cov_trace_pc
endif

# ---------------------------------------------------------------- programs

.PHONY: all
all: $(BUILD)/memprofd $(BUILD)/memprofctl $(BUILD)/libmemprof_agent.so $(if $(shell command -v ocamlfind),$(BUILD)/findlib/memprof-agent/META)

LIB_SRC := $(filter-out daemon/main.cc daemon/ctl/main.cc daemon/util/version.cc, \
             $(sort $(shell find daemon -name '*.cc')))
CTL_SRC := daemon/ctl/main.cc
PROTO   := $(wildcard proto/*/*.proto proto/*/*/*.proto)
# Services are in proto/memprof only.
PB_CC   := $(PROTO:proto/%.proto=$(BUILD)/gen/%.pb.cc) $(patsubst proto/%.proto,$(BUILD)/gen/%.grpc.pb.cc,$(filter proto/memprof/%,$(PROTO)))
PB_H    := $(PB_CC:.cc=.h)
SKEL    := $(BUILD)/gen/memprof.skel.h $(BUILD)/gen/tasks.skel.h $(BUILD)/gen/safe_point.skel.h $(BUILD)/gen/calls.skel.h
ASSETS  := $(BUILD)/gen/flamegraph_assets.h

obj = $(patsubst %.cc,$(BUILD)/obj/%.o,$(1))
LIB_OBJ := $(call obj,$(LIB_SRC))
CTL_OBJ := $(call obj,$(CTL_SRC))
ifneq ($(SANITIZE),)
  $(call obj,$(filter $(GUIDED:%=%%),$(LIB_SRC))): private CXXFLAGS += -fsanitize-coverage=trace-pc,trace-cmp
  COVERAGE_OBJ := $(call obj,tests/fuzz/coverage.cc)
endif
PB_OBJ  := $(PB_CC:.cc=.o)

# The version is in one object beside the library: another revision compiles this file and links
# the programs. Tests have it as an order-only prerequisite, so that they stay as they are.
VERSION_OBJ := $(call obj,daemon/util/version.cc)
VERSION_H   := $(BUILD)/gen/version_strings.h
.PHONY: always
$(VERSION_H): always
	$(Q)deploy/version.sh $@
$(VERSION_OBJ): $(VERSION_H)

# Precompiled headers halve the build time; ccache has to be told that they are harmless,
# and to look at what is in them and not at their bytes, which differ from build to build.
PCH := $(BUILD)/gen/pch.h
export CCACHE_SLOPPINESS := pch_defines,time_macros
export CCACHE_PCH_EXTSUM := true
# Checkouts share the cache.
export CCACHE_NOHASHDIR := true
export CCACHE_BASEDIR := $(CURDIR)
# $(call precompile,FLAGS): $< becomes $@.
define precompile
	$(call say,PCH,$<)
	$(Q)mkdir -p $(@D)
	$(Q)cp $< $(@:.gch=)
	$(Q)$(CXX) $(CPPFLAGS) $(1) -x c++-header $(@:.gch=) -o $@
	$(Q){ $(CXX) --version; echo $(1); \
	  $(CXX) $(CPPFLAGS) $(filter-out -M%,$(1)) -E -P -x c++-header $(@:.gch=); } | sha256sum > $@.sum
endef
$(PCH).gch: daemon/util/pch.h
	$(call precompile,$(CXXFLAGS))

$(BUILD)/obj/%.o: %.cc $(PCH).gch | $(SKEL) $(PB_H) $(ASSETS)
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CCACHE) $(CXX) -include $(PCH) -fpch-preprocess $(CPPFLAGS) $(CXXFLAGS) -c $< -o $@

# Generated code is not ours to warn about, nor to look for faults in.
$(BUILD)/gen/%.pb.o: $(BUILD)/gen/%.pb.cc | $(PB_H)
	$(call say,CXX,$<)
	$(Q)$(CCACHE) $(CXX) $(CPPFLAGS) $(filter-out -fsanitize% -fno-sanitize%,$(CXXFLAGS)) -w -O1 -c $< -o $@

$(BUILD)/gen/%.pb.cc $(BUILD)/gen/%.pb.h: proto/%.proto
	$(call say,PROTOC,$<)
	$(Q)mkdir -p $(BUILD)/gen
	$(Q)protoc -Iproto --cpp_out=$(BUILD)/gen $<
$(BUILD)/gen/%.grpc.pb.cc $(BUILD)/gen/%.grpc.pb.h: proto/%.proto
	$(call say,PROTOC,$< [grpc])
	$(Q)mkdir -p $(BUILD)/gen
	$(Q)protoc -Iproto --grpc_out=$(BUILD)/gen --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin) $<

# The page. npm works in $(WEB), which holds node_modules and links to the sources, so
# that nothing is written beside them. esbuild, the one package with an install script,
# works without it.
WEB        ?= $(BUILD)/web
WEB_SRC    := $(shell find dashboards/web -type f)
WEB_ASSETS := $(BUILD)/gen/web_assets.h
$(WEB)/node_modules/.package-lock.json: dashboards/web/package.json dashboards/web/package-lock.json
	$(call say,NPM,$(WEB))
	$(Q)command -v npm > /dev/null || { echo 'npm is missing, which builds the page: run make deps' >&2; exit 1; }
	$(Q)mkdir -p $(WEB) && cp $^ $(WEB)/
	$(Q)cd $(WEB) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null
# The messages of the API as types.
WEB_MESSAGES := $(WEB)/gen/messages.ts
$(WEB_MESSAGES): $(addprefix proto/memprof/v1/,profiler.proto heaps.proto rss.proto values.proto) dashboards/web/messages.py
	$(call say,PROTOC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)protoc -Iproto --descriptor_set_out=$(@D)/messages.pb $(patsubst proto/%,%,$(filter %.proto,$^))
	$(Q)/usr/bin/python3 dashboards/web/messages.py $(@D)/messages.pb > $@
$(WEB)/dist/index.html: $(WEB)/node_modules/.package-lock.json $(WEB_SRC) $(WEB_MESSAGES)
	$(call say,VITE,$@)
	$(Q)ln -sfn $(addprefix $(CURDIR)/dashboards/web/,index.html src tsconfig.json vite.config.ts vite.offline.config.ts) $(WEB)/
	$(Q)cd $(WEB) && node_modules/.bin/tsc --noEmit && node_modules/.bin/vite build --logLevel warn && \
	  node_modules/.bin/vite build --logLevel warn --config vite.offline.config.ts
# Files as string literals: $(call assets,namespace,name file name file ...).
assets = { asset() { printf 'inline constexpr char %s[] = R"memprofd_asset(' $$1; cat $$2; echo ')memprofd_asset";'; }; \
  echo '\#pragma once'; echo 'namespace memprofd::$(1) {'; \
  set -- $(2); while [ $$\# -gt 0 ]; do asset $$1 $$2; shift 2; done; echo '}'; }
$(WEB_ASSETS): $(WEB)/dist/index.html
	$(call say,ASSETS,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(call assets,web_assets,kPage $(WEB)/dist/index.html kScript $(WEB)/dist/page.js kStyle $(WEB)/dist/page.css) > $@
# The page that holds one profile.
$(ASSETS): dashboards/web/offline.html $(WEB)/dist/index.html
	$(call say,ASSETS,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(call assets,flamegraph_assets,kTemplate $< kStyle $(WEB)/dist-offline/offline.css kScript $(WEB)/dist-offline/offline.js) > $@
$(BUILD)/obj/daemon/export/http/web_page.o: $(WEB_ASSETS)

$(BUILD)/libmemprofd.a: $(LIB_OBJ) $(PB_OBJ) $(COVERAGE_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/memprofd: $(call obj,daemon/main.cc) $(VERSION_OBJ) $(BUILD)/libmemprofd.a
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $^ $(LIBS) -o $@

$(BUILD)/memprofctl: $(CTL_OBJ) $(VERSION_OBJ) $(BUILD)/libmemprofd.a
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $^ $(CTL_LIBS) -lncursesw -ltinfo -o $@

# ---------------------------------------------------------------- kernel side

BPF_CFLAGS := -target bpf -D__TARGET_ARCH_$(subst aarch64,arm64,$(subst x86_64,x86,$(ARCH))) -mcpu=v3 -O2 -g \
              -Wall -Werror -I. -Iagent-lib/include -I/usr/include/$(ARCH)-linux-gnu

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h) agent-lib/include/memprof_agent_abi.h agent-lib/include/memprof_c_heap_abi.h
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@
.SECONDARY:
$(BUILD)/gen/%.skel.h: $(BUILD)/bpf/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# ---------------------------------------------------------------- agent

# No red zone: the kernel may push on the stack at a probe. Functions and lines are all that is told of
# the code (-g1): the file is copied into containers while a thread of the program waits.
AGENT_CFLAGS := -std=gnu11 -O2 -g1 -fPIC -fvisibility=hidden -mno-red-zone -ftls-model=initial-exec $(WARN) -Iagent-lib -Iagent-lib/include
# A sample passes a dozen small functions of several files: all of them are compiled together, into one object. The copying
# of roots stays apart: it declares the runtime's functions as they are in one OCaml or the other.
AGENT_LTO    = $(if $(findstring copy_roots,$@),,-flto -flto-partition=one)
AGENT_SRC    := $(wildcard agent-lib/*.c agent-lib/c_heap/*.c agent-lib/walk/*.c) agent-lib/stubs_$(ARCH).S
AGENT_HEADERS := $(wildcard agent-lib/*.h agent-lib/c_heap/*.h agent-lib/walk/*.h agent-lib/include/*.h)
AGENT_OBJ    := $(patsubst agent-lib/%,$(BUILD)/agent/%.o,$(AGENT_SRC))

$(BUILD)/agent/%.c.o: agent-lib/%.c $(AGENT_HEADERS)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_CFLAGS) $(AGENT_LTO) -c $< -o $@
$(BUILD)/agent/%.S.o: agent-lib/%.S $(AGENT_HEADERS)
	$(call say,AS,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_CFLAGS) -c $< -o $@
# nodelete: code that the runtime may still call must never be unmapped.
# noseparate-code: each time that the probe is mapped the kernel searches all mappings of the program
# for the semaphore. The first segment is mapped as long as the whole file: no other one has the code.
$(BUILD)/libmemprof_agent.so: $(AGENT_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) $(AGENT_CFLAGS) $(AGENT_LTO) -shared -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,now -Wl,-z,noseparate-code -Wl,-soname,libmemprof_agent.so -Wl,--build-id -Wl,--compress-debug-sections=zlib $^ -o $@
# Any compiler may link the archive: it has the code itself.
$(BUILD)/agent/memprof_agent.o: $(AGENT_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) $(AGENT_CFLAGS) $(AGENT_LTO) -r -flinker-output=nolto-rel $^ -o $@
$(BUILD)/libmemprof_agent.a: $(BUILD)/agent/memprof_agent.o
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

# The findlib package: ocamlfind ocamlopt -package memprof-agent -linkpkg ... What a program says about itself is a package
# within it, memprof-agent.values, whose archive has the functions of memprof_values.h too.
FINDLIB := $(BUILD)/findlib/memprof-agent
VALUES_C := registry c_values ocaml_values ocaml_poll
VALUES_OCAML = memprof_values_point.ml memprof_values_store.ml memprof_values_tag.ml memprof_values.mli memprof_values.ml
$(FINDLIB)/META: agent-lib/findlib/META.in $(wildcard agent-lib/findlib/*.ml*) $(wildcard agent-lib/values/*) agent-lib/include/memprof_values_abi.h $(BUILD)/libmemprof_agent.a
	$(call say,OCAML,$(FINDLIB))
	$(Q)mkdir -p $(FINDLIB)
	$(Q)cp agent-lib/findlib/memprof_agent.ml $(BUILD)/libmemprof_agent.a $(FINDLIB)/
	$(Q)cd $(FINDLIB) && ocamlfind ocamlopt -c memprof_agent.ml && \
	  ocamlfind ocamlopt -a -linkall -o memprof_agent.cmxa memprof_agent.cmx -cclib -lmemprof_agent && \
	  rm -f memprof_agent.o memprof_agent.ml
	$(Q)cp agent-lib/findlib/memprof_values.ml* agent-lib/findlib/memprof_values_store.ml agent-lib/values/memprof_values.h $(FINDLIB)/
	$(Q)for name in point tag; do cp agent-lib/findlib/memprof_values_$${name}$(if $(filter 4.%,$(shell ocamlfind ocamlopt -version)),4,5).ml $(FINDLIB)/memprof_values_$$name.ml || exit 1; done
	$(Q)for name in $(VALUES_C); do $(CC) $(AGENT_CFLAGS) -I$(shell ocamlfind ocamlopt -where) -c agent-lib/values/$$name.c -o $(FINDLIB)/$$name.o || exit 1; done
	$(Q)cd $(FINDLIB) && rm -f libmemprof_values.a && ar rcs libmemprof_values.a $(VALUES_C:%=%.o) && \
	  ocamlfind ocamlopt -g -c $(VALUES_OCAML) && \
	  ocamlfind ocamlopt -a -o memprof_values.cmxa $(addsuffix .cmx,$(basename $(filter %.ml,$(VALUES_OCAML)))) -cclib -lmemprof_values && \
	  rm -f *.o $(filter %.ml,$(VALUES_OCAML))
	$(Q)sed 's/@VERSION@/$(VERSION)/' $< > $@

# ---------------------------------------------------------------- the rest

MAN := $(BUILD)/man/memprofd.8 $(BUILD)/man/memprofctl.1
$(MAN) &: deploy/man-pages.py deploy/help_text.py $(BUILD)/memprofd $(BUILD)/memprofctl
	$(call say,MAN,$(MAN))
	$(Q)deploy/man-pages.py $(BUILD) $(BUILD)/man
COMPLETIONS := $(BUILD)/completions/memprofd $(BUILD)/completions/memprofctl
$(COMPLETIONS) &: deploy/completions.py deploy/help_text.py $(BUILD)/memprofd $(BUILD)/memprofctl
	$(call say,COMPLETE,$(COMPLETIONS))
	$(Q)deploy/completions.py $(BUILD) $(BUILD)/completions

# A Debian package of this revision, and an image of that package (podman, buildah or docker).
deb: all $(MAN) $(COMPLETIONS)
	$(Q)deploy/deb.sh $(BUILD)
image:
	$(Q)deploy/image.sh $(or $(IMAGE),memprofd:$(VERSION))

.PHONY: deps demo install uninstall deb image format format-check lint clean help grafana-dashboards
deps:
	$(Q)deploy/install-deps.sh

demo:
	$(Q)deploy/install-deps.sh
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all targets
	$(Q)tests/e2e/demo.sh $(BUILD)

install: all $(MAN) $(COMPLETIONS)
	$(Q)deploy/install.sh install $(BUILD) '$(PREFIX)' '$(DESTDIR)'
uninstall:
	$(Q)deploy/install.sh uninstall $(BUILD) '$(PREFIX)' '$(DESTDIR)'

# Writes dashboards/grafana/dashboards anew from dashboards/grafana-src; needs npm.
grafana-dashboards:
	$(Q)MEMPROFD_BUILD=$(BUILD) /usr/bin/python3 tests/dashboards/grafana_npm.py

SOURCES := $(shell find daemon tests proto -name '*.cc' -o -name '*.h' 2>/dev/null) $(wildcard bpf/*.[ch] agent-lib/*.[ch] agent-lib/c_heap/*.[ch] agent-lib/walk/*.[ch] agent-lib/include/*.h agent-lib/values/*.[ch] tests/hostile/*.c tests/hostile/*/*.c tests/soak/*.c)
format:
	$(Q)clang-format -i $(SOURCES)
format-check:
	$(Q)clang-format --dry-run -Werror $(SOURCES) || { echo 'sources are not formatted: run make format' >&2; exit 1; }
# Generated headers are nobody's to mend; bpftool writes C's _Bool into them.
LINT_FLAGS := $(subst -I$(BUILD)/gen,-isystem $(BUILD)/gen,$(CPPFLAGS)) -D_Bool=bool -std=c++20
# clang-tidy takes 20 minutes of CPU, so it is no part of make test, and looks only at folders of
# which a file has been compiled anew since it was content.
LINT_SRC := $(LIB_SRC) daemon/main.cc $(CTL_SRC)
LINT_DIR := $(sort $(dir $(LINT_SRC)))
# $(call lint_folder,folder/,files)
define lint_folder
$(BUILD)/lint/$(1)ok: $(patsubst %.cc,$(BUILD)/obj/%.o,$(2)) .clang-tidy deploy/lint.py
	$$(call say,LINT,$(1)*.cc)
	$$(Q)mkdir -p $$(@D)
	$$(Q)deploy/lint.py $(2) -- $$(LINT_FLAGS) && touch $$@
endef
$(foreach folder,$(LINT_DIR),$(eval $(call lint_folder,$(folder),$(filter $(wildcard $(folder)*.cc),$(LINT_SRC)))))
lint: format-check
	$(Q)$(MAKE) --no-print-directory --keep-going -j$(JOBS) $(LINT_DIR:%=$(BUILD)/lint/%ok)

# For clangd and other tools: how each file is compiled. Make the programs first: they generate headers.
COMPILE_COMMANDS := compile_commands.json
compile_commands.json: always
	$(Q)$(MAKE) --no-print-directory --always-make --dry-run V=1 $(LIB_OBJ) $(CTL_OBJ) $(call obj,daemon/main.cc) \
	  $(VERSION_OBJ) $(TEST_OBJ) $(AGENT_OBJ) | deploy/compile-commands.py > $(COMPILE_COMMANDS)

clean:
	$(Q)rm -rf $(BUILD)

help:
	@echo 'make            memprofd, memprofctl and libmemprof_agent.so in $(BUILD)/'
	@echo 'make demo       install what is missing, build, profile a bundled server for 20 s'
	@echo 'make test       install what is missing, build, run every test'
	@echo 'make test-matrix   all OCaml versions and real programs, with more of everything: an hour'
	@echo 'make test-kernels  the kernels of other Debian releases, in virtual machines: ten minutes'
	@echo 'make unit-test  only the fast tests'
	@echo 'make soak       memprofd for an hour as it should never have to live'
	@echo 'make soak-snapshots  200 snapshots of busy servers, memprofd killed in the middle of 50 more'
	@echo 'make large-snapshots  one of 50 million blocks: whether all are there, and what answers take'
	@echo 'make fuzz       libFuzzer on each parser of what others choose, FUZZ_SECONDS=3600 each'
	@echo 'make bench      measure overhead, cost per sample, latency, ingest rate and more: BENCHMARKS.md'
	@echo 'make bench-compare BASE=main   what an earlier revision costs against this tree'
	@echo 'make install, make uninstall   in DESTDIR= PREFIX=$(PREFIX)'
	@echo 'make deb, make image   a Debian package, an image of it (IMAGE=memprofd:VERSION)'
	@echo 'make grafana-dashboards   after changes in dashboards/grafana-src'
	@echo 'make compile_commands.json   for clangd and the like'
	@echo 'make format, make format-check, make lint, make clean; V=1 shows commands'

include tests/tests.mk

-include $(LIB_OBJ:.o=.d) $(VERSION_OBJ:.o=.d) $(CTL_OBJ:.o=.d) $(PB_OBJ:.o=.d) $(BUILD)/obj/daemon/main.d
