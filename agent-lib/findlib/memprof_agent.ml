(* SPDX-License-Identifier: Apache-2.0 *)
(* Linking this module is all there is to do: it keeps the agent, which then
   waits for a memprofd to attach. *)
external keep : unit -> unit = "memprof_agent_keep" [@@noalloc]

let () = keep ()
