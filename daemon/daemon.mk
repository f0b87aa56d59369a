# SPDX-License-Identifier: Apache-2.0
# memprofd and memprofctl.
#
# Most of the time of a compiler goes into headers, so the sources of a folder are compiled together,
# some 900 lines a unit (deploy/batches.py): all of the daemon takes a seventh of what its files take
# alone. `make UNITY=0` compiles file by file, as `make lint` does: every file includes what it uses.

CPPFLAGS := -I. $(addsuffix /gen,$(addprefix -I,$(BUILD) $(PLAIN))) -DSPDLOG_SHARED_LIB -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL
# gcc 12 reports overlaps and overflows inside std::string that do not exist. A unit includes sources,
# whose unnamed namespaces are not shared for that.
CXXFLAGS := -std=c++20 -O2 -g1 -fno-omit-frame-pointer $(PREFIX_MAP) $(WARN) -Wno-restrict -Wno-stringop-overflow \
            -Wno-array-bounds -Wno-missing-field-initializers -Wno-subobject-linkage -MD -MP
LDFLAGS  := -Wl,--as-needed $(if $(shell command -v mold),-fuse-ld=mold)
# Named here, since asking pkg-config for grpc++ takes seconds.
ABSL     := status statusor cord cord_internal cordz_info cordz_handle synchronization strings str_format_internal hash raw_hash_set throw_delegate \
            cord base time raw_logging_internal
LIBS     := -lgrpc++_reflection -lgrpc++ -lgrpc -lgpr -lprotobuf -lprometheus-cpp-core -lmicrohttpd -lgnutls \
            -lre2 -lyaml-cpp -lbpf -lelf -lspdlog -lfmt -lsqlite3 -lzstd $(addprefix -labsl_,$(ABSL)) -lz -lcrypt -lpthread
comma    := ,
# $(call static_libs,NAMES): these, and those that gRPC needs, from their archives.
STATICS  := $(dir $(shell $(CXX) -print-file-name=libgrpc++.a))
STATICS  := $(if $(SANITIZE),,$(filter-out ./,$(STATICS)))
static_libs = -Wl$(comma)-Bstatic -Wl$(comma)--start-group $(addprefix -l,$(1) gpr protobuf upb re2 cares address_sorting) \
                $(patsubst $(STATICS)lib%.a,-l%,$(wildcard $(STATICS)libabsl_*.a)) -lz -Wl$(comma)--end-group -Wl$(comma)-Bdynamic
# memprofctl starts in half the time where the dynamic linker has no gRPC to look up: it is linked with
# the static libraries where they are installed.
CTL_LIBS := $(if $(STATICS),$(call static_libs,grpc++ grpc ssl crypto)) $(LIBS) -lncursesw -ltinfo
ifneq ($(SANITIZE),)
  # -O1 takes twice as long to compile, and removes accesses that it proves harmless before they are checked.
  CXXFLAGS := $(subst -O2,-O0,$(CXXFLAGS)) -fsanitize=$(SANITIZE) -fno-sanitize-recover=all
  # The sanitizer's own crypt would make the linker leave the real one out.
  LDFLAGS  += -fsanitize=$(SANITIZE) -Wl,--no-as-needed -lcrypt -Wl,--as-needed
endif
ifeq ($(SANITIZE),thread)
  LDFLAGS  += -Wl,--version-script=tests/tsan.map
endif
ifneq ($(findstring address,$(SANITIZE)),)
  # Parsers of hostile input report to libFuzzer where they have been; see tests/fuzz/coverage.cc.
  GUIDED   := $(addprefix daemon/,discover/ heapdump/ ingest/ rss/ run/ runtime/ snapshot/ state/ symbolize/ trace/ values/ util/)
  GUIDE    := -fsanitize-coverage=trace-pc,trace-cmp
  # Each check has a record with pointers, ten million in all: a program that is not moved starts in a third
  # of the time, and its forks have 250 MB less to copy.
  LDFLAGS  += -no-pie -Wl,--wrap=__sanitizer_cov_trace_pc
  COVERAGE_OBJ := $(BUILD)/obj/tests/fuzz/coverage.o
endif

