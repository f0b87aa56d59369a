# SPDX-License-Identifier: Apache-2.0
# The agent: the shared library that is injected or preloaded, and an archive to link.

# No red zone: the kernel may push onto the stack at a probe. Debug information is functions and
# lines only (-g1): the file is copied into containers while a thread of the program waits.
AGENT_CFLAGS := -std=gnu11 -O2 -g1 -fPIC -fvisibility=hidden -mno-red-zone -ftls-model=initial-exec \
                $(PREFIX_MAP) $(WARN) -Iagent-lib -Iagent-lib/include
# A sample passes through a dozen small functions of several files, so all files are optimized as one.
# copy_roots stays apart: it declares the runtime's functions with the types of one OCaml or another.
AGENT_LTO     = $(if $(findstring copy_roots,$@),,-flto -flto-partition=one)
AGENT_DIRS    := agent-lib agent-lib/native_heap agent-lib/walk
AGENT_SRC     := $(wildcard $(AGENT_DIRS:%=%/*.c)) agent-lib/stubs_$(ARCH).S
AGENT_HEADERS := $(wildcard $(AGENT_DIRS:%=%/*.h) agent-lib/include/*.h)
AGENT_OBJ     := $(patsubst agent-lib/%,$(BUILD)/agent/%.o,$(AGENT_SRC))

$(BUILD)/agent/%.c.o: agent-lib/%.c $(AGENT_HEADERS)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_CFLAGS) $(AGENT_LTO) -c $< -o $@
$(BUILD)/agent/%.S.o: agent-lib/%.S $(AGENT_HEADERS)
	$(call say,AS,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_CFLAGS) -c $< -o $@

# nodelete: code that the runtime may still call must never be unmapped.
# noseparate-code: whenever the probe is mapped the kernel searches all mappings of the program for the
# semaphore. The first segment is mapped as long as the whole file: no other one contains the code.
AGENT_LDFLAGS := -shared -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,now -Wl,-z,noseparate-code \
                 -Wl,-soname,libmemprof_agent.so -Wl,--build-id -Wl,--compress-debug-sections=zlib
$(BUILD)/libmemprof_agent.so: $(AGENT_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) $(AGENT_CFLAGS) $(AGENT_LTO) $(AGENT_LDFLAGS) $^ -o $@
# Contains machine code, so that any compiler can link the archive.
$(BUILD)/agent/memprof_agent.o: $(AGENT_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) $(AGENT_CFLAGS) $(AGENT_LTO) -r -flinker-output=nolto-rel $^ -o $@
$(BUILD)/libmemprof_agent.a: $(BUILD)/agent/memprof_agent.o
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^
