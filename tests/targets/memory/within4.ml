(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 4 has no fibers, so this only calls the function. *)
let fiber f = f ()

(* OCaml 4 has one domain, so this starts a thread. Returns a function that waits for its end. *)
let aside f =
  let thread = Thread.create f () in
  fun () -> Thread.join thread
