(* SPDX-License-Identifier: Apache-2.0 *)
(* The library of OCaml's compiler has a module with this name too, with other types. *)

type step = { name : string; mutable visits : int }

let same = ref [ { name = "home"; visits = 1 } ]
let flatten = Array.init 3 (fun i -> { name = string_of_int i; visits = i })
