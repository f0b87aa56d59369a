# SPDX-License-Identifier: Apache-2.0
# Included by targets.mk, which builds the other programs of this folder.

# A program whose C code allocates at the end of many paths, and unwinds its own stack there.
C_STACKS         := $(OTHER_RELEASES:%=$(BUILD)/targets-%/c_stacks)
C_STACKS_SOURCES := $(addprefix tests/targets/memory/,c_stacks.ml c_stacks_stubs.c within4.ml within5.ml)
targets: $(TARGETS_DIR)/c_stacks $(BUILD)/targets-trixie/c_stacks
$(foreach release,$(OTHER_RELEASES),$(eval targets-$(release): $(BUILD)/targets-$(release)/c_stacks))
$(TARGETS_DIR)/c_stacks: $(C_STACKS_SOURCES) $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp $(filter %/c_stacks.ml %.c,$^) $@-source/ && cp tests/targets/memory/within4.ml $@-source/within.ml
	$(Q)cd $@-source && $(CC) -O2 -Wall -Werror -c c_stacks_stubs.c -o c_stacks_stubs.o
	$(Q)cd $@-source && $(OCAMLOPT) -g -I ../obj -linkpkg ../obj/handshake.cmx within.ml c_stacks.ml c_stacks_stubs.o -o ../c_stacks
$(C_STACKS): $(BUILD)/targets-%/c_stacks: $(C_STACKS_SOURCES) $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp tests/targets/memory/within$(if $(filter $(OCAML5_RELEASES),$*),5,4).ml $@-source/within.ml
	$(Q)tests/targets/compile-with.sh $* $@ '$(filter %_stubs.c,$^) $@-source/within.ml tests/targets/memory/c_stacks.ml' -g
# Libraries with their own malloc: one whose calls may never return, and one that calls itself.
targets: $(TARGETS_DIR)/c_leaves.so $(TARGETS_DIR)/c_own_malloc.so
$(TARGETS_DIR)/c_leaves.so $(TARGETS_DIR)/c_own_malloc.so: $(TARGETS_DIR)/%.so: tests/targets/memory/%.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -fno-builtin -Wall -Werror -shared -fPIC $< -o $@
# Programs with memory of the runtime outside the heap, and with C code that calls back.
MEMORY_PARTS  := $(addprefix $(TARGETS_DIR)/,rss_parts callback_malloc)
MEMORY_PARTS5 := $(foreach release,$(OCAML5_RELEASES),$(addprefix $(BUILD)/targets-$(release)/,rss_parts callback_malloc big_fibers lost_pools))
targets: $(MEMORY_PARTS) $(filter $(BUILD)/targets-trixie/%,$(MEMORY_PARTS5)) $(BUILD)/targets-experimental/rss_parts
$(foreach release,$(OCAML5_RELEASES),$(eval targets-$(release): $(filter $(BUILD)/targets-$(release)/%,$(MEMORY_PARTS5))))
$(filter %/callback_malloc,$(MEMORY_PARTS) $(MEMORY_PARTS5)): tests/targets/memory/callback_malloc_stubs.c
$(filter %/lost_pools,$(MEMORY_PARTS5)): tests/targets/memory/lost_pools_stubs.c
$(MEMORY_PARTS): $(TARGETS_DIR)/%: tests/targets/memory/%.ml $(TARGETS_DIR)/obj/handshake.cmx
	$(call say,OCAML,$@)
	$(Q)mkdir -p $@-source && cp $(filter tests/%,$^) $@-source/
	$(Q)cd $@-source && $(OCAMLOPT) -g -I ../obj -linkpkg ../obj/handshake.cmx $(notdir $(filter %_stubs.c,$^)) $*.ml -o ../$*
$(foreach part,rss_parts callback_malloc big_fibers lost_pools,$(eval $(filter %/$(part),$(MEMORY_PARTS5)): tests/targets/memory/$(part).ml))
$(MEMORY_PARTS5): $(BUILD)/targets-%: $(COMPILE_WITH)
	$(call say,OCAML,$@)
	$(Q)tests/targets/compile-with.sh $(*D) $@ '$(filter %_stubs.c,$^) tests/targets/memory/$(*F).ml' -g
