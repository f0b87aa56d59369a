(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 4: a record outside of the heap. The holder of the runtime lock increments it by one
   instruction. *)
type t = { mutable hits : int }

external create : string -> string -> string -> t = "memprof_values_ml_point"

let[@inline] hit point = point.hits <- point.hits + 1
let[@inline] add point hits = point.hits <- point.hits + hits
