(* SPDX-License-Identifier: Apache-2.0 *)
(* Linking this module is enough: it keeps the agent, which waits for a memprofd to attach. *)
external keep : unit -> unit = "memprof_agent_keep" [@@noalloc]

let () = keep ()

(* Requests a heap snapshot at this place and waits for it, at most 10 s, if memprofd profiles the
   program and was started with --snapshot.when point. Returns true if a snapshot was taken. *)
external snapshot : string -> bool = "memprof_agent_snapshot_point"
