(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 4: one store. Who has the runtime lock marks, and takes a place before anything else can run. *)
open Memprof_values_store

(* The first field is what the daemon reads, as in OCaml 5. *)
type t = { all : store list ref; store : store }

external register : string -> string -> t -> t = "memprof_values_ml_tag"

let create name labels =
  let store = new_store () in
  register name labels { all = ref [ store ]; store }

let mark tag block = mark_block tag.store block
