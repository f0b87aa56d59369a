(* SPDX-License-Identifier: Apache-2.0 *)
(* Forks a child every few milliseconds; the child allocates and ends, the
   parent allocates on. Prints at the end how many children there were and how
   many of them failed. *)

let[@inline never] child_work () =
  for i = 1 to 200_000 do ignore (Sys.opaque_identity (i, i, i)) done

let[@inline never] parent_work () =
  for i = 1 to 200_000 do ignore (Sys.opaque_identity [ i; i ]) done

let fork_and_wait () =
  match Unix.fork () with
  | 0 -> child_work (); Unix._exit 7
  | pid ->
    parent_work ();
    (match Unix.waitpid [] pid with _, Unix.WEXITED 7 -> true | _ -> false)

let rec run children failed =
  let failed = if fork_and_wait () then failed else failed + 1 in
  match Handshake.poll_command () with
  | Some [ "exit" ] -> (children + 1, failed)
  | Some _ | None -> run (children + 1) failed

let () =
  Handshake.ready ();
  let children, failed = run 0 0 in
  Printf.printf "{\"children\":%d,\"failed\":%d}\n%!" children failed