# ccache: a compiler's dependencies say what to look at, so nothing is preprocessed twice, and checkouts
# share the cache.
CCACHE := $(shell command -v ccache 2>/dev/null)
export CCACHE_DEPEND := true
export CCACHE_NOHASHDIR := true
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_SLOPPINESS := time_macros

# ---------------------------------------------------------------- generated code

PROTO := $(wildcard proto/*/*.proto proto/*/*/*.proto)
# Services are in proto/memprof only.
PB_CC := $(PROTO:proto/%.proto=$(BUILD)/gen/%.pb.cc) \
         $(patsubst proto/%.proto,$(BUILD)/gen/%.grpc.pb.cc,$(filter proto/memprof/%,$(PROTO)))
PB_H  := $(PB_CC:.cc=.h)
PB_OBJ := $(PB_CC:$(BUILD)/%.cc=$(or $(PLAIN),$(BUILD))/%.o)
GRPC_PLUGIN := $(shell command -v grpc_cpp_plugin)

# $(call protoc,PLUGIN OPTIONS): files that stay as they are keep their time stamps, so that a comment in
# a .proto compiles nothing.
define protoc
	$(call say,PROTOC,$<)
	$(Q)mkdir -p $(@D) && rm -rf $@.new && mkdir $@.new && protoc -Iproto $(1)=$@.new $<
	$(Q)cd $@.new && find . -type f | while read -r f; do cmp -s $$f ../$(GEN_TOP)$$f || mv $$f ../$(GEN_TOP)$$f; done
	$(Q)rm -rf $@.new && touch $@
endef
# From the folder of a generated file to $(BUILD)/gen: ../ for each folder.
GEN_TOP = $(subst $() ,,$(patsubst %,../,$(subst /, ,$(patsubst $(BUILD)/gen/%,%,$(@D)))))
$(BUILD)/gen/%.pb.stamp: proto/%.proto
	$(call protoc,--cpp_out)
$(BUILD)/gen/%.grpc.pb.stamp: proto/%.proto
	$(call protoc,--plugin=protoc-gen-grpc=$(GRPC_PLUGIN) --grpc_out)
$(BUILD)/gen/%.pb.cc $(BUILD)/gen/%.pb.h: $(BUILD)/gen/%.pb.stamp ;
# Generated code is neither warned about nor instrumented.
PLAIN_CXXFLAGS = $(filter-out -fsanitize% -fno-sanitize%,$(CXXFLAGS))
$(BUILD)/gen/%.pb.o: $(BUILD)/gen/%.pb.cc | $(PB_H)
	$(call say,CXX,$<)
	$(Q)$(CCACHE) $(CXX) $(CPPFLAGS) $(PLAIN_CXXFLAGS) -w -O1 -c $< -o $@

# ---------------------------------------------------------------- objects

UNITY      ?= 1
UNIT_LINES := 900
obj         = $(patsubst %.cc,$(BUILD)/obj/%.o,$(1))
# $(call units,--tests or nothing,SOURCES): the units of sources, in $(BUILD)/units.
units       = $(shell deploy/batches.py $(1) $(BUILD)/units $(UNIT_LINES) $(2))
LIB_SRC    := $(filter-out daemon/main.cc daemon/ctl/main.cc daemon/util/version.cc,$(sort $(shell find daemon -name '*.cc')))
ifneq ($(PLAIN),)
  # The short form of ThreadSanitizer's build compiles only these folders, each as one unit. All others
  # and the generated code are taken from the build in $(PLAIN), as they ship. They come last: of a
  # template that both have, the linker takes the first, which ThreadSanitizer must watch.
  WATCHED := aggregate/ control/ export/clients/ export/heaps/ history/ snapshot/types/ util/ util/threads/
  WATCHED_SRC := $(wildcard $(WATCHED:%=daemon/%*.cc))
  WATCHED_OBJ := $(patsubst %.cc,%.o,$(shell deploy/batches.py $(BUILD)/units 100000 $(filter $(WATCHED_SRC),$(LIB_SRC))))
  LIB_OBJ  := $(WATCHED_OBJ) $(patsubst $(BUILD)/%.cc,$(PLAIN)/%.o,$(call units,,$(filter-out $(WATCHED_SRC),$(LIB_SRC))))
else ifeq ($(UNITY),0)
  LIB_OBJ := $(call obj,$(LIB_SRC))
else
  LIB_OBJ := $(patsubst %.cc,%.o,$(call units,,$(LIB_SRC)))
endif
MAIN_OBJ := $(call obj,daemon/main.cc)
CTL_OBJ  := $(call obj,daemon/ctl/main.cc)
# What an object is called while it is compiled: daemon/query/2, daemon/main.cc.
title     = $(patsubst $(BUILD)/units/%.cc,%,$<)

GENERATED := $(if $(PLAIN),,$(SKEL) $(PB_H))
define compile
	$(call say,CXX,$(title))
	$(Q)mkdir -p $(@D)
	$(Q)$(CCACHE) $(CXX) $(CPPFLAGS) $(CXXFLAGS) $(FOLDER_FLAGS) -c $< -o $@
endef
$(BUILD)/obj/%.o: %.cc | $(GENERATED)
	$(compile)
$(BUILD)/units/%.o: $(BUILD)/units/%.cc | $(GENERATED)
	$(compile)
# $(call folder_flags,FOLDERS/,FLAGS)
folder_flags = $(foreach folder,$(1),$(eval $(BUILD)/obj/$(folder)%.o $(BUILD)/units/$(folder)%.o: private FOLDER_FLAGS := $(2)))
# Waits for people or for the kernel, or runs a few times a second: cheaper to compile.
UNHURRIED := $(addprefix daemon/,control/ ctl/ doctor/)
$(if $(SANITIZE),$(call folder_flags,$(GUIDED),$(GUIDE)),$(call folder_flags,$(UNHURRIED),-O1))
# Only these embed the pages; no other object waits for npm.
EMBEDDING := $(foreach folder,units obj,$(addprefix $(BUILD)/$(folder)/daemon/export/,http/% formats/%))
$(filter $(EMBEDDING),$(LIB_OBJ) $(call obj,$(LIB_SRC))): | $(if $(PLAIN),,$(ASSETS))

# The version is in an object of its own: another revision compiles one file and links the programs.
# Tests have it as an order-only prerequisite, so that they are not linked again.
VERSION_OBJ := $(call obj,daemon/util/version.cc)
VERSION_H   := $(BUILD)/gen/version_strings.h
.PHONY: always
$(VERSION_H): always
	$(Q)deploy/version.sh $@
$(VERSION_OBJ): $(VERSION_H)

# ---------------------------------------------------------------- programs

# Thin archives: they name the objects and do not copy them. What only memprofctl needs is apart.
CTL_LIB_OBJ := $(foreach folder,$(BUILD)/units $(BUILD)/obj,$(filter $(folder)/daemon/ctl/%,$(LIB_OBJ)))
$(BUILD)/libmemprofd.a: $(filter-out $(CTL_LIB_OBJ),$(LIB_OBJ)) $(PB_OBJ) $(COVERAGE_OBJ)
$(BUILD)/libmemprofctl.a: $(CTL_LIB_OBJ)
$(BUILD)/lib%.a:
	$(Q)rm -f $@ && ar rcsT $@ $^
# $(call link,OBJECTS,LIBRARIES): links $@ with the archives that it depends on.
define link
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(LDFLAGS) $(1) $(VERSION_OBJ) $(filter %.a,$^) $(2) -o $@
endef
$(BUILD)/memprofd: $(MAIN_OBJ) $(VERSION_OBJ) $(BUILD)/libmemprofd.a
	$(call link,$(MAIN_OBJ),$(LIBS))
$(BUILD)/memprofctl: $(CTL_OBJ) $(VERSION_OBJ) $(BUILD)/libmemprofctl.a $(BUILD)/libmemprofd.a
	$(call link,$(CTL_OBJ),$(CTL_LIBS))
# For tests: all of both programs but their main functions.
LIBRARIES := $(BUILD)/libmemprofctl.a $(BUILD)/libmemprofd.a

-include $(patsubst %.o,%.d,$(filter $(BUILD)/%,$(LIB_OBJ) $(PB_OBJ))) $(VERSION_OBJ:.o=.d) $(MAIN_OBJ:.o=.d) $(CTL_OBJ:.o=.d)
