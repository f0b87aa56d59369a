(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 4 has no fibers: a function that is called. *)
let fiber f = f ()

(* Has only one domain: a thread. Answers with how to wait for its end. *)
let aside f =
  let thread = Thread.create f () in
  fun () -> Thread.join thread
