(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: domains. *)
let all work =
  let domains = List.map Domain.spawn work in
  fun () -> List.iter Domain.join domains
