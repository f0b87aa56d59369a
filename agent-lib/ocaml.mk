# SPDX-License-Identifier: Apache-2.0
# The findlib package: ocamlfind ocamlopt -package memprof-agent -linkpkg ... Published values are the
# package memprof-agent.values within it, whose archive also has the functions of memprof_values.h;
# heap assertions are memprof-agent.check, which requires it.

FINDLIB      := $(BUILD)/findlib/memprof-agent
FINDLIB_SRC  := agent-lib/findlib
VALUES_C     := registry c_values ocaml_values ocaml_poll ocaml_check
VALUES_OCAML := memprof_values_point.ml memprof_values_store.ml memprof_values_tag.ml memprof_values.mli memprof_values.ml
CHECK_OCAML  := memprof_check.mli memprof_check.ml
VALUES_DEP   := $(wildcard $(FINDLIB_SRC)/*.ml* agent-lib/values/*) agent-lib/include/memprof_values_abi.h

# PREFIX_MAP for ocamlopt and its assembler.
$(FINDLIB)/META: export BUILD_PATH_PREFIX_MAP := .=$(CURDIR)
$(FINDLIB)/META: $(FINDLIB_SRC)/META.in $(VALUES_DEP) $(BUILD)/libmemprof_agent.a agent-lib/ocaml.mk
	$(call say,OCAML,$(FINDLIB))
	$(Q)mkdir -p $(FINDLIB)
	$(Q)cp $(FINDLIB_SRC)/memprof_agent.ml $(BUILD)/libmemprof_agent.a $(FINDLIB)/
	$(Q)cd $(FINDLIB) && ocamlfind ocamlopt -c memprof_agent.ml && \
	  ocamlfind ocamlopt -a -linkall -o memprof_agent.cmxa memprof_agent.cmx -cclib -lmemprof_agent && \
	  rm -f memprof_agent.o memprof_agent.ml
	$(Q)cp $(FINDLIB_SRC)/memprof_values.ml* $(FINDLIB_SRC)/memprof_values_store.ml $(FINDLIB_SRC)/memprof_check.ml* \
	  agent-lib/values/memprof_values.h $(FINDLIB)/
	$(Q)series=$$(ocamlfind ocamlopt -version | cut -c1); for name in point tag; do \
	  cp $(FINDLIB_SRC)/memprof_values_$$name$$series.ml $(FINDLIB)/memprof_values_$$name.ml || exit 1; done
	$(Q)where=$$(ocamlfind ocamlopt -where); for name in $(VALUES_C); do \
	  $(CC) $(AGENT_CFLAGS) -I$$where -c agent-lib/values/$$name.c -o $(FINDLIB)/$$name.o || exit 1; done
	$(Q)cd $(FINDLIB) && rm -f libmemprof_values.a && ar rcs libmemprof_values.a $(VALUES_C:%=%.o) && \
	  ocamlfind ocamlopt -g -c $(VALUES_OCAML) && \
	  ocamlfind ocamlopt -a -o memprof_values.cmxa $(addsuffix .cmx,$(basename $(filter %.ml,$(VALUES_OCAML)))) \
	    -cclib -lmemprof_values && \
	  ocamlfind ocamlopt -g -c $(CHECK_OCAML) && ocamlfind ocamlopt -a -o memprof_check.cmxa memprof_check.cmx && \
	  rm -f *.o $(filter %.ml,$(VALUES_OCAML) $(CHECK_OCAML))
	$(Q)sed 's/@VERSION@/$(VERSION)/' $< > $@
