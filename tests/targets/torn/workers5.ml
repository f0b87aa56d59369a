(* SPDX-License-Identifier: Apache-2.0 *)
(* In OCaml 5, workers are domains. *)
let all work =
  let domains = List.map Domain.spawn work in
  fun () -> List.iter Domain.join domains
