# SPDX-License-Identifier: Apache-2.0
# The form of the sources, and what tools of the developer want to know.

FORMATTED := $(shell find daemon tests proto -name '*.cc' -o -name '*.h' 2>/dev/null) \
             $(wildcard bpf/*.[ch] $(addsuffix /*.[ch],$(AGENT_DIRS) agent-lib/values) agent-lib/include/*.h \
               tests/hostile/*.c tests/hostile/*/*.c tests/soak/*.c deploy/dist/*.c)
.PHONY: format format-check lint
format:
	$(Q)clang-format -i $(FORMATTED)
# Only files that have changed since they were content are checked.
format-check: $(BUILD)/lint/format
$(BUILD)/lint/format: $(FORMATTED) .clang-format
	$(Q)mkdir -p $(@D)
	$(Q)echo $(filter-out .clang-format,$?) | xargs clang-format --dry-run -Werror || \
	  { echo 'sources are not formatted: run make format' >&2; exit 1; }
	$(Q)touch $@

# clang-tidy takes 20 minutes of CPU, so it is not part of make test, and checks only folders of which
# a file has been compiled since they were content. Compiling is file by file here: every file includes
# what it uses. What a mutex guards is touched while it is held only (util/threads/mutex.h).
# Generated headers are not ours; bpftool writes C's _Bool into them.
LINT_FLAGS := -Wthread-safety $(subst -I$(BUILD)/gen,-isystem $(BUILD)/gen,$(CPPFLAGS)) -D_Bool=bool -std=c++20
LINT_SRC   := $(LIB_SRC) daemon/main.cc daemon/ctl/main.cc
LINT_DIR   := $(sort $(dir $(LINT_SRC)))
# $(call lint_folder,folder/,files)
define lint_folder
$(BUILD)/lint/$(1)ok: $(patsubst %.cc,$(BUILD)/obj/%.o,$(2)) .clang-tidy deploy/lint.py
	$$(call say,LINT,$(1)*.cc)
	$$(Q)mkdir -p $$(@D)
	$$(Q)deploy/lint.py $(2) -- $$(LINT_FLAGS) && touch $$@
endef
$(foreach folder,$(LINT_DIR),$(eval $(call lint_folder,$(folder),$(filter $(wildcard $(folder)*.cc),$(LINT_SRC)))))
lint: format-check
	$(Q)$(SUBMAKE) UNITY=0 --keep-going -j$(JOBS) $(LINT_DIR:%=$(BUILD)/lint/%ok)

# make timings TIMINGS_ARGS=--test
.PHONY: timings
timings:
	$(Q)deploy/timings.py $(TIMINGS_ARGS)

# For clangd and other tools: how each file is compiled. Make the programs first: they generate headers.
COMPILE_COMMANDS := compile_commands.json
compile_commands.json: always
	$(Q)$(SUBMAKE) UNITY=0 --always-make --dry-run V=1 compile-all | deploy/compile-commands.py > $(COMPILE_COMMANDS)
.PHONY: compile-all
compile-all: $(LIB_OBJ) $(MAIN_OBJ) $(CTL_OBJ) $(VERSION_OBJ) $(AGENT_OBJ)

-include $(patsubst %.cc,$(BUILD)/obj/%.d,$(if $(filter lint $(BUILD)/lint/%,$(MAKECMDGOALS)),$(LINT_SRC)))
