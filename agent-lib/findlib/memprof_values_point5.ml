(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: each domain has its own word for each point. *)
type t = int

external create : string -> string -> string -> t = "memprof_values_ml_point"
external hit : (t[@untagged]) -> unit = "memprof_values_no_bytecode" "memprof_values_ml_hit" [@@noalloc]

external add : (t[@untagged]) -> (int[@untagged]) -> unit
  = "memprof_values_no_bytecode" "memprof_values_ml_add"
  [@@noalloc]
