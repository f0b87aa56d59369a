(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 4: one store. The holder of the runtime lock marks, and takes a place before anything else
   can run. *)
open Memprof_values_store

(* The daemon reads the first field, as in OCaml 5. *)
type t = { all : store list ref; store : store }

external register : int -> string -> string -> t -> t = "memprof_values_ml_marks"

(* kind: enum memprof_slot_kind. *)
let create kind step name labels =
  let store = new_store step in
  register kind name labels { all = ref [ store ]; store }

let mark tag block beside = mark_block tag.store block beside
