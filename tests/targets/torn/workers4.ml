(* SPDX-License-Identifier: Apache-2.0 *)
(* In OCaml 4, workers are threads. *)
let all work =
  let threads = List.map (fun f -> Thread.create f ()) work in
  fun () -> List.iter Thread.join threads
