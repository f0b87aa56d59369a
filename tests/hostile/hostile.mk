# SPDX-License-Identifier: Apache-2.0
# Programs and libraries of the hostile suite.

HOSTILE_DIR    := $(BUILD)/tests/hostile
HOSTILE_CFLAGS := -std=gnu11 -O2 -g -fPIC -fvisibility=hidden $(WARN) -Iagent-lib/include
targets: $(addprefix $(HOSTILE_DIR)/,libhostile.so libfake_agent.so libother_list.so canary)

$(HOSTILE_DIR)/libhostile.so: $(wildcard tests/hostile/attacks/*)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(HOSTILE_CFLAGS) -shared $(filter %.c,$^) -o $@ -lpthread
$(HOSTILE_DIR)/canary: tests/hostile/canary.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(HOSTILE_CFLAGS) -fPIE -pie $< -o $@
$(HOSTILE_DIR)/libother_list.so: tests/hostile/other_list.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(HOSTILE_CFLAGS) -shared $< -o $@
$(HOSTILE_DIR)/libfake_agent.so: tests/hostile/fake_agent.c agent-lib/include/memprof_agent_abi.h
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(HOSTILE_CFLAGS) -shared $< -o $@ -lpthread
