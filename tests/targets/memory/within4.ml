(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 4 has no fibers: a function that is called. *)
let fiber f = f ()
