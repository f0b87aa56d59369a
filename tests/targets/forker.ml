(* SPDX-License-Identifier: Apache-2.0 *)
(* Forks a child every few milliseconds. The child allocates and ends; the parent
   continues to allocate. On "exit" it ends after at least 20 children, and prints their number
   and how many of them failed. *)

let fewest_children = 20

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

let rec run children failed told_to_end =
  let failed = if fork_and_wait () then failed else failed + 1 in
  let told_to_end = told_to_end || Handshake.poll_command () = Some [ "exit" ] in
  if told_to_end && children + 1 >= fewest_children then (children + 1, failed)
  else run (children + 1) failed told_to_end

let () =
  Handshake.ready ();
  let children, failed = run 0 0 false in
  Printf.printf "{\"children\":%d,\"failed\":%d}\n%!" children failed
