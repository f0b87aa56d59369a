#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the module Torn: ten names of each kind (kinds.ml) for each of four workers.
echo '(* SPDX-License-Identifier: Apache-2.0 *)'
for kind in list pairs tree floats text table old; do
	for worker in 0 1 2 3; do
		for place in $(seq "$worker" 4 39); do echo "let $kind$place = Kinds.$kind $place"; done
	done
done
