(* SPDX-License-Identifier: Apache-2.0 *)
(* Linking this module is all there is to do: it keeps the agent, which then
   waits for a memprofd to attach. *)
external keep : unit -> unit = "memprof_agent_keep" [@@noalloc]

let () = keep ()

(* Has memprofd take a snapshot of the heap as it is here, and waits for it, at most for 10 s: when
   memprofd profiles the program and was started with --snapshot.when point. Whether there is one. *)
external snapshot : string -> bool = "memprof_agent_snapshot_point"
