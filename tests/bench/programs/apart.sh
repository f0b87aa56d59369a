#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the module Apart: a thousand references, each on a separate page.
cat <<-EOF
	(* SPDX-License-Identifier: Apache-2.0 *)
	let apart =
	  let between = ref [] in
	  fun n ->
	    let held = ref n in
	    between := List.init 400 ref :: !between;
	    Gc.minor ();
	    held
EOF
seq 1000 | sed 's/.*/let value& = apart &/'
